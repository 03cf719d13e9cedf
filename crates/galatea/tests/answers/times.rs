//! Timestamps of coarse units and dates beside finer constants and intervals, and scalar functions.

use crate::{DEVICES, check, check_all, prepare, session};

const TABLES: &[&str] = &[
    "CREATE TABLE t AS SELECT column1 AS i, arrow_cast(column2, 'Timestamp(Second, None)') AS s, \
     arrow_cast(column2, 'Timestamp(Millisecond, None)') AS ms FROM (VALUES \
     (1, TIMESTAMP '2024-01-01 10:00:00'), (2, TIMESTAMP '2024-01-01 10:00:01'), \
     (3, TIMESTAMP '1969-12-31 23:59:59'), (4, TIMESTAMP '1970-01-01 00:00:00'), (5, NULL)) v",
    "CREATE TABLE v AS SELECT column1 AS i, column2 AS t, arrow_cast(column2, 'Timestamp(Microsecond, None)') AS s, \
     column3 AS until FROM (VALUES (1, TIMESTAMP '2024-01-01 10:00:00', DATE '9999-12-31'), \
     (2, TIMESTAMP '1969-12-31 23:00:00', DATE '1970-01-01'), (3, TIMESTAMP '1969-12-31 23:00:00', DATE '1969-12-31'), \
     (4, TIMESTAMP '2000-01-02', DATE '2000-01-02'), (5, TIMESTAMP '2000-01-02', NULL), \
     (6, TIMESTAMP '2000-01-02 00:00:00.000000001', DATE '2000-01-02')) v",
    "CREATE TABLE d AS SELECT DATE '2024-03-01' AS d",
    "CREATE TABLE w(d DATE, s TIMESTAMP)",
    "INSERT INTO w SELECT d + INTERVAL '48 hours', d + INTERVAL '1 hour' FROM d",
    "UPDATE w SET d = d + INTERVAL '24 hours'",
    "CREATE TABLE x AS SELECT * FROM (VALUES (1, CAST('-0.0' AS DOUBLE)), (2, 0.0), (3, 4.0), (4, NULL)) v(i, x)",
    "CREATE TABLE p AS SELECT * FROM (VALUES ('a', 3), ('bcd', -1), ('e', NULL)) v(s, n)",
];

const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT d, s FROM w", &["2024-03-04, 2024-03-01T01:00:00"]),
    (
        "SELECT i FROM (SELECT i, s + INTERVAL '500 milliseconds' AS x FROM t) q WHERE x = TIMESTAMP '2024-01-01 10:00:00.5'",
        &["1"],
    ),
    (
        "WITH q AS (SELECT i, s + INTERVAL '500 milliseconds' AS x FROM t) SELECT i FROM q WHERE x < TIMESTAMP '2024-01-01 10:00:00.75'",
        &["1", "3", "4"],
    ),
    (
        "SELECT count(*) FROM (SELECT s + INTERVAL '500 milliseconds' AS x FROM t UNION ALL SELECT s FROM t) q \
         WHERE x = TIMESTAMP '2024-01-01 10:00:00.5'",
        &["1"],
    ),
    (
        "SELECT i, count(*) OVER (ORDER BY s RANGE BETWEEN INTERVAL '500 milliseconds' PRECEDING AND CURRENT ROW) AS c, \
         row_number() OVER (ORDER BY s) AS n FROM t WHERE i < 5",
        &["1, 1, 3", "2, 1, 4", "3, 1, 1", "4, 1, 2"],
    ),
    (
        "WITH RECURSIVE r(d) AS (SELECT DATE '2024-01-01' UNION ALL SELECT d + INTERVAL '1 day' FROM r \
         WHERE d < DATE '2024-01-05') SELECT count(*) FROM r",
        &["5"],
    ),
    (
        "SELECT count(*) FROM (SELECT CASE x WHEN 4 THEN 'four' END AS n FROM x GROUP BY ROLLUP (CASE x WHEN 4 THEN 'four' END)) q",
        &["3"],
    ),
    (
        "SELECT i FROM t WHERE s NOT BETWEEN '1969-12-31 23:59:59.5' AND '2024-01-01 10:00:00.5'",
        &["2", "3"],
    ),
    // Lengths of intervals: a day has 24 hours, a month 30 days.
    (
        "SELECT i FROM t WHERE s - TIMESTAMP '2023-12-28 10:00:00' > INTERVAL '1 day'",
        &["1", "2"],
    ),
    (
        "SELECT i FROM t WHERE s - TIMESTAMP '2023-12-28 10:00:00' = INTERVAL '4 days'",
        &["1"],
    ),
    (
        "SELECT i FROM t WHERE s - TIMESTAMP '2023-12-01 10:00:00' BETWEEN INTERVAL '1 month' AND INTERVAL '31 days'",
        &["1"],
    ),
    (
        "SELECT count(*) FILTER (WHERE s - TIMESTAMP '2024-01-01' < INTERVAL '1 day') FROM t",
        &["4"],
    ),
    (
        "SELECT INTERVAL '36 hours' > INTERVAL '1 day', INTERVAL '1 month' = INTERVAL '30 days', INTERVAL '2 days' IN (INTERVAL '48 hours'), INTERVAL '1 day' IS DISTINCT FROM NULL",
        &["true, true, true, true"],
    ),
    (
        "SELECT i FROM (SELECT i, i * INTERVAL '20 hours' AS x FROM t) q WHERE x >= INTERVAL '3 days'",
        &["4", "5"],
    ),
    (
        "SELECT unnest(range(DATE '2024-01-01', DATE '2024-01-10', INTERVAL '2 days'))",
        &[
            "2024-01-01",
            "2024-01-03",
            "2024-01-05",
            "2024-01-07",
            "2024-01-09",
        ],
    ),
    (
        "SELECT unnest(range(d, d + INTERVAL '3 days', INTERVAL '1 day')) FROM d",
        &["2024-03-01", "2024-03-02", "2024-03-03"],
    ),
    ("SELECT i FROM v WHERE (s < until) IS NULL", &["5"]),
    (
        "SELECT i FROM v WHERE s BETWEEN DATE '2024-01-01' AND until",
        &["1"],
    ),
    ("SELECT i FROM v WHERE s < until", &["1", "2"]),
    ("SELECT i FROM v WHERE s = until", &["4", "6"]),
    (
        "SELECT i FROM v WHERE t < DATE '9999-12-31'",
        &["1", "2", "3", "4", "5", "6"],
    ),
    (
        "SELECT i FROM v WHERE t = DATE '9999-12-31' OR t <= DATE '0001-01-01'",
        &[],
    ),
    ("SELECT i FROM t WHERE s = TIMESTAMP '2024-01-01 10:00:00.5'", &[]),
    ("SELECT i FROM t WHERE s = '2024-01-01 10:00:00.5'", &[]),
    ("SELECT i FROM t WHERE s = '2024-01-01 10:00:00'", &["1"]),
    (
        "SELECT i FROM t WHERE s <> TIMESTAMP '2024-01-01 10:00:00.5'",
        &["1", "2", "3", "4"],
    ),
    (
        "SELECT i FROM t WHERE s < '2024-01-01 10:00:00.5'",
        &["1", "3", "4"],
    ),
    (
        "SELECT i FROM t WHERE '2024-01-01 10:00:00.5' > s",
        &["1", "3", "4"],
    ),
    ("SELECT i FROM t WHERE s >= '2024-01-01 10:00:00.5'", &["2"]),
    (
        "SELECT i FROM t WHERE s <= TIMESTAMP '1969-12-31 23:59:59.5'",
        &["3"],
    ),
    (
        "SELECT i FROM t WHERE s > TIMESTAMP '1969-12-31 23:59:59' + INTERVAL '500 milliseconds'",
        &["1", "2", "4"],
    ),
    (
        "SELECT i FROM t WHERE ms = TIMESTAMP '2024-01-01 10:00:00.0001'",
        &[],
    ),
    (
        "SELECT i FROM t WHERE s IN (TIMESTAMP '2024-01-01 10:00:00.25', TIMESTAMP '1970-01-01')",
        &["4"],
    ),
    (
        "SELECT i FROM t WHERE s IN (TIMESTAMP '2024-01-01 10:00:00.25')",
        &[],
    ),
    (
        "SELECT i FROM t WHERE s NOT IN (TIMESTAMP '2024-01-01 10:00:01.5')",
        &["1", "2", "3", "4"],
    ),
    (
        "SELECT i FROM t WHERE s BETWEEN '1969-12-31 23:59:59.5' AND '2024-01-01 10:00:00.5'",
        &["1", "4"],
    ),
    (
        "SELECT i FROM t WHERE s IS DISTINCT FROM TIMESTAMP '2024-01-01 10:00:00.5'",
        &["1", "2", "3", "4", "5"],
    ),
    (
        "SELECT i FROM t WHERE (s = TIMESTAMP '2024-01-01 10:00:00.5') IS NULL",
        &["5"],
    ),
    (
        "SELECT i, CASE s WHEN TIMESTAMP '2024-01-01 10:00:00.5' THEN 'a' WHEN TIMESTAMP '2024-01-01 10:00:01' THEN 'b' END AS c \
         FROM t WHERE i < 3",
        &["1, NULL", "2, b"],
    ),
    (
        "SELECT s + INTERVAL '500 milliseconds', INTERVAL '1.5 seconds' + s, s - INTERVAL '500 milliseconds', \
         s + INTERVAL '500 milliseconds' > s, s + INTERVAL '1 day' FROM t WHERE i = 1",
        &[
            "2024-01-01T10:00:00.500, 2024-01-01T10:00:01.500, 2024-01-01T09:59:59.500, true, 2024-01-02T10:00:00",
        ],
    ),
    (
        "SELECT i, count(*) OVER (ORDER BY s RANGE BETWEEN INTERVAL '500 milliseconds' PRECEDING AND CURRENT ROW) AS c \
         FROM t WHERE i < 5",
        &["1, 1", "2, 1", "3, 1", "4, 1"],
    ),
    (
        "SELECT d + INTERVAL '25 hours', d - INTERVAL '1 hour', d - INTERVAL '1 hour' < d, d + INTERVAL '1 month' FROM d",
        &["2024-03-02T01:00:00, 2024-02-29T23:00:00, true, 2024-04-01"],
    ),
    (
        "SELECT i, nullif(x, 0) IS NULL, CASE x WHEN 0.0 THEN 'zero' ELSE 'other' END FROM x",
        &[
            "1, true, zero",
            "2, true, zero",
            "3, false, other",
            "4, true, other",
        ],
    ),
    (
        "SELECT count(nullif(x, 0)), sum(CASE x WHEN 0 THEN 1 ELSE 0 END) FROM x",
        &["1, 2"],
    ),
    (
        "SELECT nullif(x, 0) IS NULL, count(*), grouping(nullif(x, 0)) FROM x GROUP BY ROLLUP (nullif(x, 0))",
        &["true, 3, 0", "false, 1, 0", "true, 4, 1"],
    ),
    (
        "SELECT CASE x WHEN 0.0 THEN 'zero' ELSE 'other' END AS c, i > 2 AS g, count(*) AS n FROM x \
         GROUP BY GROUPING SETS ((CASE x WHEN 0.0 THEN 'zero' ELSE 'other' END, i > 2), (i > 2)) HAVING count(*) > 1",
        &[
            "zero, false, 2",
            "other, true, 2",
            "NULL, false, 2",
            "NULL, true, 2",
        ],
    ),
    (
        "SELECT lpad(s, n, 'xy'), rpad(s, n, 'xy'), lpad(s, n) FROM p",
        &["xya, axy,   a", ", , ", "NULL, NULL, NULL"],
    ),
];

#[tokio::test]
async fn coarse_times_and_scalar_functions_have_fixed_answers() {
    check_all(TABLES, QUERIES).await;
}

/// Over files, and with the kept plan of the first run.
#[tokio::test]
async fn coarse_times_of_files_have_fixed_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = session("cpu", 1);
    prepare(&memory, TABLES).await;
    let path = |table: &str| {
        folder
            .path()
            .join(format!("{table}.parquet"))
            .display()
            .to_string()
    };
    let tables = ["t", "v", "d", "w", "x", "p"];
    for table in tables {
        prepare(&memory, &[&format!("COPY {table} TO '{}'", path(table))]).await;
    }
    for (device, partitions) in [("cpu", 1), ("cpu", 16), ("emulated", 1), ("emulated", 2)] {
        let ctx = session(device, partitions);
        for table in tables {
            let location = path(table);
            let create = format!("CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{location}'");
            prepare(&ctx, &[&create]).await;
        }
        for run in 1..=2 {
            for (sql, expected) in QUERIES {
                check(
                    &ctx,
                    sql,
                    expected,
                    &format!("{device}, {partitions} partitions, run {run}"),
                )
                .await;
            }
        }
    }
}

/// Whole seconds in CSV files are timestamps of seconds.
#[tokio::test]
async fn seconds_of_csv_files_are_compared_exactly() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "i,s\n1,2024-01-01 10:00:00\n2,2024-01-01 10:00:01\n").expect("written");
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}'",
        path.display()
    );
    for device in DEVICES {
        let ctx = session(device, 2);
        prepare(&ctx, &[&create]).await;
        for (sql, expected) in [
            (
                "SELECT i FROM t WHERE s = TIMESTAMP '2024-01-01 10:00:00.5'",
                &[][..],
            ),
            ("SELECT i FROM t WHERE s < '2024-01-01 10:00:00.5'", &["1"]),
            ("SELECT i FROM t WHERE s >= '2024-01-01 10:00:00.5'", &["2"]),
            (
                "SELECT i FROM t WHERE s + INTERVAL '500 milliseconds' > s",
                &["1", "2"],
            ),
        ] {
            check(&ctx, sql, expected, device).await;
        }
    }
}
