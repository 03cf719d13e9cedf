//! Credentials, grants, and hostile clients.

use std::fs;
use std::path::Path;
use std::time::Duration;

use galatea_server::{Config, Server, ServerError, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::support::{
    Flight, config, configured, flight, flight_as, postgres_with, query, start, state, status, users,
};

/// Statements that need a grant, with the SQLSTATE of their refusal.
fn refused(path: &str) -> Vec<(String, &'static str)> {
    let mut statements = vec![
        (
            "ALTER SYSTEM SET galatea.memory.admission = '1'".to_string(),
            "42501",
        ),
        ("SET galatea.device = 'emulated'".to_string(), "42501"),
        (
            "SET datafusion.runtime.memory_limit = '100G'".to_string(),
            "42501",
        ),
        ("SET datafusion.catalog.location = '/'".to_string(), "42501"),
        (
            "CREATE FUNCTION f(x INT) RETURNS INT RETURN x".to_string(),
            "0A000",
        ),
        ("CREATE SCHEMA s".to_string(), "0A000"),
        ("LOAD 'a.so'".to_string(), "0A000"),
    ];
    for path in [
        path,
        "/etc/passwd",
        "../../../../etc/passwd",
        "file:///etc/passwd",
    ] {
        statements.push((format!("COPY (SELECT 1) TO '{path}.csv'"), "42501"));
        statements.push((
            format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{path}'"),
            "42501",
        ));
    }
    statements
}

#[tokio::test]
async fn clients_without_grants_reach_no_files_and_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secret.csv");
    fs::write(&file, "a\n1\n").expect("written");
    let path = file.to_str().expect("UTF-8");
    let server = start(config()).await;
    let client = crate::support::postgres(&server).await;
    for (sql, code) in refused(path) {
        let (found, message) = state(client.simple_query(&sql).await);
        // LOAD is not SQL of DataFusion's parser, either.
        assert!(
            found == code || (sql.starts_with("LOAD") && found == "42601"),
            "{sql}: {found} {message}"
        );
    }
    for sql in [
        format!("SELECT * FROM '{path}'"),
        format!("SELECT * FROM \"{path}\""),
        "SELECT * FROM '/etc/*'".to_string(),
        format!("SELECT * FROM galatea.public.\"{path}\""),
        format!("SHOW COLUMNS FROM '{path}'"),
        format!("CREATE VIEW v AS SELECT * FROM '{path}'"),
        format!("SELECT * FROM read_csv('{path}')"),
        format!("SELECT * FROM parquet_metadata('{path}')"),
    ] {
        let (code, message) = state(client.simple_query(&sql).await);
        assert_ne!(code, "XX000", "{sql}: {message}");
        assert!(!message.contains("root:"), "{sql}: {message}");
    }
    assert!(!folder.path().join("secret.csv.csv").exists());
    assert!(client.simple_query("SELECT 1").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn wrong_credentials_are_refused() {
    let server = start(configured(&users(
        "tables = ['*']",
        "tables = ['*']\nwrite = true",
    )))
    .await;
    for (user, password) in [
        ("ann", "wrong"),
        ("nobody", "secret-ann"),
        ("ann", ""),
        ("t", "t0ken"),
    ] {
        let mut client = flight(&server).await;
        let refused = client
            .handshake(user, password)
            .await
            .expect_err("refused")
            .to_string();
        assert!(refused.contains("password authentication failed"), "{refused}");
        let refused = postgres_with(&server, user, password).await.map(drop);
        if password.is_empty() {
            // The client itself refuses to send an empty password.
            assert!(refused.is_err());
        } else {
            assert_eq!(state(refused).0, "28P01", "{user}");
        }
    }
    let mut client = flight(&server).await;
    assert_eq!(
        status(query(&mut client, "SELECT 1").await).0,
        Code::Unauthenticated
    );
    for token in ["", "wrong", "SCRAM"] {
        client.set_token(token.to_string());
        assert_eq!(
            status(query(&mut client, "SELECT 1").await).0,
            Code::Unauthenticated
        );
        assert_eq!(status(client.get_catalogs().await).0, Code::Unauthenticated);
    }
    client.set_token("t0ken".to_string());
    assert!(query(&mut client, "SELECT 1").await.is_ok());
    assert!(
        query(&mut flight_as(&server, "ann").await, "SELECT 1")
            .await
            .is_ok()
    );
    assert!(postgres_with(&server, "bob", "secret-bob").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn roles_see_their_tables_only() {
    let grants = users("tables = ['open_*']", "tables = ['*']\nwrite = true");
    let server = start(configured(&grants)).await;
    let mut bob = flight_as(&server, "bob").await;
    let run = async |client: &mut Flight, sql: &str| client.execute_update(sql.to_string(), None).await;
    for sql in [
        "CREATE TABLE open_a AS SELECT 1 AS a",
        "CREATE TABLE closed AS SELECT 2 AS b",
        "CREATE VIEW open_view AS SELECT b FROM closed",
    ] {
        run(&mut bob, sql).await.expect(sql);
    }
    let mut ann = flight_as(&server, "ann").await;
    assert!(query(&mut ann, "SELECT a FROM open_a").await.is_ok());
    // A view has the rights of its author.
    assert!(
        query(&mut ann, "SELECT b FROM open_view")
            .await
            .expect("rows")
            .contains("| 2 |")
    );
    for sql in [
        "SELECT b FROM closed",
        "SELECT b FROM galatea.public.closed",
        "SELECT count(*) FROM \"closed\"",
        "DESCRIBE closed",
    ] {
        let (code, message) = status(query(&mut ann, sql).await);
        assert_eq!(code, Code::NotFound, "{sql}: {message}");
    }
    for sql in [
        "INSERT INTO open_a VALUES (2)",
        "DROP TABLE open_a",
        "DROP TABLE closed",
        "CREATE TABLE open_b AS SELECT 1",
        "SELECT 1 INTO open_b",
        "CREATE TABLE closed AS SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM open_a",
        "PREPARE p AS INSERT INTO open_a VALUES (2)",
    ] {
        let (code, message) = status(run(&mut ann, sql).await);
        assert_eq!(code, Code::PermissionDenied, "{sql}: {message}");
    }
    let names = query(&mut ann, "SELECT table_name FROM information_schema.tables")
        .await
        .expect("rows");
    assert!(names.contains("open_a") && !names.contains("closed"), "{names}");
    let pg = postgres_with(&server, "ann", "secret-ann")
        .await
        .expect("a connection");
    let names = pg
        .query("SELECT relname::text FROM pg_catalog.pg_class", &[])
        .await
        .expect("rows");
    let names: Vec<&str> = names.iter().map(|row| row.get(0)).collect();
    assert!(
        names.contains(&"open_a") && !names.contains(&"closed"),
        "{names:?}"
    );
    // The device's tables list columns of all clients.
    assert!(query(&mut ann, "SELECT * FROM galatea_memory()").await.is_err());
    assert!(query(&mut bob, "SELECT * FROM galatea_memory()").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn granted_folders_are_the_only_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let (open, closed) = (root.join("open"), root.join("closed"));
    for path in [&open, &closed] {
        fs::create_dir(path).expect("created");
        fs::write(path.join("a.csv"), "a\n7\n").expect("written");
    }
    std::os::unix::fs::symlink(&closed, open.join("link")).expect("a link");
    let at = |path: &str| root.join(path).to_string_lossy().into_owned();
    let open = at("open");
    let grants = format!(
        "tables = ['*']\nwrite = true\nfolders = ['{open}']\ncopy_to = ['{open}']\nexternal_tables = true"
    );
    let server = start(configured(&users("tables = ['*']", &grants))).await;
    let mut bob = flight_as(&server, "bob").await;
    for path in ["open/a.csv", "open/*.csv"] {
        let table = query(&mut bob, &format!("SELECT a FROM '{}'", at(path)))
            .await
            .expect(path);
        assert!(table.contains("| 7 |"), "{table}");
    }
    for path in [
        "closed/a.csv",
        "open/../closed/a.csv",
        "open/link/a.csv",
        "*/a.csv",
        "open/../closed/*.csv",
    ] {
        let path = at(path);
        for sql in [
            format!("SELECT a FROM '{path}'"),
            format!("SELECT a FROM \"{path}\""),
            format!("SELECT a FROM galatea.public.\"{path}\""),
            format!("SELECT 1 WHERE 7 IN (SELECT a FROM '{path}')"),
            format!("WITH q AS (SELECT a FROM '{path}') SELECT * FROM q"),
            format!("CREATE TABLE stolen AS SELECT a FROM '{path}'"),
            format!("CREATE EXTERNAL TABLE stolen STORED AS CSV LOCATION '{path}'"),
            format!("COPY (SELECT 1) TO '{path}'"),
            format!("COPY (SELECT a FROM '{path}') TO '{open}/stolen.csv'"),
            format!("EXPLAIN ANALYZE SELECT a FROM '{path}'"),
            format!("SHOW COLUMNS FROM '{path}'"),
            format!("SHOW COLUMNS IN \"{path}\""),
            format!("DESCRIBE '{path}'"),
            format!("/* {} */ SHOW COLUMNS FROM '{path}'", "-".repeat(10_000)),
            format!("ALTER TABLE '{path}' SET (conflict_layout = 'auto')"),
        ] {
            let (code, message) = status(query(&mut bob, &sql).await);
            assert_eq!(code, Code::PermissionDenied, "{sql}: {message}");
        }
    }
    let copied = bob
        .execute_update(format!("COPY (SELECT 8 AS b) TO '{open}/b.csv'"), None)
        .await;
    assert_eq!(copied.expect("copied"), 1);
    assert!(Path::new(&at("open/b.csv")).exists() && !Path::new(&at("open/stolen.csv")).exists());
    let external = format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{open}/b.csv'");
    bob.execute_update(external, None).await.expect("created");
    // Another role reads the table, but not the file.
    let mut ann = flight_as(&server, "ann").await;
    assert!(
        query(&mut ann, "SELECT b FROM e")
            .await
            .expect("rows")
            .contains("| 8 |")
    );
    assert!(
        query(&mut ann, &format!("SELECT b FROM '{open}/b.csv'"))
            .await
            .is_err()
    );
    server.stop().await;
}

/// The reply of the Postgres port to these bytes, until the server closes the connection or is silent.
async fn reply(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.postgres().expect("an address"))
        .await
        .expect("connected");
    stream.write_all(bytes).await.expect("sent");
    let mut reply = Vec::new();
    let read = stream.read_to_end(&mut reply);
    let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
    reply
}

#[tokio::test]
async fn hostile_messages_leave_the_server_alive() {
    let mut hostile = config();
    hostile.message = 1 << 20;
    let server = start(hostile).await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 8, 0, 3, 0, 0],
        &[0, 0, 0, 4],
        &[0x16, 3, 1, 0, 5],
        &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
    ] {
        reply(&server, bytes).await;
    }
    // A message above the limit is refused by its header.
    let mut startup = vec![0, 0, 0, 0, 0, 3, 0, 0];
    startup.extend(b"user\0ann\0\0");
    startup[3] = startup.len() as u8;
    let mut message = startup.clone();
    message.extend([b'Q', 0x7f, 0, 0, 0]);
    let answer = reply(&server, &message).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.contains("54000") && answer.contains("limits.message"),
        "{answer}"
    );
    let client = crate::support::postgres(&server).await;
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    assert!(client.simple_query(&long).await.is_err());
    let mut client = flight(&server).await;
    let (code, message) = status(query(&mut client, &long).await);
    assert_eq!(code, Code::OutOfRange, "{message}");
    // Deep statements are refused by both protocols.
    let client = crate::support::postgres(&server).await;
    let mut other = flight(&server).await;
    for deep in [
        format!("SELECT {}1{}", "(".repeat(1000), ")".repeat(1000)),
        format!("SELECT {}1", "NOT ".repeat(20_000)),
        format!("SELECT {}1", "- ".repeat(20_000)),
        format!(
            "SELECT pg_catalog.version(), {}1{}",
            "(".repeat(10_000),
            ")".repeat(10_000)
        ),
    ] {
        let (code, message) = state(client.simple_query(&deep).await);
        assert_ne!(code, "XX000", "{message}");
        assert!(query(&mut other, &deep).await.is_err());
    }
    // A long chain is not deep.
    let wide = format!("SELECT {}1", "1 + ".repeat(500));
    assert!(query(&mut other, &wide).await.expect("a row").contains("501"));
    assert!(client.simple_query("SELECT 1").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn startup_with_binary_garbage_in_scram_is_refused() {
    let server = start(configured(&users("tables = ['*']", "tables = ['*']"))).await;
    let mut startup = vec![0, 0, 0, 0, 0, 3, 0, 0];
    startup.extend(b"user\0ann\0\0");
    startup[3] = startup.len() as u8;
    for message in [
        &b"p\x00\x00\x00\x08abc\x00"[..],
        b"p\x00\x00\x00\x1fSCRAM-SHA-256\x00\x00\x00\x00\x09n,,n=u,r=",
        b"Q\x00\x00\x00\x0dSELECT 1\x00",
        b"X\x00\x00\x00\x04",
    ] {
        let mut bytes = startup.clone();
        bytes.extend(message);
        let answer = reply(&server, &bytes).await;
        assert!(!answer.contains(&b'Z'), "{message:?} was accepted: {answer:?}");
    }
    assert!(postgres_with(&server, "ann", "secret-ann").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn public_addresses_need_users_and_tls() {
    let mut public = config();
    public.flight = Some(([0, 0, 0, 0], 0).into());
    assert!(matches!(
        Server::start(public.clone()).await,
        Err(ServerError::Insecure { .. })
    ));
    public.insecure = true;
    start(public).await.stop().await;
    assert!(matches!(
        Server::start(Config::default()).await,
        Err(ServerError::Nothing)
    ));
}

#[tokio::test]
async fn tls_encrypts_flight_and_is_required_by_postgres() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut encrypted = configured(&users("tables = ['*']", "tables = ['*']"));
    encrypted.tls = Some(TlsFiles {
        certificate: data.join("localhost.crt"),
        key: data.join("localhost.key"),
    });
    let server = start(encrypted.clone()).await;
    let port = server.flight().expect("an address").port();
    let credentials = galatea_server::Credentials::Password {
        user: "ann".to_string(),
        password: "secret-ann".to_string(),
    };
    let authority = data.join("localhost.crt");
    let address = format!("localhost:{port}");
    let mut client = galatea_server::Client::connect(&address, Some(&authority), &credentials)
        .await
        .expect("a connection");
    let rows = client.run("SELECT 1 AS a").await.expect("rows");
    let rows = datafusion::physical_plan::common::collect(rows)
        .await
        .expect("rows");
    assert_eq!(rows[0].num_rows(), 1);
    assert!(
        galatea_server::Client::connect(&address, None, &credentials)
            .await
            .is_err()
    );
    let (code, message) = state(postgres_with(&server, "ann", "secret-ann").await);
    assert_eq!(code, "28000", "{message}");
    server.stop().await;
    encrypted.tls = Some(TlsFiles {
        certificate: data.join("localhost.key"),
        key: data.join("localhost.key"),
    });
    assert!(matches!(Server::start(encrypted).await, Err(ServerError::Tls(_))));
}
