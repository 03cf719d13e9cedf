//! Deep expressions and statements return an answer, on the device or on the CPU with a reason, or an error
//! that contains the limit. They never overflow the stack, which would end the process. Tests have the stack
//! of a plain thread.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use galatea::QueryDevice;

/// The rows of a statement, planned by [`galatea::sql`]: [`SessionContext::sql`] plans on the caller's stack.
async fn answer(ctx: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = galatea::sql(ctx, sql).await.expect("a plan");
    frame.collect().await.expect("rows")
}

/// A session on the emulated device or the CPU with the numbers from 1 to 1000.
async fn session(device: &str) -> SessionContext {
    let ctx = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", device)
        .with_setting("galatea.tuning.min_rows", "0")
        .build()
        .expect("a session");
    let table =
        "CREATE TABLE t AS SELECT value AS i, CAST(value AS VARCHAR) AS s FROM generate_series(1, 1000)";
    answer(&ctx, table).await;
    ctx
}

/// The single number that a query returns, and the reason that parts of it ran on the CPU, if any did.
async fn number(ctx: &SessionContext, sql: &str) -> (i64, Option<String>) {
    let rows = answer(ctx, sql).await;
    let report = galatea::last_query_report(ctx).expect("a report");
    let reasons = (report.device == QueryDevice::Cpu).then(|| report.reasons.join("; "));
    (rows[0].column(0).as_primitive::<Int64Type>().value(0), reasons)
}

async fn set(ctx: &SessionContext, name: &str, value: &str) {
    answer(ctx, &format!("SET {name} = {value}")).await;
}

fn sum(additions: usize) -> String {
    format!("SELECT sum({}) FROM t", vec!["i"; additions + 1].join(" + "))
}

#[tokio::test]
async fn hundreds_of_additions_run_on_the_device() {
    let ctx = session("emulated").await;
    assert_eq!(number(&ctx, &sum(299)).await, (500_500 * 300, None));
}

#[tokio::test]
async fn too_many_additions_stay_on_the_cpu_with_reason() {
    let ctx = session("emulated").await;
    let (value, reason) = number(&ctx, &sum(650)).await;
    assert_eq!(value, 500_500 * 651);
    let reason = reason.expect("on the CPU");
    let expected = "expression too deep: 651 levels, the limit is 400";
    assert!(reason.contains(expected), "{reason}");
}

/// Creates an expression over `i` with the given number of levels, and the sum of its values.
type Nested = fn(usize) -> (String, i64);

/// Nested expressions that evaluate to `i`.
const NESTED: [(&str, Nested); 4] = [
    ("CASE", |levels| {
        let case = "CASE WHEN i < 0 THEN 1 ELSE ".repeat(levels) + "i" + &" END".repeat(levels);
        (case, 500_500)
    }),
    ("functions", |levels| {
        ("abs(".repeat(levels) + "i" + &")".repeat(levels), 500_500)
    }),
    ("subtractions", |levels| {
        let even = levels - levels % 2;
        ("1 - (".repeat(even) + "i" + &")".repeat(even), 500_500)
    }),
    ("AND and OR", |levels| {
        let condition = "(i > 0 AND (i < 0 OR ".repeat(levels / 2) + "i > 990" + &"))".repeat(levels / 2);
        (format!("CASE WHEN {condition} THEN 1 ELSE 0 END"), 10)
    }),
];

#[tokio::test]
async fn nested_expressions_within_the_limit_run_on_the_device() {
    let ctx = session("emulated").await;
    set(&ctx, "datafusion.sql_parser.recursion_limit", "5000").await;
    for (kind, nested) in NESTED {
        // Each level has a literal, and a kernel has at most 184.
        let (expression, expected) = nested(150);
        let (value, reason) = number(&ctx, &format!("SELECT sum({expression}) FROM t")).await;
        assert_eq!((value, reason), (expected, None), "{kind}");
    }
}

#[tokio::test]
async fn nested_expressions_beyond_the_limit_run_on_the_cpu() {
    for device in ["emulated", "cpu"] {
        let ctx = session(device).await;
        set(&ctx, "datafusion.sql_parser.recursion_limit", "5000").await;
        for (kind, nested) in NESTED {
            let (expression, expected) = nested(450);
            let (value, reason) = number(&ctx, &format!("SELECT sum({expression}) FROM t")).await;
            assert_eq!(value, expected, "{kind} on {device}");
            let reason = reason.unwrap_or_default();
            let reasons = ["expression too deep: ", "galatea.device = cpu"];
            assert!(
                reasons.iter().any(|expected| reason.contains(expected)),
                "{kind}: {reason}"
            );
        }
    }
}

/// Each subquery is within the limit, but their combination is not.
#[tokio::test]
async fn merged_subquery_expressions_are_limited() {
    let mut table = "t".to_owned();
    let mut values: Vec<i64> = (1..=1000).collect();
    for level in 2..5 {
        let repeated = vec!["i"; 170].join(" + ");
        table = format!("(SELECT ({repeated}) % 10007 + i % {level} AS i FROM {table})");
        for value in &mut values {
            *value = *value * 170 % 10007 + *value % level;
        }
    }
    for device in ["emulated", "cpu"] {
        let ctx = session(device).await;
        let (value, _) = number(&ctx, &format!("SELECT sum(i) FROM {table}")).await;
        assert_eq!(value, values.iter().sum::<i64>(), "{device}");
    }
}

#[tokio::test]
async fn deeper_statements_are_refused() {
    let ctx = session("cpu").await;
    let refused = |sql: String, levels: usize| {
        let ctx = ctx.clone();
        async move {
            let error = galatea::sql(&ctx, &sql).await.expect_err("too deep").to_string();
            let expected = format!("expression too deep: {levels} levels, the limit is 2000");
            assert!(error.contains(&expected), "{error}");
        }
    };
    refused(format!("SELECT {}", vec!["1"; 5000].join(" + ")), 5001).await;
    refused(format!("SELECT {}", vec!["1"; 200_000].join("+")), 200_001).await;
    set(&ctx, "datafusion.sql_parser.recursion_limit", "1000000").await;
    let parentheses = format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000));
    refused(parentheses, 20_002).await;
    refused(format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(4000)), 4001).await;
}

#[tokio::test]
async fn hundreds_of_parentheses_are_parsed_by_default() {
    for device in ["emulated", "cpu"] {
        let ctx = session(device).await;
        for sql in [
            format!("SELECT {}1{}", "(".repeat(300), ")".repeat(300)),
            format!(
                "SELECT {}1{}",
                "CASE WHEN true THEN ".repeat(300),
                " END".repeat(300)
            ),
            format!(
                "SELECT sum({}i{}) / 500500 FROM t",
                "(".repeat(300),
                ")".repeat(300)
            ),
        ] {
            assert_eq!(number(&ctx, &sql).await.0, 1, "{device}");
        }
        let deeper = format!("SELECT {}1{}", "(".repeat(900), ")".repeat(900));
        let error = galatea::sql(&ctx, &deeper)
            .await
            .expect_err("too deep")
            .to_string();
        assert!(
            error.contains("RecursionLimitExceeded (current limit: 400)"),
            "{error}"
        );
        set(&ctx, "datafusion.sql_parser.recursion_limit", "5000").await;
        assert_eq!(number(&ctx, &deeper).await.0, 1, "{device}");
    }
}

#[tokio::test]
async fn many_unions_and_deep_views_are_planned() {
    for device in ["emulated", "cpu"] {
        let ctx = session(device).await;
        let union = format!(
            "SELECT sum(i) FROM (SELECT i FROM t WHERE i = 1{})",
            " UNION ALL SELECT 1".repeat(299)
        );
        assert_eq!(number(&ctx, &union).await.0, 300, "{device}");
        let subqueries = format!(
            "SELECT count(*) FROM {}t{}",
            "(SELECT i FROM ".repeat(60),
            ")".repeat(60)
        );
        assert_eq!(number(&ctx, &subqueries).await.0, 1000, "{device}");
        for view in 0..40 {
            let below = if view == 0 {
                "t".to_owned()
            } else {
                format!("v{}", view - 1)
            };
            let sql = format!("CREATE VIEW v{view} AS SELECT i + 1 AS i FROM {below} WHERE i > {view}");
            answer(&ctx, &sql).await;
        }
        assert_eq!(
            number(&ctx, "SELECT sum(i) FROM v39").await.0,
            500_500 + 40 * 1000,
            "{device}"
        );
    }
}

/// Compiling the kernel would take minutes.
#[tokio::test]
async fn long_concatenations_run_on_the_cpu() {
    let ctx = session("emulated").await;
    let text = |parts: usize| {
        let parts = (0..parts).map(|part| format!("CAST((i + {part}) % 10 AS VARCHAR)"));
        parts.collect::<Vec<_>>().join(" || ")
    };
    let sql = |parts| format!("SELECT CAST(max(char_length({})) AS BIGINT) FROM t", text(parts));
    assert_eq!(number(&ctx, &sql(16)).await, (16, None));
    let (length, reason) = number(&ctx, &sql(100)).await;
    assert_eq!(length, 100);
    let reason = reason.expect("on the CPU");
    assert!(
        reason.contains("a string would need 100 joined parts, limit 64"),
        "{reason}"
    );
}

#[tokio::test]
async fn queries_without_device_work_report_the_reason() {
    let ctx = session("emulated").await;
    let reason = |sql: &'static str| {
        let ctx = ctx.clone();
        async move {
            answer(&ctx, sql).await;
            galatea::last_query_report(&ctx).expect("a report").reasons
        }
    };
    // The second run uses the plan of the first.
    for _ in 0..2 {
        assert_eq!(
            reason("SELECT s LIKE '%' FROM t").await,
            ["no filter, join, aggregate or order that a device would run"]
        );
        assert_eq!(reason("SELECT 1").await, ["no rows are read"]);
    }
}
