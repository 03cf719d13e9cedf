//! Row counts of partitions: executions of one cached plan count the rows of a table version once.

use crate::builds::BUILT;
use crate::compare::{Pair, answer};
use crate::joins::STRICT;
use crate::parts::{far, table};
use datafusion::prelude::SessionContext;
use galatea_device::{EmulatorOptions, Faults};

const JOINS: &[&str] = &[
    "SELECT count(*), sum(r.v), sum(s.v), min(r.paid) FROM s JOIN r ON s.k = r.k",
    // Keys repeat on both sides.
    "SELECT count(*), sum(a.v), sum(b.v) FROM s a JOIN s b ON a.k = b.k WHERE b.small = 1",
    // Groups in partitions.
    "SELECT k, count(*), sum(v) FROM s GROUP BY k",
];

/// A session with little memory, and the handle that counts its launches.
fn session() -> (Pair, Faults) {
    let faults = Faults::default();
    let emulator = EmulatorOptions {
        faults: faults.clone(),
        ..EmulatorOptions::default()
    };
    let settings = [
        STRICT,
        BUILT,
        ("galatea.memory.gpu_limit", "1 MiB"),
        ("galatea.tuning.chunk_rows", "2048"),
        ("galatea.cache.device", "false"),
        ("galatea.join.algorithm", "multipass"),
        ("galatea.aggregate.strategy", "hash"),
        ("galatea.tuning.hash_slots", "1024"),
    ];
    (Pair::emulated(emulator, &settings), faults)
}

/// Number of launches of a query on the device, with the CPU's answer.
async fn launches(pair: &Pair, faults: &Faults, sql: &str) -> u64 {
    faults.clear();
    pair.check(sql, true, "counted").await;
    faults.launches_done()
}

async fn run(ctx: &SessionContext, sql: &str) {
    answer(ctx, sql).await;
}

#[tokio::test]
async fn partitions_of_a_table_version_are_counted_once() {
    for sql in JOINS {
        let (pair, faults) = session();
        for ctx in [&pair.cpu, &pair.gpu] {
            ctx.register_batch("rows_r", table(20_000, true, |row| far(row * 7919 % 20_000)))
                .expect("a table");
            ctx.register_batch("rows_s", table(24_000, true, |row| far(row * 31 % 25_000)))
                .expect("a table");
            for name in ["r", "s"] {
                run(ctx, &format!("CREATE TABLE {name} AS SELECT * FROM rows_{name}")).await;
            }
        }
        // Opens the device.
        pair.check("SELECT sum(v) FROM s", true, "first").await;
        let first = launches(&pair, &faults, sql).await;
        let kept = launches(&pair, &faults, sql).await;
        assert!(kept < first, "{sql}: {kept} launches, {first} at first");
        let again = launches(&pair, &faults, sql).await;
        assert_eq!(again, kept, "{sql}: partitions were counted again");
        // Another version of the tables: rows of both sides and of keys that did not exist.
        for ctx in [&pair.cpu, &pair.gpu] {
            for name in ["r", "s"] {
                run(
                    ctx,
                    &format!(
                        "INSERT INTO {name} SELECT k + 1, v, name, small, open, paid, weight FROM rows_{name}"
                    ),
                )
                .await;
            }
        }
        launches(&pair, &faults, sql).await;
        launches(&pair, &faults, sql).await;
    }
}

/// Files are counted again after they change, although the plan is kept.
#[tokio::test]
async fn partitions_of_changed_files_are_counted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pair, faults) = session();
    let write = async |rows: i64, keys: i64| {
        let writer = Pair::new(&[]);
        writer.table("r", &[table(rows, true, |row| far(row * 7919 % keys))]);
        writer.table("s", &[table(rows, true, |row| far(row * 31 % (keys + keys / 4)))]);
        for name in ["r", "s"] {
            let file = folder.path().join(format!("{name}.parquet"));
            let sql = format!(
                "COPY {name} TO '{}' OPTIONS ('format.max_row_group_size' '2048')",
                file.display()
            );
            answer(&writer.cpu, &sql).await;
        }
    };
    write(20_000, 20_000).await;
    for ctx in [&pair.cpu, &pair.gpu] {
        for name in ["r", "s"] {
            let file = folder.path().join(format!("{name}.parquet"));
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}'",
                file.display()
            );
            run(ctx, &sql).await;
        }
    }
    let sql = JOINS[0];
    launches(&pair, &faults, sql).await;
    let kept = launches(&pair, &faults, sql).await;
    assert_eq!(
        launches(&pair, &faults, sql).await,
        kept,
        "files were counted again"
    );
    // More rows than the partitions of the first version hold, and rows of other keys.
    for (rows, keys) in [(60_000, 60_000), (1_000, 500), (24_000, 24_000)] {
        write(rows, keys).await;
        for _ in 0..2 {
            launches(&pair, &faults, sql).await;
        }
    }
}
