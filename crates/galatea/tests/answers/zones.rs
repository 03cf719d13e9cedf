//! Timestamps with time zone in sessions with another time zone, over tables and files.

use crate::{check, prepare, session};

/// The instants of 2024-01-01 00:00, 04:59:59, 05:00 and of 2024-07-01 03:30 in UTC, and NULL.
const TABLE: &str = "CREATE TABLE t AS SELECT column1 AS i, arrow_cast(to_timestamp(column2), 'Timestamp(Microsecond, Some(\"UTC\"))') AS at \
     FROM (VALUES (1, 1704067200), (2, 1704085199), (3, 1704085200), (4, 1719804600), (5, NULL)) v";

const NEW_YORK: &[(&str, &[&str])] = &[
    (
        "SELECT i, CAST(at AS DATE) FROM t WHERE i < 5",
        &["1, 2023-12-31", "2, 2023-12-31", "3, 2024-01-01", "4, 2024-06-30"],
    ),
    (
        "SELECT i, extract(hour FROM at) FROM t WHERE i < 5",
        &["1, 19", "2, 23", "3, 0", "4, 23"],
    ),
    (
        "SELECT i, at FROM t WHERE i IN (1, 4)",
        &["1, 2023-12-31T19:00:00-05:00", "4, 2024-06-30T23:30:00-04:00"],
    ),
    (
        "SELECT date_trunc('day', at) AS day, count(*) FROM t WHERE i < 5 GROUP BY day",
        &[
            "2023-12-31T00:00:00-05:00, 2",
            "2024-01-01T00:00:00-05:00, 1",
            "2024-06-30T00:00:00-04:00, 1",
        ],
    ),
    ("SELECT i FROM t WHERE at < '2024-01-01'", &["1", "2"]),
    (
        "SELECT i FROM t WHERE at >= TIMESTAMP '2024-01-01 00:00:00'",
        &["3", "4"],
    ),
    ("SELECT i FROM t WHERE at = '2024-01-01 00:00:00+00'", &["1"]),
    (
        "SELECT i FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE t.at < o.at AND extract(day FROM o.at) = 1)",
        &["3"],
    ),
    (
        "SELECT o.i FROM t AS o WHERE o.at = (SELECT max(n.at) FROM t AS n WHERE n.i <= o.i AND n.at <= o.at) AND extract(hour FROM o.at) > 0",
        &["1", "2", "4"],
    ),
    (
        "SELECT max(at), count(DISTINCT CAST(at AS DATE)) FROM (SELECT at FROM t UNION ALL SELECT at FROM t)",
        &["2024-06-30T23:30:00-04:00, 3"],
    ),
    (
        "SELECT i, lag(extract(hour FROM at)) OVER (ORDER BY at) FROM t WHERE i < 4",
        &["1, NULL", "2, 19", "3, 23"],
    ),
    (
        "WITH d AS (SELECT CAST(at AS DATE) AS d FROM t) SELECT count(*) FROM d WHERE d = DATE '2023-12-31'",
        &["2"],
    ),
];

#[tokio::test]
async fn timestamps_with_time_zone_are_in_the_zone_of_the_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet").display().to_string();
    let memory = session("cpu", 1);
    prepare(&memory, &[TABLE, &format!("COPY t TO '{file}'")]).await;
    let external = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{file}'");
    for (device, partitions) in [("cpu", 1), ("cpu", 16), ("emulated", 2)] {
        for table in [TABLE, &external] {
            let ctx = session(device, partitions);
            prepare(
                &ctx,
                &[table, "SET datafusion.execution.time_zone = 'America/New_York'"],
            )
            .await;
            for run in 1..=2 {
                for (sql, expected) in NEW_YORK {
                    let context = format!("{device}, {partitions} partitions, run {run}");
                    check(&ctx, sql, expected, &context).await;
                }
            }
            // The same instants in another zone, and again without conversion.
            prepare(&ctx, &["SET datafusion.execution.time_zone = '+00:00'"]).await;
            for (sql, expected) in [
                ("SELECT i FROM t WHERE extract(hour FROM at) = 0", &["1"][..]),
                (
                    "SELECT i FROM t WHERE CAST(at AS DATE) = DATE '2024-01-01'",
                    &["1", "2", "3"],
                ),
            ] {
                check(&ctx, sql, expected, device).await;
            }
        }
    }
}

/// Statements that write rows keep the instants, and the zone of the columns.
#[tokio::test]
async fn written_timestamps_keep_their_zone() {
    let ctx = session("cpu", 4);
    prepare(
        &ctx,
        &[
            TABLE,
            "CREATE TABLE u AS SELECT * FROM t WHERE false",
            "SET datafusion.execution.time_zone = 'America/New_York'",
            "INSERT INTO u SELECT * FROM t WHERE CAST(at AS DATE) = DATE '2023-12-31'",
            "INSERT INTO u VALUES (6, '2024-01-01 00:00:00')",
            "CREATE TABLE w AS SELECT * FROM t",
            "UPDATE u SET at = at + INTERVAL '1 hour' WHERE extract(hour FROM at) = 19",
            "DELETE FROM u WHERE extract(hour FROM at) = 23",
            "CREATE VIEW seen AS SELECT i, extract(hour FROM at) AS h FROM u",
        ],
    )
    .await;
    for (sql, expected) in [
        (
            "SELECT i, at FROM u",
            &["1, 2023-12-31T20:00:00-05:00", "6, 2024-01-01T00:00:00-05:00"][..],
        ),
        ("SELECT * FROM seen", &["1, 20", "6, 0"]),
        (
            "SELECT DISTINCT arrow_typeof(at) FROM w",
            &["Timestamp(µs, \"America/New_York\")"],
        ),
    ] {
        check(&ctx, sql, expected, "written").await;
    }
    prepare(&ctx, &["SET datafusion.execution.time_zone = 'UTC'"]).await;
    for (sql, expected) in [
        (
            "SELECT i, at FROM u",
            &["1, 2024-01-01T01:00:00Z", "6, 2024-01-01T05:00:00Z"][..],
        ),
        (
            "SELECT DISTINCT arrow_typeof(at) FROM w",
            &["Timestamp(µs, \"UTC\")"],
        ),
    ] {
        check(&ctx, sql, expected, "written").await;
    }
}
