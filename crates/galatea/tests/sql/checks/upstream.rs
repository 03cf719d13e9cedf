//! Queries that plain DataFusion answers differently from us. If a test fails here, a version of DataFusion
//! behaves like ours, and the named code can be removed.

use super::rendered;
use datafusion::prelude::SessionContext;

async fn of_datafusion(sql: &str) -> Result<Vec<String>, String> {
    let ctx = SessionContext::new();
    let table = "CREATE TABLE n AS SELECT value AS a FROM generate_series(0, 9)";
    for sql in [table, sql] {
        let frame = ctx.sql(sql).await.map_err(|error| error.to_string())?;
        let batches = frame.collect().await.map_err(|error| error.to_string())?;
        if sql != table {
            return Ok(rendered(&batches));
        }
    }
    unreachable!("the second statement returns")
}

/// `Guarded` in `crates/engine/src/checks/guard.rs` can then be removed.
#[tokio::test]
async fn datafusion_does_not_short_circuit_operands() {
    let sql = "SELECT count(*) FROM n WHERE a <> 0 AND 10 / a > 2";
    let error = of_datafusion(sql).await.expect_err(sql);
    assert!(error.contains("Divide by zero"), "{error}");
}

/// `Needed::Where` in `crates/engine/src/checks/guard.rs` can then be removed.
#[tokio::test]
async fn datafusion_evaluates_filtered_arguments() {
    let sql = "SELECT a % 2, sum(10 / a) FILTER (WHERE a <> 0) FROM n GROUP BY a % 2";
    let error = of_datafusion(sql).await.expect_err(sql);
    assert!(error.contains("Divide by zero"), "{error}");
}

/// `CheckedSum` in `crates/engine/src/checks/sum.rs` can then be removed (apache/datafusion#16406).
#[tokio::test]
async fn datafusion_sums_wrap() {
    let sql = "SELECT sum(9223372036854775807 - a) FROM n WHERE a < 2";
    assert_eq!(of_datafusion(sql).await, Ok(vec!["-3".to_owned()]));
}

/// `CheckConstants` in `crates/engine/src/checks/constants.rs`, and `CheckArithmetic`, can then be removed.
#[tokio::test]
async fn datafusion_folds_overflow() {
    for sql in [
        "SELECT 9223372036854775807 + 1",
        "SELECT a + 9223372036854775807 FROM n WHERE a = 1",
    ] {
        assert_eq!(
            of_datafusion(sql).await,
            Ok(vec!["-9223372036854775808".to_owned()])
        );
    }
}

/// `CountedDigits` in `crates/engine/src/checks/decimal.rs` can then be removed.
#[tokio::test]
async fn datafusion_does_not_check_decimal_precision() {
    let sql = "SELECT CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) + 1 AS d";
    // The last digit is not printed.
    assert_eq!(
        of_datafusion(sql).await,
        Ok(vec!["10000000000000000000000000000000000000".to_owned()])
    );
}

/// `StringCast` in `crates/expression/src/string_cast.rs` can then be removed.
#[tokio::test]
async fn datafusion_casts_fewer_string_notations() {
    for sql in [
        "SELECT CAST('2011-05-06 12:34' AS TIMESTAMP)",
        "SELECT CAST('2011-5-6' AS TIMESTAMP)",
        "SELECT CAST('1_000' AS INT)",
    ] {
        assert!(of_datafusion(sql).await.is_err(), "{sql}");
    }
}

/// `crates/engine/src/plans/literals.rs` can then be removed.
#[tokio::test]
async fn datafusion_parses_long_integers_as_doubles() {
    let sql = "SELECT arrow_typeof(99999999999999999999)";
    assert_eq!(of_datafusion(sql).await, Ok(vec!["Float64".to_owned()]));
}
