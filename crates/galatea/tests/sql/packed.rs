//! Codes that are packed in host memory and unpacked on the device (`galatea.tuning.transfer_compression`).

use crate::compare::Pair;
use crate::data::{Shape, batch};

/// One query for each kind of sink, and strings, which are never packed.
const QUERIES: &[&str] = &[
    "SELECT count(*), sum(i32), min(i64), max(d18), avg(f64) FROM t WHERE v >= 0",
    "SELECT low, flag, count(*), sum(d9) FROM t GROUP BY low, flag",
    "SELECT i64, u64, count(*), sum(d9) FROM t GROUP BY i64, u64",
    "SELECT i32, i64, v, low FROM t WHERE v % 3 = 1",
    "SELECT i32, v FROM t ORDER BY v DESC, i32 LIMIT 7",
    "SELECT a.k, count(*), sum(b.v) FROM t a JOIN t b ON a.v = b.v AND a.v < 500 GROUP BY a.k",
    "SELECT v, row_number() OVER (PARTITION BY k ORDER BY v) FROM t WHERE v < 900",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn packed_codes_match_plain_codes() {
    for settings in [
        &[][..],
        &[("galatea.cache.device", "false")],
        &[
            ("galatea.cache.device", "false"),
            ("galatea.tuning.persistent_scan", "on"),
        ],
        &[("galatea.memory.gpu_limit", "10 MiB")],
        &[("galatea.debug.memory_ablations", "copied")],
        &[("galatea.tuning.chunk_rows", "511")],
        &[
            ("galatea.tuning.chunk_rows", "513"),
            ("galatea.cache.device", "false"),
        ],
    ] {
        let mut all = vec![
            ("galatea.tuning.chunk_rows", "5000"),
            ("galatea.tuning.min_rows", "0"),
            ("galatea.tuning.transfer_compression", "on"),
        ];
        all.extend(settings);
        let pair = Pair::new(&all);
        let shapes = [
            (1, 1, Shape::Ordinary),
            (2, 513, Shape::Ordinary),
            (3, 30_033, Shape::Ordinary),
        ];
        for (seed, rows, shape) in shapes {
            pair.gpu.deregister_table("t").expect("deregisters");
            pair.cpu.deregister_table("t").expect("deregisters");
            pair.table("t", &[batch(rows, seed, shape)]);
            for sql in QUERIES {
                pair.check(sql, true, &format!("{settings:?}, {rows} rows, seed {seed}"))
                    .await;
            }
        }
    }
}

/// The bytes that a query over a quarter of a million rows transferred over the link.
async fn link_bytes(pack: &str) -> u64 {
    let pair = Pair::new(&[
        ("galatea.tuning.chunk_rows", "100000"),
        ("galatea.tuning.min_rows", "0"),
        ("galatea.cache.device", "false"),
        ("galatea.tuning.transfer_compression", pack),
    ]);
    for ctx in [&pair.cpu, &pair.gpu] {
        let table = "CREATE TABLE numbers AS SELECT value AS n, value * 7919 % 1000 AS k \
                     FROM generate_series(1, 250000) AS g(value)";
        ctx.sql(table)
            .await
            .expect("a plan")
            .collect()
            .await
            .expect("runs");
    }
    let sql = "SELECT k % 10, sum(n) FROM numbers GROUP BY k % 10";
    pair.check(sql, true, pack).await;
    galatea::last_query_report(&pair.gpu)
        .expect("a query ran")
        .link_bytes
}

#[tokio::test]
async fn packed_codes_reduce_transferred_bytes() {
    // Plain: 4 and 2 bytes a row. Packed: 9 bits for consecutive numbers, and 10 for a thousand values.
    let [plain, packed] = [link_bytes("off").await, link_bytes("auto").await];
    assert!((1_500_000..1_550_000).contains(&plain), "{plain} bytes");
    assert!((594_000..660_000).contains(&packed), "{packed} bytes");
}
