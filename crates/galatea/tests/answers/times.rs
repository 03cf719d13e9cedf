//! Timestamps of coarse units and dates beside finer constants and intervals, and scalar functions.

use crate::check_all;

const TABLES: &[&str] = &[
    "CREATE TABLE t AS SELECT column1 AS i, arrow_cast(column2, 'Timestamp(Second, None)') AS s, \
     arrow_cast(column2, 'Timestamp(Millisecond, None)') AS ms FROM (VALUES \
     (1, TIMESTAMP '2024-01-01 10:00:00'), (2, TIMESTAMP '2024-01-01 10:00:01'), \
     (3, TIMESTAMP '1969-12-31 23:59:59'), (4, TIMESTAMP '1970-01-01 00:00:00'), (5, NULL)) v",
    "CREATE TABLE d AS SELECT DATE '2024-03-01' AS d, INTERVAL '90 minutes' AS n",
    "CREATE TABLE x AS SELECT * FROM (VALUES (1, CAST('-0.0' AS DOUBLE)), (2, 0.0), (3, 4.0), (4, NULL)) v(i, x)",
    "CREATE TABLE p AS SELECT * FROM (VALUES ('a', 3), ('bcd', -1), ('e', NULL)) v(s, n)",
];

const QUERIES: &[(&str, &[&str])] = &[
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
        "SELECT d + INTERVAL '25 hours', d - INTERVAL '1 hour', d - INTERVAL '1 hour' < d, d + INTERVAL '1 month', d + n FROM d",
        &["2024-03-02T01:00:00, 2024-02-29T23:00:00, true, 2024-04-01, 2024-03-01T01:30:00"],
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
        "SELECT lpad(s, n, 'xy'), rpad(s, n, 'xy'), lpad(s, n) FROM p",
        &["xya, axy,   a", ", , ", "NULL, NULL, NULL"],
    ),
];

#[tokio::test]
async fn coarse_times_and_scalar_functions_have_fixed_answers() {
    check_all(TABLES, QUERIES).await;
}
