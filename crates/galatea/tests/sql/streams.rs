//! Inputs that a pipeline must not collect: the steps of recursive queries, and unbounded streams.

mod folders;
mod rows;
mod source;
mod windows;

use crate::compare::Pair;
use crate::data::{Shape, batch};
use datafusion::arrow::util::pretty::pretty_format_batches;

#[tokio::test]
async fn recursive_steps_read_rows_of_the_previous_step() {
    let pair = Pair::new(&[]);
    pair.table("t", &[batch(50, 3, Shape::Ordinary)]);
    pair.table("u", &[batch(9, 4, Shape::Ordinary)]);
    for sql in [
        "WITH RECURSIVE r AS (SELECT k, v FROM t WHERE v < 3 UNION ALL SELECT r.k, r.v + u.v + 10 FROM r JOIN u ON r.k = u.k
         WHERE r.v < 20) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT k, v FROM t WHERE v < 3 UNION ALL SELECT k, v + 10 FROM r WHERE v < 40 AND k < 4)
         SELECT k, count(*), sum(v) FROM r GROUP BY k",
        "WITH RECURSIVE r AS (SELECT v FROM t WHERE v = 1 UNION SELECT t.v FROM t JOIN r ON t.v = r.v + 3)
         SELECT count(*), max(v) FROM r",
        "WITH RECURSIVE r AS (SELECT v FROM t WHERE v = 1 UNION ALL SELECT r.v + 1 FROM r WHERE r.v IN (SELECT u.v + 3 FROM u))
         SELECT v FROM r",
    ] {
        pair.check(sql, false, "recursive").await;
    }
}

#[tokio::test]
async fn unbounded_external_file_is_a_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.csv");
    std::fs::write(&path, "k,v\n1,2\n1,3\n2,4\n").expect("writes");
    let pair = Pair::new(&[]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let sql = format!(
            "CREATE UNBOUNDED EXTERNAL TABLE s (k INT, v INT) STORED AS CSV WITH ORDER (k ASC) LOCATION '{}'
             OPTIONS ('format.has_header' 'true')",
            path.display()
        );
        ctx.sql(&sql).await.expect("a stream");
    }
    // Refused, because the first group would wait for the end of the stream.
    let sql = "SELECT v, count(*) FROM s GROUP BY v";
    assert!(pair.cpu.sql(sql).await.expect("plans").collect().await.is_err());
    pair.check(sql, false, "a stream").await;
    // DataFusion returns group by group, in the order of the stream.
    pair.check("SELECT k, sum(v) FROM s GROUP BY k", false, "a sorted stream")
        .await;
    pair.check("SELECT k, v + 1 FROM s WHERE v > 2", true, "a filtered stream")
        .await;
}

/// The lines of `sql`, or the message of its error.
async fn shown(ctx: &datafusion::prelude::SessionContext, sql: &str) -> String {
    let rows = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await,
        Err(error) => Err(error),
    };
    match rows {
        Ok(rows) => pretty_format_batches(&rows).expect("rows").to_string(),
        Err(error) => error.strip_backtrace(),
    }
}

#[tokio::test]
async fn explain_of_streams_shows_sql_and_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = Pair::new(&[]);
    let location = folder.path().display();
    for (name, order) in [("ordered", "WITH ORDER (ts)"), ("unordered", "")] {
        let sql = format!(
            "CREATE UNBOUNDED EXTERNAL TABLE {name} (ts TIMESTAMP, page VARCHAR) STORED AS CSV {order} LOCATION '{location}/'"
        );
        pair.gpu.sql(&sql).await.expect("a stream");
    }
    for (window, key) in [
        ("date_bin(INTERVAL '1 minute', ts)", "keys=[date_bin(60 s, ts)]"),
        (
            "date_bin(INTERVAL '70 milliseconds', ts, TIMESTAMP '2001-01-01')",
            "keys=[date_bin(70 ms, ts, '2001-01-01T00:00:00')]",
        ),
        ("date_trunc('hour', ts)", "keys=[date_trunc('hour', ts)]"),
    ] {
        let sql = format!("EXPLAIN FORMAT INDENT SELECT {window} AS w, count(*) FROM ordered GROUP BY w");
        let plan = shown(&pair.gpu, &sql).await;
        assert!(plan.contains(key), "{key} is missing:\n{plan}");
        let sql = format!("SELECT {window} AS w, count(*) FROM unordered GROUP BY w");
        let error = shown(&pair.gpu, &sql).await;
        let reason = "a stream: no window would ever be complete: the input is not declared to be ordered";
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains(" { "), "a debug dump:\n{error}");
    }
    let sql = "SELECT ts + INTERVAL '1 day', date_bin(INTERVAL '1 minute', ts) FROM ordered
               WHERE date_bin(INTERVAL '1 minute', ts) > TIMESTAMP '2020-01-01'";
    let frame = pair.gpu.sql(sql).await.expect("parses");
    let outline = galatea::outline(&frame.create_physical_plan().await.expect("plans"), false);
    for part in [
        "date_bin(60 s, ts) > '2020-01-01T00:00:00'",
        "ts + INTERVAL '1 days'",
    ] {
        assert!(outline.contains(part), "{part} is missing:\n{outline}");
    }
    assert!(!outline.contains(" { "), "a debug dump:\n{outline}");
    let error = shown(&pair.gpu, "SELECT page, count(*) FROM ordered GROUP BY page").await;
    assert!(error.contains("no group would ever be complete"), "{error}");
}
