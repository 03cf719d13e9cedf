//! Decimals beside constants with a point, windows over comparisons of floats, and orders of aggregates.

use crate::{check, check_all, prepare, session};

const TABLES: &[&str] = &[
    "CREATE TABLE p AS SELECT column1 AS i, CAST(column2 AS DECIMAL(18, 2)) AS price, CAST(column3 AS DECIMAL(38, 20)) AS fine \
     FROM (VALUES (1, '8.11', '0.1'), (2, '9999999.99', '0.00000000000000000001'), (3, '12345678.90', NULL), \
     (4, '1234567890123.45', '1'), (5, '-8.11', '2'), (6, NULL, '3')) v",
    "CREATE TABLE a AS SELECT * FROM (VALUES (1, -9), (2, 3), (3, -5), (4, 8), (5, NULL)) v(k, g)",
];

const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT i FROM p WHERE price = 8.11", &["1"]),
    ("SELECT i FROM p WHERE price = -8.11", &["5"]),
    ("SELECT i FROM p WHERE price = 9999999.99", &["2"]),
    ("SELECT i FROM p WHERE price < 9999999.99", &["1", "5"]),
    ("SELECT i FROM p WHERE price = 12345678.90", &["3"]),
    ("SELECT i FROM p WHERE price >= 1234567890123.45", &["4"]),
    (
        "SELECT i FROM p WHERE price IN (8.11, 12345678.9, 17.99)",
        &["1", "3"],
    ),
    (
        "SELECT i FROM p WHERE price BETWEEN 9999999.99 AND 12345678.90",
        &["2", "3"],
    ),
    ("SELECT i FROM p WHERE price <> 8.11 AND i < 4", &["2", "3"]),
    ("SELECT i FROM p WHERE fine = 0.1", &["1"]),
    (
        "SELECT coalesce(price, 9999999.99) = 9999999.99 FROM p WHERE i = 6",
        &["true"],
    ),
    (
        "SELECT CASE price WHEN 9999999.99 THEN 'x' ELSE 'y' END FROM p WHERE i = 2",
        &["x"],
    ),
    ("SELECT i FROM p WHERE price > 8.10 + 0.01 AND price < 9.0", &[]),
    (
        "SELECT count(*) FROM p JOIN (VALUES (8.11), (7.5)) v(x) ON price = x",
        &["1"],
    ),
    (
        "SELECT k, sum(x) OVER (PARTITION BY x > 4 ORDER BY k ROWS 1 PRECEDING) FROM (SELECT k, CAST(g AS DOUBLE) AS x FROM a) q WHERE k < 5",
        &["1, -9.0", "2, -6.0", "3, -2.0", "4, 8.0"],
    ),
    (
        "SELECT k, count(*) OVER (ORDER BY CASE WHEN x > 4 THEN 'hi' END NULLS FIRST, k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM (SELECT k, CAST(g AS DOUBLE) AS x FROM a) q WHERE k < 5",
        &["1, 1", "2, 2", "3, 3", "4, 4"],
    ),
];

#[tokio::test]
async fn decimals_have_the_digits_of_constants() {
    check_all(TABLES, QUERIES).await;
}

/// Statistics of files skip rows, and the second run has the plan of the first.
#[tokio::test]
async fn decimals_of_files_have_the_digits_of_constants() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = session("cpu", 1);
    prepare(&memory, TABLES).await;
    let file = |table: &str| {
        folder
            .path()
            .join(format!("{table}.parquet"))
            .display()
            .to_string()
    };
    for table in ["p", "a"] {
        prepare(&memory, &[&format!("COPY {table} TO '{}'", file(table))]).await;
    }
    for (device, partitions) in [("cpu", 16), ("emulated", 2)] {
        let ctx = session(device, partitions);
        for table in ["p", "a"] {
            let location = file(table);
            let create = format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'");
            prepare(&ctx, &[&create]).await;
        }
        for run in 1..=2 {
            for (sql, expected) in QUERIES {
                check(&ctx, sql, expected, &format!("{device}, run {run}")).await;
            }
        }
    }
}

/// Lists and strings of one GROUP BY in several orders.
#[tokio::test]
async fn aggregates_have_orders_of_their_own() {
    let tables = [
        "CREATE TABLE c AS SELECT * FROM (VALUES (1, 'a', 3), (1, 'b', 1), (1, 'a', 2), (2, NULL, 5), (2, 'c', NULL)) v(g, c, d)",
    ];
    check_all(
        &tables,
        &[
            (
                "SELECT array_agg(DISTINCT c ORDER BY c), array_agg(DISTINCT c ORDER BY c DESC) FROM c WHERE g = 1",
                &["[a, b], [b, a]"],
            ),
            (
                "SELECT g, array_agg(DISTINCT c ORDER BY c DESC NULLS LAST), array_agg(DISTINCT c ORDER BY c NULLS FIRST) FROM c GROUP BY g",
                &["1, [b, a], [a, b]", "2, [c, NULL], [NULL, c]"],
            ),
            (
                "SELECT string_agg(DISTINCT c, '-' ORDER BY c), string_agg(DISTINCT c, '-' ORDER BY c DESC), count(*) FROM c",
                &["a-b-c, c-b-a, 5"],
            ),
            (
                "SELECT g, string_agg(c, ',' ORDER BY d), string_agg(c, ',' ORDER BY d DESC NULLS LAST), sum(d) FROM c GROUP BY g HAVING count(*) > 1",
                &["1, b,a,a, a,a,b, 6", "2, c, c, 5"],
            ),
            (
                "SELECT string_agg(c, ',' ORDER BY c) FILTER (WHERE d > 9), string_agg(CAST(d AS VARCHAR), ',' ORDER BY d) FROM c",
                &["NULL, 1,2,3,5"],
            ),
        ],
    )
    .await;
}
