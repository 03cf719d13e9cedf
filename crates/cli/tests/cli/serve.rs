//! `galatea serve`, `galatea connect` and `galatea top`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{command, galatea, galatea_with_input};

/// A server that is killed if its test fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn passwords_and_tokens_are_hashed() {
    let directory = tempfile::tempdir().expect("a folder");
    let hashed = galatea_with_input(directory.path(), &["serve", "hash-password"], "secret\n");
    assert!(hashed.out.starts_with("SCRAM-SHA-256$16384:"), "{hashed:?}");
    let empty = galatea_with_input(directory.path(), &["serve", "hash-password"], "\n");
    assert_eq!(empty.code, 1);
    assert!(empty.err.contains("the password cannot be used"), "{empty:?}");
    let token = galatea(directory.path(), &["serve", "new-token"]);
    let hash = token.out.lines().find_map(|line| line.strip_prefix("sha256 "));
    assert_eq!(hash.map(str::len), Some(64), "{token:?}");
}

#[test]
fn unsafe_and_wrong_configurations_are_refused() {
    let directory = tempfile::tempdir().expect("a folder");
    let public = galatea(directory.path(), &["serve", "--flight", "0.0.0.0:0"]);
    assert_eq!(public.code, 1);
    assert!(
        public.err.contains("refused to listen on 0.0.0.0:0") && public.err.contains("--insecure"),
        "{public:?}"
    );
    std::fs::write(
        directory.path().join("server.toml"),
        "[listen]\nflihgt = '127.0.0.1:0'\n",
    )
    .expect("written");
    let unknown = galatea(directory.path(), &["serve", "--config", "server.toml"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.err.contains("unknown field `flihgt`"), "{unknown:?}");
    let absent = galatea(directory.path(), &["connect", "127.0.0.1:1", "-c", "SELECT 1"]);
    assert_eq!(absent.code, 1);
    assert!(absent.err.contains("cannot connect to 127.0.0.1:1"), "{absent:?}");
    let absent = galatea(directory.path(), &["top", "127.0.0.1:1", "--once"]);
    assert_eq!(absent.code, 1);
    assert!(absent.err.contains("cannot connect to 127.0.0.1:1"), "{absent:?}");
    let wrong = galatea(directory.path(), &["top", "--json"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn connect_prints_rows_of_the_server_until_sigterm() {
    let directory = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(directory.path().join("data")).expect("a folder");
    std::fs::write(
        directory.path().join("data/fruit.csv"),
        "id,name\n1,apple\n2,pear\n",
    )
    .expect("written");
    let arguments = [
        "serve",
        "--flight",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--data",
        "data",
        "--set",
        "galatea.device=cpu",
    ];
    let mut started = command(directory.path(), &arguments);
    let started = started
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut server = Server(started);
    let log = BufReader::new(server.0.stderr.take().expect("piped"));
    let mut lines = log.lines().map_while(Result::ok);
    let flight = lines
        .find(|line| line.starts_with("Flight SQL"))
        .expect("an address");
    let address = flight.split_whitespace().last().expect("an address").to_string();
    let page = lines.find(|line| line.starts_with("Page")).expect("a page");
    let page = page.split_whitespace().last().expect("an address");
    let page = page
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_string();
    // The server may write its log at any time.
    std::thread::spawn(move || lines.for_each(drop));

    let csv = galatea(
        directory.path(),
        &[
            "connect",
            &address,
            "--format",
            "csv",
            "-c",
            "SELECT * FROM fruit ORDER BY id",
        ],
    );
    assert_eq!(
        (csv.code, csv.out.as_str()),
        (0, "id,name\n1,apple\n2,pear"),
        "{csv:?}"
    );
    assert!(
        csv.err.contains("2 rows in") && csv.err.contains(&address),
        "{csv:?}"
    );
    let table = galatea_with_input(
        directory.path(),
        &["connect", &address, "-q"],
        "CREATE TABLE t AS SELECT count(*) AS n FROM fruit;\nSELECT n FROM t;\n\\pset format json\nSELECT n + 1 AS m FROM t;\n",
    );
    assert_eq!(table.code, 0, "{table:?}");
    assert!(
        table.out.contains("| 2 |") && table.out.contains("[{\"m\":3}]"),
        "{table:?}"
    );
    let copied = |copy: &str| galatea(directory.path(), &["connect", &address, "-c", copy]);
    for (copy, expected) in [
        ("COPY fruit TO STDOUT", "id,name\n1,apple\n2,pear"),
        (
            "COPY (SELECT id, name AS \"TO\" FROM fruit WHERE id > 1) TO '-' (FORMAT json)",
            "{\"id\":2,\"TO\":\"pear\"}",
        ),
        (
            "COPY (FROM fruit WHERE id > 5) TO STDOUT (FORMAT csv, HEADER)",
            "id,name",
        ),
        (
            "COPY (SELECT name FROM fruit ORDER BY id DESC) TO STDOUT (FORMAT csv, HEADER false)",
            "pear\napple",
        ),
    ] {
        let ran = copied(copy);
        assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{copy}\n{ran:?}");
        assert!(ran.err.contains(&address), "{ran:?}");
    }
    let missing = copied("COPY missing TO STDOUT");
    assert_eq!((missing.code, missing.out.as_str()), (1, ""), "{missing:?}");
    assert!(missing.err.contains("missing"), "{missing:?}");
    let error = galatea(
        directory.path(),
        &["connect", &address, "-c", "SELECT colour FROM fruit"],
    );
    assert_eq!(error.code, 1);
    assert!(error.err.contains("colour"), "{error:?}");

    let top = galatea(directory.path(), &["top", &page, "--once"]);
    assert_eq!(top.code, 0, "{top:?}");
    let statement = "done      CPU ";
    let line = top
        .out
        .lines()
        .find(|line| line.ends_with("SELECT * FROM fruit ORDER BY id"));
    assert!(line.is_some_and(|line| line.contains(statement)), "{top:?}");
    assert!(
        top.out.contains("local, administrator") && !top.out.contains('\x1b'),
        "{top:?}"
    );
    let json = galatea(directory.path(), &["top", &page, "--once", "--json"]);
    assert!(
        json.out.starts_with("{\"version\":1,") && json.out.contains("FROM fruit"),
        "{json:?}"
    );

    let killed = Command::new("kill")
        .arg("-TERM")
        .arg(server.0.id().to_string())
        .status();
    assert!(killed.expect("kill runs").success());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = server.0.try_wait().expect("a status") {
            break status;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the server does not end"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

/// A database among the folders of tables is refused.
#[test]
fn serve_refuses_databases() {
    let directory = tempfile::tempdir().expect("a folder");
    let made = galatea(
        directory.path(),
        &["data/my.db", "CREATE TABLE t AS SELECT 1 AS a"],
    );
    assert_eq!(made.code, 0, "{made:?}");
    for folder in ["data", "data/my.db"] {
        let refused = galatea(
            directory.path(),
            &["serve", "--flight", "127.0.0.1:0", "--data", folder],
        );
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(
            refused.err.contains("my.db' is a database of Galatea") && refused.err.contains("COPY t TO"),
            "{refused:?}"
        );
    }
}
