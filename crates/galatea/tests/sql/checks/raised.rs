//! An error of a row is a [`RowError`] with the expression that raised it, on both devices, in the first run
//! and with the cached plan, for all operators that evaluate the expression.

use super::{Source, Table, make, session};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use galatea::{Fault, RowError};

/// `b` contains no 0, `c` contains one, `s` contains a word.
const TABLES: [Table; 2] = [
    (
        "t",
        "SELECT value AS a, value % 5 + 1 AS b, value % 7 AS c, CAST(value % 3 AS VARCHAR) AS d, \
         CASE WHEN value = 40 THEN 'one' ELSE CAST(value AS VARCHAR) END AS s, \
         9223372036854775807 - value AS big FROM generate_series(1, 60) AS v(value)",
    ),
    (
        "u",
        "SELECT value AS k, value - 3 AS z FROM generate_series(1, 6) AS v(value)",
    ),
];

async fn error(ctx: &SessionContext, sql: &str) -> DataFusionError {
    let frame = galatea::sql(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    match frame.collect().await {
        Ok(rows) => panic!("{sql}\n{} batches", rows.len()),
        Err(error) => error,
    }
}

/// A query, the kind of its error, and the expression in the error.
type Raising = (&'static str, fn(&Fault) -> bool, &'static str);

/// Checks that each query ends with an error of that kind in that expression.
async fn check(queries: &[Raising]) {
    for device in ["cpu", "emulated"] {
        for source in [Source::Memory, Source::Parquet] {
            let directory = tempfile::tempdir().expect("a directory");
            let ctx = session(device, 2, &[]);
            for table in TABLES {
                make(&ctx, table, source, directory.path()).await;
            }
            for (sql, is_fault, expression) in queries {
                for run in ["first run", "kept plan"] {
                    let place = format!("{device}, {source:?}, {run}\n{sql}");
                    let error = error(&ctx, sql).await;
                    let Some(raised) = RowError::of(&error) else {
                        panic!("{place}\n{error}");
                    };
                    assert!(is_fault(&raised.fault), "{place}\n{raised:?}");
                    assert_eq!(raised.expression, *expression, "{place}");
                }
            }
        }
    }
}

fn division(fault: &Fault) -> bool {
    *fault == Fault::DivisionByZero
}

fn overflow(fault: &Fault) -> bool {
    matches!(fault, Fault::Overflow { data_type, .. } if data_type.is_integer())
}

fn cast(fault: &Fault) -> bool {
    matches!(fault, Fault::Cast { .. })
}

#[tokio::test]
async fn error_names_the_failing_division() {
    check(&[
        ("SELECT a / b, a / c FROM t", division, "a / c"),
        ("SELECT a / c, a / b FROM t", division, "a / c"),
        ("SELECT sum(a / b), sum(7 % c) FROM t", division, "7 % c"),
        (
            "SELECT sum(a / b) FROM t WHERE a / (c - 3) > 0",
            division,
            "a / (c - 3)",
        ),
        (
            "SELECT d, sum(a / (b + 1)), max(a / (b - 2)) FROM t GROUP BY d",
            division,
            "a / (b - 2)",
        ),
        // A projection computes the common expression.
        (
            "SELECT a / (b * c) AS x, b * c AS y, b / (b * c + 8) FROM t",
            division,
            "a / (b * c)",
        ),
        (
            "SELECT x / y FROM (SELECT a AS x, c - 2 AS y FROM t)",
            division,
            "a / (c - 2)",
        ),
    ])
    .await;
}

/// Constants are parameters of a kernel, so these queries share one.
#[tokio::test]
async fn error_of_a_shared_kernel_names_the_query_expression() {
    check(&[
        ("SELECT sum(z / (k - 1)) FROM u", division, "z / (k - 1)"),
        ("SELECT sum(z / (k - 2)) FROM u", division, "z / (k - 2)"),
        ("SELECT sum(k / (z - 1)) FROM u", division, "k / (z - 1)"),
        ("SELECT sum(z / (k - 1)) FROM u", division, "z / (k - 1)"),
    ])
    .await;
}

#[tokio::test]
async fn overflow_error_names_the_operation() {
    check(&[
        ("SELECT a + 1, big + 60 FROM t", overflow, "big + 60"),
        ("SELECT max(big * a) FROM t WHERE a > 1", overflow, "big * a"),
        ("SELECT sum(a), sum(big) FROM t", overflow, "sum(big)"),
        (
            "SELECT d, sum(a) AS x, sum(big) AS y FROM t GROUP BY d",
            overflow,
            "sum(big)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn cast_error_names_the_operand() {
    check(&[
        ("SELECT CAST(s AS BIGINT) FROM t", cast, "CAST(s AS Int64)"),
        ("SELECT sum(CAST(s AS BIGINT)) FROM t", cast, "CAST(s AS Int64)"),
        (
            "SELECT count(*) FROM t WHERE 2 * CAST(s AS INT) > 3",
            cast,
            "CAST(s AS Int32)",
        ),
        (
            "SELECT CAST(a AS INT), CAST(big AS INT) FROM t",
            cast,
            "CAST(big AS Int32)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn errors_are_named_in_every_operator() {
    check(&[
        // A build side.
        (
            "SELECT sum(q) FROM t JOIN (SELECT k, 10 / z AS q FROM u) ON a = k",
            division,
            "10 / z",
        ),
        (
            "SELECT count(*) FROM t JOIN u ON a = k AND b / z > 0",
            division,
            "b / z",
        ),
        (
            "SELECT d FROM t GROUP BY d HAVING sum(a) / (min(b) - 1) > 2",
            division,
            "sum(t.a) / (min(t.b) - 1)",
        ),
        ("SELECT a, sum(a / c) OVER (ORDER BY a) FROM t", division, "a / c"),
        (
            "SELECT a FROM (SELECT a FROM t UNION ALL SELECT 10 / z FROM u)",
            division,
            "10 / z",
        ),
        (
            "SELECT sum(a) FROM (SELECT a FROM t UNION ALL SELECT 10 / z FROM u)",
            division,
            "10 / z",
        ),
        ("SELECT a FROM t ORDER BY a / c", division, "a / c"),
    ])
    .await;
}

/// A query that succeeds on the CPU, which stops before the row, succeeds on the device as well.
#[tokio::test]
async fn rows_beyond_a_limit_raise_no_error() {
    let table = (
        "m",
        "SELECT value AS a FROM generate_series(1, 30000) AS v(value)",
    );
    for device in ["cpu", "emulated"] {
        for source in [Source::Memory, Source::Parquet] {
            let directory = tempfile::tempdir().expect("a directory");
            let ctx = session(device, 1, &[]);
            make(&ctx, table, source, directory.path()).await;
            for sql in [
                "SELECT 10 / (a - 29000) FROM m LIMIT 2",
                "SELECT x + 1 FROM (SELECT 10 / (a - 29000) AS x FROM m) WHERE x = 0 LIMIT 2",
            ] {
                let frame = galatea::sql(&ctx, sql).await.expect(sql);
                let rows = frame.count().await;
                assert!(matches!(rows, Ok(2)), "{device}, {source:?}: {sql}\n{rows:?}");
            }
        }
    }
}

/// The subtree runs again on the CPU only if the CPU may not need the row.
#[tokio::test]
async fn cpu_retries_only_if_it_may_skip_the_row() {
    for (source, sql, doubt) in [
        (Source::Memory, "SELECT a / c FROM t WHERE b > 0", None),
        (
            Source::Memory,
            "SELECT sum(a / c) FROM t WHERE a > 2 AND b / c > 0",
            None,
        ),
        (
            Source::Memory,
            "SELECT d, sum(big) AS s FROM t GROUP BY d ORDER BY s",
            None,
        ),
        (
            Source::Parquet,
            "SELECT count(CAST(s AS BIGINT)) FROM t WHERE a > 2 AND b > 0",
            None,
        ),
        (
            Source::Parquet,
            "SELECT count(*) FROM t WHERE a / c > 0 AND b > 0",
            Some("the CPU may skip the row in the scan"),
        ),
        (
            Source::Memory,
            "SELECT sum(a / z) FROM t JOIN u ON b = k",
            Some("the CPU may skip the row in HashJoinExec"),
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let ctx = session("emulated", 2, &[]);
        for table in TABLES {
            make(&ctx, table, source, directory.path()).await;
        }
        let error = error(&ctx, sql).await;
        assert!(RowError::of(&error).is_some(), "{sql}\n{error}");
        let report = galatea::last_query_report(&ctx).expect("a report");
        match doubt {
            None => {
                assert_eq!(
                    report.device,
                    galatea::QueryDevice::Emulated,
                    "{sql}: {:?}",
                    report.reasons
                );
                assert_eq!(report.reasons, Vec::<String>::new(), "{sql}");
            }
            Some(doubt) => {
                let reason = report.reasons.last().expect(sql);
                assert!(reason.starts_with(doubt), "{sql}\n{reason}");
            }
        }
    }
}

/// `abs` and `/` raise their overflow in both modes.
#[tokio::test]
async fn hints_of_overflow_propose_only_a_setting_that_avoids_it() {
    let setting = "galatea.overflow";
    for device in ["cpu", "emulated"] {
        let directory = tempfile::tempdir().expect("a directory");
        for (sql, modes, proposes) in [
            (
                "SELECT count(*) FROM t WHERE big + a + 1 > 0",
                &["error"][..],
                true,
            ),
            ("SELECT sum(big) FROM t", &["error"], true),
            (
                "SELECT count(*) FROM t WHERE abs(-1 - big - a) > 0",
                &["error", "wrap"],
                false,
            ),
            (
                "SELECT count(*) FROM t WHERE (-1 - big - a) / (b - b - 1) > 0",
                &["error", "wrap"],
                false,
            ),
        ] {
            for mode in modes {
                let ctx = session(device, 2, &[(setting, mode)]);
                make(&ctx, TABLES[0], Source::Memory, directory.path()).await;
                let message = error(&ctx, sql).await.to_string();
                assert!(message.contains("verflow"), "{device}, {mode}: {sql}\n{message}");
                assert_eq!(
                    message.contains(setting),
                    proposes,
                    "{device}, {mode}: {sql}\n{message}"
                );
            }
        }
    }
}
