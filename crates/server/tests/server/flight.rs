//! Flight SQL with the client of arrow-flight.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use arrow_flight::sql::{CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables, SqlInfo};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::Code;

use crate::support::{LONG, config, fetch, flight, query, start, status, until};

#[tokio::test]
async fn queries_and_updates_return_rows_and_counts() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let table = query(&mut client, "SELECT 1 AS a, 'x' AS b, NULL AS c")
        .await
        .expect("rows");
    assert!(table.contains("| 1 | x |   |"), "{table}");
    let created = client
        .execute_update("CREATE TABLE t (a BIGINT, b VARCHAR)".to_string(), None)
        .await;
    assert_eq!(created.expect("created"), 0);
    let inserted = client
        .execute_update("INSERT INTO t VALUES (1, 'x'), (2, 'y')".to_string(), None)
        .await;
    assert_eq!(inserted.expect("inserted"), 2);
    // A statement that is run as a query takes effect once, before its description is returned.
    let info = client
        .execute("CREATE TABLE u AS SELECT a FROM t".to_string(), None)
        .await
        .expect("created");
    assert!(query(&mut client, "SELECT * FROM u").await.is_ok());
    assert!(fetch(&mut client, info).await.expect("no rows").is_empty());
    // Tables belong to all sessions.
    let mut other = flight(&server).await;
    let table = query(&mut other, "SELECT sum(t.a) AS s FROM t JOIN u ON t.a = u.a")
        .await
        .expect("rows");
    assert!(table.contains("| 3 |"), "{table}");
    let info = client
        .execute("INSERT INTO u VALUES (7), (8), (9)".to_string(), None)
        .await
        .expect("planned");
    let batches = fetch(&mut client, info).await.expect("inserted");
    assert_eq!(batches[0].num_rows(), 1);
    assert_eq!(batches[0].column(0).as_primitive::<UInt64Type>().value(0), 3);
    let table = query(&mut client, "SELECT count(*) AS n FROM u")
        .await
        .expect("rows");
    assert!(table.contains("| 5 |"), "{table}");
    server.stop().await;
}

#[tokio::test]
async fn strings_and_nested_columns_keep_their_values() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let sql = "SELECT arrow_cast('a', 'Utf8View') AS v, make_array(1, 2) AS l, named_struct('k', 1.5) AS s, \
               DATE '2026-11-28' AS d, TIMESTAMP '2026-11-28T12:00:00' AS t, CAST(1.25 AS DECIMAL(10, 2)) AS n";
    let info = client.execute(sql.to_string(), None).await.expect("planned");
    let schema = info.clone().try_decode_schema().expect("a schema");
    assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
    let batches = fetch(&mut client, info).await.expect("rows");
    assert_eq!(batches[0].schema().field(0).data_type(), &DataType::Utf8);
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "a");
    let table = arrow::util::pretty::pretty_format_batches(&batches)
        .expect("a table")
        .to_string();
    for part in ["[1, 2]", "{k: 1.5}", "2026-11-28", "2026-11-28T12:00:00", "1.25"] {
        assert!(table.contains(part), "{table}");
    }
    server.stop().await;
}

#[tokio::test]
async fn prepared_statements_bind_parameters() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    client
        .execute_update("CREATE TABLE t (a BIGINT, b VARCHAR)".to_string(), None)
        .await
        .expect("created");
    let values: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(StringArray::from(vec![Some("x"), Some("y"), None])),
    ];
    let rows = RecordBatch::try_from_iter(["$1", "$2"].into_iter().zip(values)).expect("a batch");
    let mut insert = client
        .prepare("INSERT INTO t VALUES ($1, $2)".to_string(), None)
        .await
        .expect("prepared");
    assert_eq!(insert.parameter_schema().expect("a schema").fields().len(), 2);
    insert.set_parameters(rows.slice(0, 1)).expect("set");
    assert_eq!(insert.execute_update().await.expect("inserted"), 1);
    insert.set_parameters(rows.slice(2, 1)).expect("set");
    assert_eq!(insert.execute_update().await.expect("inserted"), 1);
    insert.close().await.expect("closed");

    let select = "SELECT a, b FROM t WHERE a >= $1 ORDER BY a";
    let mut prepared = client.prepare(select.to_string(), None).await.expect("prepared");
    let parameters = prepared.parameter_schema().expect("a schema");
    assert_eq!(parameters.field(0).data_type(), &DataType::Int64);
    assert_eq!(prepared.dataset_schema().expect("a schema").fields().len(), 2);
    for (least, expected) in [(1, 2), (2, 1), (4, 0)] {
        // An integer of another size is converted.
        let least: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![least]));
        prepared
            .set_parameters(RecordBatch::try_from_iter([("p", least)]).expect("a batch"))
            .expect("set");
        let info = prepared.execute().await.expect("planned");
        let batches = fetch(&mut client, info).await.expect("rows");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), expected);
    }
    let two: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(Int64Array::from(vec![1])),
    ];
    prepared
        .set_parameters(RecordBatch::try_from_iter(["a", "b"].into_iter().zip(two)).expect("a batch"))
        .expect("set");
    let (code, message) = status(prepared.execute().await);
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(message.contains("1 parameters, and 2 values"), "{message}");
    server.stop().await;
}

#[tokio::test]
async fn catalogs_list_tables_and_properties() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    client
        .execute_update("CREATE TABLE t (a BIGINT)".to_string(), None)
        .await
        .expect("created");
    client
        .execute_update("CREATE VIEW v AS SELECT a FROM t".to_string(), None)
        .await
        .expect("created");
    let shown = async |info, client: &mut _| {
        let batches = fetch(client, info).await.expect("rows");
        arrow::util::pretty::pretty_format_batches(&batches)
            .expect("a table")
            .to_string()
    };
    let info = client.get_catalogs().await.expect("planned");
    assert!(shown(info, &mut client).await.contains("| galatea "));
    let schemas = CommandGetDbSchemas {
        catalog: Some("galatea".to_string()),
        db_schema_filter_pattern: Some("pub%".to_string()),
    };
    let info = client.get_db_schemas(schemas).await.expect("planned");
    let table = shown(info, &mut client).await;
    assert!(
        table.contains("public") && !table.contains("information_schema"),
        "{table}"
    );
    let tables = |types: &[&str]| CommandGetTables {
        catalog: None,
        db_schema_filter_pattern: None,
        table_name_filter_pattern: None,
        table_types: types.iter().map(ToString::to_string).collect(),
        include_schema: true,
    };
    let info = client.get_tables(tables(&[])).await.expect("planned");
    let batches = fetch(&mut client, info).await.expect("rows");
    assert_eq!(batches[0].num_rows(), 2);
    let info = client.get_tables(tables(&["VIEW"])).await.expect("planned");
    let batches = fetch(&mut client, info).await.expect("rows");
    assert_eq!(
        batches[0]
            .column_by_name("table_name")
            .expect("a column")
            .as_string::<i32>()
            .value(0),
        "v"
    );
    let info = client.get_table_types().await.expect("planned");
    assert!(shown(info, &mut client).await.contains("VIEW"));
    let keys = CommandGetPrimaryKeys {
        catalog: None,
        db_schema: None,
        table: "t".to_string(),
    };
    let info = client.get_primary_keys(keys).await.expect("planned");
    assert_eq!(
        fetch(&mut client, info)
            .await
            .expect("rows")
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        0
    );
    let info = client
        .get_sql_info(vec![SqlInfo::FlightSqlServerName])
        .await
        .expect("planned");
    let table = shown(info, &mut client).await;
    assert!(table.contains("Galatea"), "{table}");
    server.stop().await;
}

#[tokio::test]
async fn errors_have_a_status_and_leave_the_session_usable() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    for (sql, code, part) in [
        ("SELEC 1", Code::InvalidArgument, "SELEC"),
        ("SELECT a FROM absent", Code::NotFound, "absent"),
        ("SELECT b FROM (SELECT 1 AS a)", Code::InvalidArgument, "b"),
        (
            "SELECT 1 / (v - 1) FROM generate_series(1, 3) AS t(v)",
            Code::InvalidArgument,
            "zero",
        ),
        (
            "SELECT 9223372036854775807 + v FROM generate_series(1, 3) AS t(v)",
            Code::OutOfRange,
            "verflow",
        ),
        (
            "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
            Code::Unimplemented,
            "not available",
        ),
    ] {
        let (found, message) = status(query(&mut client, sql).await);
        assert_eq!(found, code, "{sql}: {message}");
        assert!(message.contains(part), "{sql}: {message}");
    }
    assert!(query(&mut client, "SELECT 1").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn dropped_streams_and_cancel_requests_stop_queries() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    // A query that has not returned a row.
    let info = client.execute(LONG.to_string(), None).await.expect("planned");
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let stream = client.do_get(ticket.clone()).await.expect("started");
    until("the query runs", || server.running() == 1).await;
    drop(stream);
    until("the dropped query stops", || server.running() == 0).await;
    // A query in the middle of its rows: the client has read the first batch only.
    let endless = "SELECT v FROM generate_series(1, 1000000000000) AS t(v)";
    let rows = client.execute(endless.to_string(), None).await.expect("planned");
    let mut stream = client
        .do_get(rows.endpoint[0].ticket.clone().expect("a ticket"))
        .await
        .expect("started");
    assert!(stream.next().await.expect("a batch").is_ok());
    drop(stream);
    until("the stream stops", || server.running() == 0).await;
    // A request to cancel.
    let stream = client.do_get(ticket).await.expect("started");
    until("the query runs", || server.running() == 1).await;
    let request = CancelFlightInfoRequest::new(info).encode_to_vec();
    let mut results = client
        .do_action(Action::new("CancelFlightInfo", request))
        .await
        .expect("accepted");
    let result = results.message().await.expect("a result").expect("a result");
    let result = CancelFlightInfoResult::decode(result.body).expect("a result");
    assert_eq!(result.status(), CancelStatus::Cancelled);
    let (code, message) = status(stream.try_collect::<Vec<_>>().await);
    assert_eq!(code, Code::Cancelled, "{message}");
    until("the cancelled query stops", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn slow_clients_hold_back_their_query() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let sql = "SELECT v, repeat('x', 1000) AS s FROM generate_series(1, 2000000) AS t(v)";
    let info = client.execute(sql.to_string(), None).await.expect("planned");
    let mut stream = client
        .do_get(info.endpoint[0].ticket.clone().expect("a ticket"))
        .await
        .expect("started");
    let mut rows = stream.next().await.expect("a batch").expect("a batch").num_rows();
    // 2 GB would not fit the buffers of the connection, so the query waits.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(server.running(), 1);
    let mut sum = 0;
    while let Some(batch) = stream.next().await.transpose().expect("a batch") {
        rows += batch.num_rows();
        sum += batch.column(0).as_primitive::<Int64Type>().value(0);
        if rows > 100_000 {
            break;
        }
    }
    assert!(sum > 0);
    drop(stream);
    until("the query stops", || server.running() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn settings_belong_to_the_session_of_a_token() {
    let server = start(config()).await;
    let (mut one, mut two) = (flight(&server).await, flight(&server).await);
    one.handshake("ann", "").await.expect("a session");
    two.handshake("ann", "").await.expect("a session");
    one.execute_update("SET datafusion.explain.format = 'tree'".to_string(), None)
        .await
        .expect("set");
    let show = "SHOW datafusion.explain.format";
    assert!(query(&mut one, show).await.expect("rows").contains("tree"));
    assert!(!query(&mut two, show).await.expect("rows").contains("tree"));
    // Another connection with the token has the same session.
    let mut again = flight(&server).await;
    again.set_token(one.token().expect("a token").clone());
    assert!(query(&mut again, show).await.expect("rows").contains("tree"));
    one.do_action(Action::new("CloseSession", Vec::new()))
        .await
        .expect("closed");
    assert!(
        !query(&mut again, show)
            .await
            .expect("a session of the connection")
            .contains("tree")
    );
    server.stop().await;
}

/// The time of a small query, printed for the record.
#[tokio::test]
async fn small_queries_are_fast() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        query(&mut client, "select 1").await.expect("a row");
        times.push(begun.elapsed());
    }
    times.sort();
    println!(
        "select 1 over Flight SQL: median {:?}, 95 % {:?}",
        times[100], times[190]
    );
    // Far above the usual time, for machines that are busy.
    assert!(
        times[100] < std::time::Duration::from_millis(50),
        "{:?}",
        times[100]
    );
    server.stop().await;
}
