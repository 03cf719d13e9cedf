//! Groups in windows of time.

use super::source::{channel, check, check_by, events, of_times, parts, sessions};
use crate::compare::{Pair, same};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

const QUERIES: [&str; 4] = [
    "SELECT date_bin(INTERVAL '1 second', ts) AS w, count(*), sum(v), avg(f) FROM s GROUP BY w",
    "SELECT k, date_bin(INTERVAL '1 second', ts) AS w, t, count(f), sum(d), min(v), max(f) FROM s
     WHERE v > 0 GROUP BY k, w, t",
    "SELECT date_trunc('minute', ts) AS w, b, count(*), min(ts), bit_xor(v) FROM s GROUP BY w, b",
    "SELECT d, f, date_bin(INTERVAL '70 milliseconds', ts, TIMESTAMP '1999-01-01 00:00:00.003') AS w,
     count(*) FILTER (WHERE b), sum(v + 1) FROM s GROUP BY d, f, w",
];

#[tokio::test]
async fn streamed_windows_match_the_table() {
    let pair = sessions(&[]);
    for (rows, sizes) in [
        (0, &[1][..]),
        (1, &[1]),
        (31, &[31]),
        (32, &[7]),
        (33, &[33]),
        (3000, &[1, 700, 33, 64]),
    ] {
        let batches = parts(&events(rows, -7000, 5, true, rows as u64), sizes);
        for sql in QUERIES {
            check(&pair, &batches, sql, &format!("{rows} rows")).await;
        }
    }
}

#[tokio::test]
async fn frame_size_changes_no_windows() {
    for frame in ["4096", "65536", "1048576"] {
        let pair = sessions(&[
            ("galatea.stream.frame_size", frame),
            ("galatea.stream.groups", "300"),
        ]);
        let batches = parts(&events(4000, 0, 9, true, 5), &[2999, 8, 1024]);
        for sql in QUERIES {
            check(&pair, &batches, sql, &format!("frames of {frame} bytes")).await;
        }
    }
}

/// The bitmap of used slots ends at any thread of a block, and the words of the slots begin right after it.
#[tokio::test]
async fn groups_are_complete_for_any_slot_bitmap_size() {
    let sql = "SELECT date_bin(INTERVAL '1 second', ts) AS w, v, count(*), sum(v) FROM s GROUP BY w, v";
    for frame in ["4096", "8192", "20480", "65536"] {
        let pair = sessions(&[("galatea.stream.frame_size", frame)]);
        for seed in 0..2 {
            let batches = parts(&events(2500, 0, 3, false, seed), &[2500]);
            check(
                &pair,
                &batches,
                sql,
                &format!("seed {seed}, frames of {frame} bytes"),
            )
            .await;
        }
    }
}

/// No writes of a block's threads for a frame overlap without synchronisation.
#[tokio::test]
async fn threads_do_not_race() {
    let emulator = galatea::EmulatorOptions {
        races: true,
        ..galatea::EmulatorOptions::default()
    };
    let settings = [
        ("galatea.stream.blocks", "2"),
        ("galatea.stream.groups", "300"),
        ("galatea.stream.frame_size", "4096"),
    ];
    let pair = Pair::emulated(emulator, &settings);
    let batches = parts(&events(300, 0, 9, true, 6), &[300]);
    let rows = "SELECT v * 2 + k AS x, f / 3 AS y FROM s WHERE k IS NULL OR k > 0";
    for sql in [QUERIES[1], rows] {
        check(&pair, &batches, sql, "with races sought").await;
    }
}

/// Times with gaps of many windows, and batches with many windows.
#[tokio::test]
async fn windows_with_large_gaps() {
    let pair = sessions(&[]);
    let times = [
        0,
        1,
        999,
        1000,
        50_000,
        50_001,
        3_600_000,
        86_400_000,
        86_400_999,
        1 << 40,
    ];
    let batches = [of_times(times.map(Some).to_vec(), false, 1)];
    check(&pair, &batches, QUERIES[0], "gaps").await;
    let batches = parts(&events(300, 0, 20_000, true, 8), &[300]);
    check(&pair, &batches, QUERIES[1], "a window a row").await;
}

#[tokio::test]
async fn rows_with_null_time_form_the_last_window() {
    let pair = sessions(&[]);
    let mut times: Vec<Option<i64>> = (0..200).map(|row| Some(row * 30)).collect();
    times.extend([None; 40]);
    let batches = parts(&of_times(times, true, 2), &[33]);
    check(&pair, &batches, QUERIES[1], "NULL").await;
}

/// Rows that are late within the allowed lateness are in their windows.
#[tokio::test]
async fn allowed_late_rows_are_in_their_windows() {
    let mut random = StdRng::seed_from_u64(11);
    let times = (0..4000_i64).map(|row| Some(row * 3 - random.random_range(0..900)));
    let rows = of_times(times.collect(), true, 4);
    for lateness in ["900", "60000"] {
        let pair = sessions(&[("galatea.stream.lateness", lateness)]);
        for sizes in [&[4000][..], &[1, 257, 64]] {
            check(
                &pair,
                &parts(&rows, sizes),
                QUERIES[1],
                &format!("late by {lateness} ms"),
            )
            .await;
        }
    }
}

/// Rows that are later are dropped, in any batch.
#[tokio::test]
async fn rows_beyond_the_allowed_lateness_are_dropped() {
    let mut random = StdRng::seed_from_u64(12);
    let times: Vec<i64> = (0..3000_i64)
        .map(|row| row * 3 - random.random_range(0..2500))
        .collect();
    // Windows are one second, and rows may be 500 ms late. Rows before the window of the greatest time minus
    // 500 ms are dropped.
    let mut latest = i64::MIN;
    let mut kept = Vec::new();
    for time in &times {
        if latest == i64::MIN || time.div_euclid(1000) >= (latest - 500).div_euclid(1000) {
            kept.push(*time);
        }
        latest = latest.max(*time);
    }
    assert!(
        kept.len() < 2900 && kept.len() > 1000,
        "{} rows are kept",
        kept.len()
    );
    let mut counts = std::collections::BTreeMap::<i64, i64>::new();
    for time in kept {
        *counts.entry(time.div_euclid(1000)).or_default() += 1;
    }
    let rows = of_times(times.into_iter().map(Some).collect(), false, 4);
    for (sizes, frame) in [(&[3000][..], "65536"), (&[1, 257, 64], "4096")] {
        let pair = sessions(&[
            ("galatea.stream.lateness", "500"),
            ("galatea.stream.frame_size", frame),
        ]);
        let sender = channel(&pair.gpu);
        let all = parts(&rows, sizes);
        tokio::spawn(async move {
            for batch in all {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        let sql = "SELECT date_bin(INTERVAL '1 second', ts) AS w, count(*) AS n FROM s GROUP BY w";
        let found = pair
            .gpu
            .sql(sql)
            .await
            .expect("parses")
            .collect()
            .await
            .expect("runs");
        let numbers = |batch: &RecordBatch| batch.column(1).as_primitive::<Int64Type>().values().to_vec();
        let found: Vec<i64> = found.iter().flat_map(numbers).collect();
        assert_eq!(found, counts.values().copied().collect::<Vec<_>>(), "{sizes:?}");
    }
}

#[tokio::test]
async fn window_is_returned_on_completion() {
    let pair = sessions(&[]);
    let sender = channel(&pair.gpu);
    let sql = "SELECT date_bin(INTERVAL '1 second', ts) AS w, count(*) AS n FROM s GROUP BY w";
    let frame = pair.gpu.sql(sql).await.expect("parses");
    let mut windows = frame.execute_stream().await.expect("starts");
    for second in 0..3_i64 {
        sender
            .send(of_times(
                (0..20).map(|row| Some(second * 1000 + row)).collect(),
                false,
                1,
            ))
            .await
            .expect("it is read");
        if second == 0 {
            let waited = tokio::time::timeout(Duration::from_millis(200), windows.next()).await;
            assert!(waited.is_err(), "the first window is not over");
            continue;
        }
        let window = windows.next().await.expect("a window").expect("rows");
        assert_eq!(window.column(1).as_primitive::<Int64Type>().values(), &[20]);
    }
    drop(sender);
    assert_eq!(
        windows
            .next()
            .await
            .expect("the last one")
            .expect("rows")
            .num_rows(),
        1
    );
    assert!(windows.next().await.is_none());
}

#[tokio::test]
async fn too_many_groups_are_an_error() {
    let pair = sessions(&[("galatea.stream.groups", "100")]);
    let sender = channel(&pair.gpu);
    tokio::spawn(async move { while sender.send(events(500, 0, 1, true, 9)).await.is_ok() {} });
    let sql = "SELECT date_bin(INTERVAL '1 hour', ts) AS w, v, f, count(*) FROM s GROUP BY w, v, f";
    let error = pair
        .gpu
        .sql(sql)
        .await
        .expect("plans")
        .collect()
        .await
        .expect_err("500 groups");
    let text = error.to_string();
    assert!(
        text.contains("more than 100 groups") && text.contains("galatea.stream.groups"),
        "{text}"
    );
}

#[tokio::test]
async fn slow_source_and_slow_reader_change_no_windows() {
    let pair = sessions(&[]);
    let sender = channel(&pair.gpu);
    let rows = events(600, 0, 40, false, 21);
    let all = parts(&rows, &[50]);
    tokio::spawn(async move {
        for batch in all {
            tokio::time::sleep(Duration::from_millis(7)).await;
            if sender.send(batch).await.is_err() {
                return;
            }
        }
    });
    let frame = pair.gpu.sql(QUERIES[0]).await.expect("parses");
    let mut windows = frame.execute_stream().await.expect("starts");
    let mut found = Vec::new();
    while let Some(window) = windows.next().await {
        tokio::time::sleep(Duration::from_millis(11)).await;
        found.push(window.expect("rows"));
    }
    // The same at full speed.
    check_by(&pair, &parts(&rows, &[50]), QUERIES[0], same, "at full speed").await;
    let table = pair
        .cpu
        .sql(QUERIES[0])
        .await
        .expect("parses")
        .collect()
        .await
        .expect("runs");
    same(&table, &found).expect("the same windows");
}
