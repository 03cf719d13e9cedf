//! Rows of a stream that are filtered and computed on the device.

use super::source::{channel, check_by, events, parts, sessions};
use crate::compare::same_in_order;
use datafusion::arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use std::time::{Duration, Instant};

const QUERIES: [&str; 5] = [
    "SELECT * FROM s WHERE v > 300",
    "SELECT v * 2 + k AS x, t, f / 3 AS y, ts FROM s WHERE k IS NULL OR k > 0",
    "SELECT d * 2 AS x, b AND v > 0 AS y, date_trunc('second', ts) AS z FROM s WHERE v % 2 = 0",
    "SELECT t FROM s WHERE b",
    "SELECT k FROM s WHERE v > 100000",
];

#[tokio::test]
async fn streamed_rows_match_the_table() {
    let pair = sessions(&[]);
    for (rows, sizes) in [
        (0, &[1][..]),
        (1, &[1]),
        (31, &[31]),
        (32, &[7]),
        (33, &[33]),
        (3000, &[1, 700, 33, 64]),
    ] {
        let batches = parts(&events(rows, 0, 5, true, rows as u64), sizes);
        for sql in QUERIES {
            check_by(&pair, &batches, sql, same_in_order, &format!("{rows} rows")).await;
        }
    }
}

#[tokio::test]
async fn frame_size_changes_no_rows() {
    for frame in ["4096", "5000", "65536", "1048576"] {
        let pair = sessions(&[("galatea.stream.frame_size", frame)]);
        let batches = parts(&events(5000, -40_000, 90, true, 3), &[2999, 8, 1024]);
        for sql in &QUERIES[1..3] {
            check_by(
                &pair,
                &batches,
                sql,
                same_in_order,
                &format!("frames of {frame} bytes"),
            )
            .await;
        }
    }
}

/// The displayed plan of a query over a channel.
async fn plan(ctx: &SessionContext, sql: &str) -> String {
    let _sender = channel(ctx);
    let frame = ctx.sql(sql).await.expect("parses");
    let plan = frame.create_physical_plan().await.expect("plans");
    galatea::outline(&plan, false)
}

#[tokio::test]
async fn plan_shows_stream_placement_and_reasons() {
    let pair = sessions(&[("galatea.stream.lateness", "250")]);
    let placed = plan(
        &pair.gpu,
        "SELECT k, date_bin(INTERVAL '2 seconds', ts) AS w, sum(v) FROM s WHERE v > 5 GROUP BY k, w",
    )
    .await;
    for fact in [
        "GpuStreamExec",
        "persistent operator over a topic, frame 64.0 KiB",
        "2 s of ts",
        "kept up to 250 ms",
        "v > 5",
    ] {
        assert!(placed.contains(fact), "{fact}:\n{placed}");
    }
    for (sql, reason) in [
        (
            "SELECT v FROM s WHERE t = 'text 3'",
            "type Utf8 has no device representation",
        ),
        (
            "SELECT ts, count(*) FROM s GROUP BY ts",
            "no group would ever be complete",
        ),
        (
            "SELECT date_bin(INTERVAL '1 month', ts) AS w, sum(v) FROM s GROUP BY w",
            "no group would ever be complete",
        ),
    ] {
        let kept = plan(&pair.gpu, sql).await;
        assert!(
            kept.contains(reason) && !kept.contains("GpuStreamExec"),
            "{sql}\n{kept}"
        );
    }
    let off = sessions(&[("galatea.stream.enabled", "false")]);
    let kept = plan(&off.gpu, QUERIES[0]).await;
    assert!(kept.contains("galatea.stream.enabled"), "{kept}");
}

#[tokio::test]
async fn row_errors_end_the_stream() {
    let pair = sessions(&[]);
    let sender = channel(&pair.gpu);
    let sending = tokio::spawn(async move {
        let mut sent = 0;
        while sender.send(events(500, 0, 1, true, 9)).await.is_ok() {
            sent += 1;
        }
        sent
    });
    let frame = pair
        .gpu
        .sql("SELECT v / (v % 5) AS x FROM s WHERE v > -1000")
        .await;
    let error = frame
        .expect("plans")
        .collect()
        .await
        .expect_err("5 divides some v");
    assert!(error.to_string().contains("division by zero in"), "{error}");
    // The query has ended, and its channel with it.
    tokio::time::timeout(Duration::from_secs(60), sending)
        .await
        .expect("the sender learns of it")
        .expect("no panic");
    until_none_runs().await;
}

/// Waits until no persistent operator of the test process runs.
async fn until_none_runs() {
    let begun = Instant::now();
    while galatea::stream::running() > 0 {
        // Other tests run their own concurrently.
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "{}",
            galatea::stream::running()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn first(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.expect("parses");
    let mut batches = frame.execute_stream().await.expect("starts");
    batches.next().await.expect("a batch").expect("rows")
}

#[tokio::test]
async fn rows_are_returned_before_the_stream_ends() {
    let pair = sessions(&[]);
    let sender = channel(&pair.gpu);
    let endless = tokio::spawn(async move {
        while sender.send(events(10, 0, 1, false, 1)).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let batch = first(&pair.gpu, "SELECT v, ts FROM s WHERE v > -1000").await;
    assert_eq!(batch.num_rows(), 10);
    tokio::time::timeout(Duration::from_secs(60), endless)
        .await
        .expect("the sender learns that nobody reads")
        .expect("no panic");
    until_none_runs().await;
}

#[tokio::test]
async fn slow_reader_causes_backpressure() {
    let pair = sessions(&[]);
    let sender = channel(&pair.gpu);
    let (count, sent) = tokio::sync::watch::channel(0_usize);
    tokio::spawn(async move {
        for number in 0..400_usize {
            if sender.send(events(64, 0, 1, false, number as u64)).await.is_err() {
                return;
            }
            let _ = count.send(number + 1);
        }
    });
    let frame = pair
        .gpu
        .sql("SELECT v FROM s WHERE v > -1000")
        .await
        .expect("parses");
    let mut batches = frame.execute_stream().await.expect("starts");
    let mut rows = batches.next().await.expect("a batch").expect("rows").num_rows();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The rows in flight are bounded by the channel's batches and the permits of the stream.
    let before = *sent.borrow();
    assert!(
        before < 64,
        "{before} batches were taken of a reader that does not read"
    );
    while let Some(batch) = batches.next().await {
        rows += batch.expect("rows").num_rows();
    }
    assert_eq!(rows, 400 * 64);
}

#[tokio::test]
async fn streams_run_concurrently_with_other_queries() {
    let pair = sessions(&[]);
    let table = crate::data::batch(5000, 3, crate::data::Shape::Ordinary);
    pair.table("t", &[table]);
    let one = channel(&pair.gpu);
    let frame = pair
        .gpu
        .sql("SELECT v FROM s WHERE v > -1000")
        .await
        .expect("parses");
    let mut first = frame.execute_stream().await.expect("starts");
    let two = channel(&pair.gpu);
    let frame = pair
        .gpu
        .sql("SELECT v + 1 AS x FROM s WHERE v > -1000")
        .await
        .expect("parses");
    let mut second = frame.execute_stream().await.expect("starts");
    for round in 0..3 {
        one.send(events(40, 0, 1, false, round))
            .await
            .expect("it is read");
        two.send(events(50, 0, 1, false, round))
            .await
            .expect("it is read");
        assert_eq!(first.next().await.expect("a batch").expect("rows").num_rows(), 40);
        assert_eq!(
            second.next().await.expect("a batch").expect("rows").num_rows(),
            50
        );
        pair.check(
            "SELECT k, count(*), sum(v) FROM t GROUP BY k",
            true,
            "beside streams",
        )
        .await;
    }
    drop((one, two));
    assert!(first.next().await.is_none() && second.next().await.is_none());
}
