//! SQL text that was run before is not parsed again, unless its meaning may have changed.

use super::{QUERIES, ask, checked, planned, run, session, statistics, value};
use crate::compare::same;
use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, Operator, cast};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The value of a query, and whether its text was cached.
async fn told(ctx: &SessionContext, sql: &str) -> (String, bool) {
    let before = statistics(ctx).known;
    let value = value(ctx, sql).await;
    (value, statistics(ctx).known > before)
}

#[tokio::test]
async fn repeated_sql_text_is_not_parsed_again() {
    let ctx = session(&[]).await;
    for round in 0..3 {
        for sql in QUERIES {
            let before = statistics(&ctx).known;
            ask(&ctx, sql).await;
            assert_eq!(statistics(&ctx).known - before, u64::from(round > 0), "{sql}");
        }
    }
    // The columns are those of DataFusion's frame, except for nullability.
    for sql in QUERIES {
        let frame = planned(&ctx, sql).await.into_optimized_plan().expect("a plan");
        let known = galatea::sql(&ctx, sql).await.expect("a plan");
        let names = |schema: &DFSchema| -> Vec<(String, DataType)> {
            let fields = schema.iter();
            fields
                .map(|(_, field)| (field.name().clone(), field.data_type().clone()))
                .collect()
        };
        assert_eq!(names(known.schema()), names(frame.schema()), "{sql}");
    }
}

/// Plans of repeated strings are those that the frames of [`galatea::sql`] would execute, of the same cache.
#[tokio::test]
async fn physical_plans_of_sql_text_are_cached() {
    let ctx = session(&[]).await;
    let rows = async |sql: &str| {
        let plan = galatea::physical_plan(&ctx, sql).await.expect(sql);
        collect(plan, ctx.task_ctx()).await.expect(sql)
    };
    for sql in QUERIES {
        let expected = ask(&ctx, sql).await.0;
        let before = statistics(&ctx);
        same(&expected, &rows(sql).await).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
        let after = statistics(&ctx);
        assert_eq!(after.known - before.known, 1, "{sql}");
        assert_eq!(after.reused - before.reused, 1, "{sql}");
        assert!(galatea::last_query_report(&ctx).is_some_and(|report| report.plan_reused));
    }
    // Statements that are no queries have their effect once.
    rows("CREATE TABLE made AS SELECT 1 AS a").await;
    rows("INSERT INTO made VALUES (2)").await;
    assert_eq!(value(&ctx, "SELECT sum(a) FROM made").await, "3");
    rows("SET galatea.device = 'cpu'").await;
    let is_cpu = |ctx: &SessionContext| {
        let settings = ctx.copied_config().options().entries();
        let device = settings.into_iter().find(|entry| entry.key == "galatea.device");
        device.and_then(|entry| entry.value).as_deref() == Some("cpu")
    };
    assert!(is_cpu(&ctx));
    rows("RESET galatea.device").await;
    assert!(!is_cpu(&ctx));
    assert!(
        galatea::physical_plan(&ctx, "SELECT nothing FROM made")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn sql_text_with_volatile_meaning_is_not_cached() {
    let ctx = session(&[]).await;
    run(&ctx, "CREATE VIEW few AS SELECT v FROM t WHERE v < 3").await;
    for sql in [
        "SELECT random() < 2 FROM d",
        "SELECT count(*) FROM information_schema.tables",
        "SELECT count(*) FROM generate_series(1, 3)",
        "SELECT count(*) FROM few",
        "EXPLAIN SELECT count(*) FROM t",
        "INSERT INTO d VALUES (1, 'one')",
    ] {
        for _ in 0..2 {
            let before = statistics(&ctx).known;
            run(&ctx, sql).await;
            assert_eq!(statistics(&ctx).known, before, "{sql}");
        }
    }
    run(&ctx, "CREATE OR REPLACE VIEW few AS SELECT v FROM t WHERE v < 9").await;
    assert_eq!(value(&ctx, "SELECT count(*) FROM few").await, "8");
}

#[tokio::test]
async fn replaced_table_is_visible_to_cached_sql_text() {
    let ctx = session(&[]).await;
    let sql = "SELECT count(*) FROM d";
    for rows in [7, 12, 3] {
        let values = format!("SELECT value AS k, 'x' AS name FROM generate_series(1, {rows})");
        run(&ctx, &format!("CREATE OR REPLACE TABLE d AS {values}")).await;
        for _ in 0..2 {
            assert_eq!(told(&ctx, sql).await.0, rows.to_string());
        }
        assert!(told(&ctx, sql).await.1, "{rows}");
    }
    // Tables that swap their names.
    run(&ctx, "CREATE TABLE e AS SELECT 1 AS k, 'one' AS name").await;
    ask(&ctx, "SELECT count(*) FROM e").await;
    for round in 0..3 {
        let (d, e) = (
            ctx.deregister_table("d").expect("a table"),
            ctx.deregister_table("e").expect("a table"),
        );
        ctx.register_table("d", e.expect("e")).expect("registers");
        ctx.register_table("e", d.expect("d")).expect("registers");
        let (d, e) = if round % 2 == 0 { ("1", "3") } else { ("3", "1") };
        for _ in 0..2 {
            assert_eq!(value(&ctx, sql).await, d, "{round}");
            assert_eq!(value(&ctx, "SELECT count(*) FROM e").await, e, "{round}");
        }
    }
}

#[tokio::test]
async fn ctes_shadow_tables_in_cached_sql_text() {
    let ctx = session(&[]).await;
    let sql = "WITH later AS (SELECT v FROM t WHERE v < 5) SELECT count(*) FROM later";
    for _ in 0..2 {
        assert_eq!(value(&ctx, sql).await, "4");
    }
    run(&ctx, "CREATE TABLE later AS SELECT 1 AS v").await;
    for _ in 0..2 {
        assert_eq!(value(&ctx, sql).await, "4");
        assert_eq!(value(&ctx, "SELECT count(*) FROM later").await, "1");
    }
}

/// A schema with the tables of another one, until they are hidden.
#[derive(Debug)]
struct Hiding {
    tables: MemorySchemaProvider,
    hides: AtomicBool,
}

#[async_trait]
impl SchemaProvider for Hiding {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.hides.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.tables.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name)
    }
}

#[tokio::test]
async fn hidden_table_is_an_error_for_cached_sql_text() {
    let ctx = session(&[]).await;
    let schema = Arc::new(Hiding {
        tables: MemorySchemaProvider::new(),
        hides: AtomicBool::new(false),
    });
    let table = ctx.table_provider("d").await.expect("a table");
    schema
        .tables
        .register_table("d".into(), table)
        .expect("registers");
    let catalog = ctx.catalog("datafusion").expect("a catalog");
    catalog
        .register_schema("hiding", Arc::clone(&schema) as _)
        .expect("registers");
    let sql = "SELECT count(*) FROM hiding.d";
    assert_eq!(told(&ctx, sql).await, ("7".into(), false));
    assert_eq!(told(&ctx, sql).await, ("7".into(), true));
    schema.hides.store(true, Ordering::Relaxed);
    let error = galatea::sql(&ctx, sql).await.expect_err("hidden");
    assert!(error.to_string().contains("hiding.d"), "{error}");
    schema.hides.store(false, Ordering::Relaxed);
    assert_eq!(told(&ctx, sql).await, ("7".into(), true));
}

/// A table function that returns a table of the session; the test changes the table.
#[derive(Debug)]
struct Chosen(Arc<dyn TableProvider>);

impl TableFunctionImpl for Chosen {
    fn call(&self, _arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::clone(&self.0))
    }
}

#[tokio::test]
async fn table_functions_are_not_cached() {
    let ctx = session(&[]).await;
    let sql = "SELECT count(*) FROM chosen()";
    for (table, rows) in [("t", "3000"), ("d", "7"), ("t", "3000")] {
        let table = ctx.table_provider(table).await.expect("a table");
        ctx.register_udtf("chosen", Arc::new(Chosen(table)));
        for _ in 0..2 {
            assert_eq!(told(&ctx, sql).await, (rows.into(), false));
        }
    }
}

/// A planner that plans `a + b` as `a - b`.
#[derive(Debug)]
struct MinusForPlus;

impl ExprPlanner for MinusForPlus {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match expr.op {
            BinaryOperator::Plus => PlannerResult::Planned(datafusion::logical_expr::binary_expr(
                cast(expr.left, DataType::Int64),
                Operator::Minus,
                expr.right,
            )),
            _ => PlannerResult::Original(expr),
        })
    }
}

#[tokio::test]
async fn new_expression_planner_invalidates_cached_sql_text() {
    let ctx = session(&[]).await;
    let sql = "SELECT max(v + 1) FROM t";
    for _ in 0..2 {
        assert_eq!(value(&ctx, sql).await, "3001");
    }
    let mut registry = ctx.state();
    datafusion::logical_expr::registry::FunctionRegistry::register_expr_planner(
        &mut registry,
        Arc::new(MinusForPlus),
    )
    .expect("registers");
    let changed = SessionContext::new_with_state(registry);
    for _ in 0..2 {
        assert_eq!(value(&changed, sql).await, "2999");
        assert_eq!(value(&ctx, sql).await, "3001");
    }
}

#[tokio::test]
async fn parser_settings_are_part_of_the_sql_text_key() {
    let ctx = session(&[]).await;
    run(&ctx, "CREATE TABLE \"T\" AS SELECT 1 AS v").await;
    let sql = "SELECT count(*) FROM T";
    for _ in 0..2 {
        for (normalise, rows) in [("true", "3000"), ("false", "1")] {
            run(
                &ctx,
                &format!("SET datafusion.sql_parser.enable_ident_normalization = {normalise}"),
            )
            .await;
            assert_eq!(value(&ctx, sql).await, rows);
            assert_eq!(value(&ctx, sql).await, rows);
        }
    }
}

#[tokio::test]
async fn least_recently_used_sql_texts_are_evicted() {
    let ctx = session(&[("galatea.cache.plans", "2")]).await;
    let queries = [0, 1, 2].map(|least| format!("SELECT count(*) FROM t WHERE v > {least}"));
    for sql in &queries {
        assert!(!told(&ctx, sql).await.1);
    }
    assert!(told(&ctx, &queries[1]).await.1);
    assert!(told(&ctx, &queries[2]).await.1);
    assert!(!told(&ctx, &queries[0]).await.1, "it had gone");
    run(&ctx, "SET galatea.cache.plans = 0").await;
    for _ in 0..2 {
        assert!(!told(&ctx, &queries[2]).await.1);
    }
}

#[tokio::test]
async fn cached_sql_text_holds_no_table() {
    let ctx = session(&[]).await;
    let (_, reused) = ask(&ctx, "SELECT sum(v) FROM t").await;
    assert!(!reused);
    assert!(checked(&ctx, "SELECT sum(v) FROM t", "known").await);
    let table = Arc::downgrade(&ctx.table_provider("t").await.expect("a table"));
    run(&ctx, "DROP TABLE t").await;
    assert!(table.upgrade().is_none(), "somebody holds the table");
}
