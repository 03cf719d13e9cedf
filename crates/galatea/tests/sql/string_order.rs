//! Orders of all rows, and windows, by strings without a dictionary: the device converts their places to
//! ranks.

use crate::compare::{Pair, same, same_in_order};
use crate::extremes::table;
use crate::joins::{STRICT, text};
use galatea::EmulatorOptions;

/// Orders without ties.
const ORDERS: &[&str] = &[
    "SELECT text, v FROM t ORDER BY text, v",
    "SELECT text, v, wide FROM t WHERE few <> 2 ORDER BY text DESC, v",
    "SELECT v FROM t ORDER BY text NULLS FIRST, v DESC",
    "SELECT v, few FROM t ORDER BY few DESC, text DESC NULLS LAST, wide, v",
    // The field of a place begins in the preceding word.
    "SELECT v FROM t ORDER BY text, wide DESC, text DESC, v",
    "SELECT v FROM t ORDER BY wide, text DESC, v",
    "SELECT v FROM t ORDER BY few, many, text, reverse(text) DESC, v",
    "SELECT upper(text) AS u, v FROM t ORDER BY u DESC, text NULLS FIRST, v",
    "SELECT v FROM t ORDER BY concat(text, few), v",
    "SELECT v FROM t WHERE text IS NOT NULL ORDER BY text || text, v",
    "SELECT text, v FROM t WHERE text LIKE '%0%' ORDER BY CASE WHEN few = 1 THEN 'https' ELSE text END, v",
    "SELECT v FROM t ORDER BY CAST(many AS VARCHAR), v",
    "SELECT text, v FROM t ORDER BY text, v OFFSET 17",
    "SELECT v FROM t WHERE v < 0 ORDER BY text",
    "SELECT v FROM t WHERE text IS NULL ORDER BY text, v",
];

/// Ordered rows of groups, joins and unions, if these stay on the device.
const ROWS_OF_OTHERS: &[&str] = &[
    "SELECT text, count(*) AS n, sum(v) FROM t GROUP BY text ORDER BY text",
    "SELECT many, min(text) AS a, max(text) AS b FROM t GROUP BY many ORDER BY a DESC NULLS LAST, b, many",
    "SELECT text, few, count(*) FROM t GROUP BY text, few ORDER BY few DESC, text DESC",
    "SELECT a.v, b.v AS w FROM t a JOIN t b ON a.many = b.v ORDER BY a.text, b.text DESC, a.v",
    "SELECT a.v, b.text FROM t a JOIN t b ON a.text = b.text ORDER BY b.text DESC, a.v, b.v",
    "SELECT text, v FROM (SELECT text, v FROM t WHERE few = 1 UNION ALL SELECT upper(text), -v FROM t WHERE few = 2) ORDER BY text, v",
];

const WINDOWS: &[&str] = &[
    "SELECT v, row_number() OVER (ORDER BY text, v) AS r FROM t",
    "SELECT v, rank() OVER (PARTITION BY few ORDER BY text DESC) AS r, dense_rank() OVER (PARTITION BY few ORDER BY text DESC) AS d FROM t",
    "SELECT v, sum(v) OVER (PARTITION BY text) AS s, count(*) OVER (PARTITION BY text ORDER BY v) AS c FROM t",
    "SELECT v, sum(v) OVER (PARTITION BY text ORDER BY text) AS s FROM t",
    "SELECT v, lag(v) OVER (PARTITION BY upper(text) ORDER BY wide, v) AS l FROM t",
    "SELECT v, max(wide) OVER (ORDER BY text, v ROWS 3 PRECEDING) AS m FROM t WHERE few > 0",
    "SELECT v, percent_rank() OVER (PARTITION BY few, text ORDER BY reverse(text), v) AS p FROM t",
    "SELECT few, sum(r) FROM (SELECT few, v, rank() OVER (PARTITION BY few ORDER BY text) AS r FROM t) WHERE r < 40 GROUP BY few",
    "SELECT few, v, r FROM (SELECT few, v, row_number() OVER (PARTITION BY few ORDER BY text, v) AS r FROM t) WHERE r <= 3 ORDER BY few, r",
];

/// The first rows of an order by strings. Equal rows have equal output columns.
const FIRST: &[&str] = &[
    "SELECT text, v FROM t ORDER BY text, v LIMIT 20",
    "SELECT concat(text, few) AS c, v FROM t ORDER BY c DESC NULLS LAST, v LIMIT 11",
    "SELECT v FROM t WHERE few > 0 ORDER BY reverse(text), v DESC LIMIT 40 OFFSET 3",
    "SELECT upper(text) FROM t ORDER BY upper(text) LIMIT 9",
    "SELECT v FROM t ORDER BY text || 'x' NULLS FIRST, few, v LIMIT 5",
];

async fn all_of_them(pair: &Pair, context: &str) {
    let ordered = ORDERS.iter().chain(ROWS_OF_OTHERS).chain(FIRST);
    let ordered = ordered.map(|sql| (sql, true));
    for (sql, in_order) in ordered.chain(WINDOWS.iter().map(|sql| (sql, false))) {
        let compared = match in_order {
            true => pair.compare(sql, same_in_order).await,
            false => pair.compare(sql, same).await,
        };
        if let Err(difference) = compared {
            panic!("{context}\n{sql}\n{difference}");
        }
    }
}

#[tokio::test]
async fn string_order_matches_the_cpu_at_every_size() {
    for rows in [0, 1, 31, 32, 33, 257, 4000] {
        let pair = Pair::new(&[
            ("galatea.tuning.chunk_rows", "1500"),
            ("galatea.tuning.build_rows", "1"),
        ]);
        pair.table("t", &[table(rows, rows)]);
        all_of_them(&pair, &format!("{rows} rows")).await;
    }
}

/// With all numbers of lanes, chains of equal hashes, and so little memory for strings that runs start again.
#[tokio::test]
async fn string_order_matches_the_cpu_for_every_setting() {
    for (seed, settings) in [
        (
            1,
            &[
                ("galatea.debug.collide_hashes", "true"),
                ("galatea.tuning.build_rows", "1"),
            ][..],
        ),
        (
            2,
            &[
                ("galatea.tuning.hash_slots", "2"),
                ("galatea.tuning.build_rows", "1"),
            ],
        ),
        (
            3,
            &[
                ("galatea.tuning.chunk_rows", "33"),
                ("galatea.tuning.rows_per_thread", "1"),
                ("galatea.tuning.block_threads", "32"),
            ],
        ),
        (
            4,
            &[
                ("galatea.memory.gpu_limit", "600 KiB"),
                ("galatea.tuning.chunk_rows", "300"),
            ],
        ),
        (
            5,
            &[
                ("galatea.memory.gpu_limit", "8 MiB"),
                ("galatea.tuning.hash_slots", "2"),
            ],
        ),
    ] {
        let emulator = EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        };
        let pair = Pair::emulated(emulator, settings);
        pair.table("t", &[table(700, seed)]);
        all_of_them(&pair, &format!("{settings:?}, seed {seed}")).await;
    }
}

/// The device sorts by both types of strings, and the plan shows it.
#[tokio::test]
async fn device_sorts_by_strings() {
    let pair = Pair::new(&[
        STRICT,
        ("galatea.tuning.build_rows", "1"),
        // DataFusion merges sorted partitions.
        ("galatea.tuning.chunk_rows", "500"),
        ("datafusion.execution.target_partitions", "4"),
    ]);
    pair.table("t", &[table(4000, 9)]);
    for sql in ORDERS.iter().chain(ROWS_OF_OTHERS) {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(plan.contains("sorted by="), "{sql}\n{plan}");
        // Columns used only for the order are not returned.
        assert!(
            !plan.contains("SortExec") && !plan.contains("ProjectionExec") && !plan.contains("fell back"),
            "{sql}\n{plan}"
        );
    }
    for sql in FIRST {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(
            plan.contains("top k=first") && !plan.contains("fell back"),
            "{sql}\n{plan}"
        );
    }
    for sql in WINDOWS {
        let plan = text(&pair, &format!("EXPLAIN ANALYZE {sql}")).await;
        assert!(
            !plan.contains("WindowAggExec") && !plan.contains("fell back"),
            "{sql}\n{plan}"
        );
    }
}
