//! Statements that change only their session: macros, variables, and SUMMARIZE.

use arrow_flight::FlightDescriptor;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use prost::Message;

use crate::support::{config, configured, flight, postgres, postgres_with, query, start, state, users};

async fn rows(client: &tokio_postgres::Client, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.into_iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL").to_string());
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    Ok(rows.collect())
}

#[tokio::test]
async fn macros_and_variables_belong_to_their_session() {
    let server = start(config()).await;
    let one = postgres(&server).await;
    let two = postgres(&server).await;
    let create = "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2), (4)";
    rows(&one, create).await.expect("created");
    rows(&one, "CREATE MACRO twice(x) AS x * 2")
        .await
        .expect("created");
    rows(&one, "SET VARIABLE least = (SELECT min(a) FROM t) + 1")
        .await
        .expect("set");
    let sql = "SELECT twice(a) FROM t WHERE a >= getvariable('least') ORDER BY 1";
    assert_eq!(rows(&one, sql).await.expect("rows"), ["4", "8"]);
    assert!(rows(&two, "SELECT twice(1)").await.is_err());
    assert_eq!(
        rows(&two, "SELECT getvariable('least')").await.expect("rows"),
        ["NULL"]
    );
    // The same text after a change of the macro.
    rows(&one, "CREATE OR REPLACE MACRO twice(x) AS x + x + 100")
        .await
        .expect("replaced");
    assert_eq!(rows(&one, sql).await.expect("rows"), ["104", "108"]);
    rows(&one, "RESET VARIABLE least; DROP MACRO twice")
        .await
        .expect("dropped");
    assert!(rows(&one, sql).await.is_err());
    // A table macro, also by the extended protocol.
    rows(&one, "CREATE MACRO above(x) AS TABLE SELECT a FROM t WHERE a > x")
        .await
        .expect("created");
    let found = one
        .query("SELECT count(*) FROM above($1::BIGINT)", &[&1_i64])
        .await
        .expect("a row");
    assert_eq!(found[0].get::<_, i64>(0), 2);
    server.stop().await;
}

#[tokio::test]
async fn summaries_have_columns_in_each_protocol() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let create = "CREATE TABLE t (a BIGINT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (3, NULL)";
    rows(&client, create).await.expect("created");
    let summary = rows(&client, "SUMMARIZE t").await.expect("a summary");
    assert_eq!(summary.len(), 2);
    assert!(summary[0].starts_with("a|Int64|1|3|2|2"), "{summary:?}");
    let summary = client
        .query("SUMMARIZE SELECT b FROM t", &[])
        .await
        .expect("a summary");
    assert_eq!(summary[0].get::<_, &str>("column_name"), "b");
    assert_eq!(summary[0].get::<_, f64>("null_percentage"), 50.0);
    let mut flight = flight(&server).await;
    let table = query(&mut flight, "SUMMARIZE t").await.expect("a summary");
    assert!(table.contains("| a           | Int64"), "{table}");
    server.stop().await;
}

/// Macros and variables count against a limit; those that exist can be replaced.
#[tokio::test]
async fn macros_and_variables_of_a_session_are_limited() {
    let mut few = config();
    few.definitions = 2;
    let server = start(few).await;
    let client = postgres(&server).await;
    for sql in [
        "CREATE MACRO one(x) AS x + 1",
        "CREATE MACRO two(x) AS x + 2",
        "CREATE OR REPLACE MACRO two(x) AS x + 20",
        "SET VARIABLE a = 1",
        "SET VARIABLE b = 2",
        "SET VARIABLE b = 3",
    ] {
        rows(&client, sql).await.expect(sql);
    }
    for (sql, kind) in [
        ("CREATE MACRO three(x) AS x + 3", "2 macros"),
        ("SET VARIABLE c = (SELECT 3)", "2 variables"),
    ] {
        let (code, message) = state(rows(&client, sql).await);
        assert_eq!(code, "53400", "{sql}: {message}");
        let expected = format!("the session has {kind}, the maximum (limits.definitions = 2)");
        assert!(message.contains(&expected), "{sql}: {message}");
    }
    assert_eq!(
        rows(
            &client,
            "SELECT one(1), two(1), getvariable('b'), getvariable('c') IS NULL"
        )
        .await
        .expect("rows"),
        ["2|21|3|t"]
    );
    // The limit is of one session.
    let other = postgres(&server).await;
    rows(&other, "CREATE MACRO three(x) AS x + 3")
        .await
        .expect("created");
    rows(&client, "DROP MACRO one").await.expect("dropped");
    rows(&client, "RESET VARIABLE a").await.expect("reset");
    rows(&client, "CREATE MACRO three(x) AS x + 3")
        .await
        .expect("created");
    rows(&client, "SET VARIABLE c = 3").await.expect("set");
    server.stop().await;
}

/// A macro is checked in each statement that calls it, also if it has changed since the statement was
/// prepared.
#[tokio::test]
async fn macros_variables_and_summaries_grant_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let (open, closed) = (root.join("open"), root.join("closed"));
    for folder in [&open, &closed] {
        std::fs::create_dir(folder).expect("a folder");
        std::fs::write(folder.join("a.csv"), "a\n1\n").expect("a file");
    }
    let role = format!("tables = ['*']\nwrite = true\nfolders = ['{}']", open.display());
    let server = start(configured(&users("tables = ['seen']", &role))).await;
    let bob = postgres_with(&server, "bob", "secret-bob")
        .await
        .expect("a connection");
    let (open, closed) = (open.join("a.csv"), closed.join("a.csv"));
    for sql in [
        "SUMMARIZE 'FILE'",
        "SUMMARIZE SELECT * FROM 'FILE'",
        "SET VARIABLE x = (SELECT max(a) FROM 'FILE')",
    ] {
        rows(&bob, &sql.replace("FILE", &open.to_string_lossy()))
            .await
            .expect(sql);
        let refused = rows(&bob, &sql.replace("FILE", &closed.to_string_lossy())).await;
        assert_eq!(state(refused).0, "42501", "{sql}");
    }
    let define = |path: &std::path::Path| {
        format!(
            "CREATE OR REPLACE MACRO f() AS TABLE SELECT a FROM '{}'",
            path.display()
        )
    };
    rows(&bob, &define(&open)).await.expect("created");
    let query = bob
        .prepare("CREATE TABLE copy AS SELECT * FROM f()")
        .await
        .expect("prepared");
    assert_eq!(rows(&bob, "SELECT a FROM f()").await.expect("rows"), ["1"]);
    rows(&bob, &define(&closed)).await.expect("created");
    assert_eq!(state(rows(&bob, "SELECT a FROM f()").await).0, "42501");
    assert_eq!(state(bob.execute(&query, &[]).await).0, "42501");
    assert!(rows(&bob, "SELECT * FROM copy").await.is_err());
    // Without the grant to write, macros write nothing, and hidden tables stay hidden.
    rows(&bob, "CREATE TABLE hidden (a INT); CREATE TABLE seen (a INT)")
        .await
        .expect("created");
    let ann = postgres_with(&server, "ann", "secret-ann")
        .await
        .expect("a connection");
    assert!(rows(&ann, "SUMMARIZE seen").await.is_ok());
    assert!(rows(&ann, "SUMMARIZE hidden").await.is_err());
    assert!(
        rows(&ann, "SET VARIABLE x = (SELECT count(*) FROM hidden)")
            .await
            .is_err()
    );
    assert!(rows(&ann, "SUMMARIZE SELECT 1 AS a INTO made").await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn schemas_are_described_without_running_statements() {
    let server = start(config()).await;
    let address = server.flight().expect("an address");
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let mut client = FlightServiceClient::new(endpoint.connect().await.expect("a connection"));
    let mut schema = async |sql: &str| {
        let command = CommandStatementQuery {
            query: sql.to_string(),
            transaction_id: None,
        };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let result = client.get_schema(descriptor).await?.into_inner();
        let schema: arrow::datatypes::Schema = result.try_into().expect("a schema");
        let fields = schema
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), field.data_type()));
        Ok::<_, tonic::Status>(fields.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        schema("SELECT 1 AS a, 'x' AS b WHERE false")
            .await
            .expect("a schema"),
        "a Int64, b Utf8"
    );
    // A statement without rows has no columns, and takes no effect.
    assert_eq!(
        schema("CREATE TABLE made AS SELECT 1 AS a")
            .await
            .expect("a schema"),
        ""
    );
    assert_eq!(
        schema("SELECT * FROM made").await.expect_err("no table").code(),
        tonic::Code::NotFound
    );
    assert_eq!(
        schema("selec").await.expect_err("no statement").code(),
        tonic::Code::InvalidArgument
    );
    let wrong = client.get_schema(FlightDescriptor::new_cmd("nothing")).await;
    assert_eq!(
        wrong.expect_err("no command").code(),
        tonic::Code::InvalidArgument
    );
    let tables = arrow_flight::sql::CommandGetTableTypes {};
    let descriptor = FlightDescriptor::new_cmd(tables.as_any().encode_to_vec());
    let result = client
        .get_schema(descriptor)
        .await
        .expect("a schema")
        .into_inner();
    let columns: arrow::datatypes::Schema = result.try_into().expect("a schema");
    assert_eq!(columns.field(0).name(), "table_type");
    server.stop().await;
}
