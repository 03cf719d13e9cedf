//! `galatea::install` on a context that is in use.

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, SimpleScalarUDF, Volatility};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;

/// A function without arguments that returns `value`.
fn constant(name: &str, alias: Option<String>, value: i64) -> ScalarUDF {
    let implementation = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(value.into()));
    ScalarUDF::new_from_impl(SimpleScalarUDF::new(
        name,
        vec![],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(implementation),
    ))
    .with_aliases(alias.map(|alias| &*alias.leak()))
}

fn table(values: &[i64]) -> Arc<MemTable> {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_from_iter([("v", column)]).expect("one column");
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("one schema"))
}

async fn number(ctx: &SessionContext, sql: &str) -> Result<i64> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let column = datafusion::common::cast::as_int64_array(batches[0].column(0))?;
    Ok(column.value(0))
}

/// The names of the physical optimizer rules, in order.
fn rule_names(ctx: &SessionContext) -> Vec<String> {
    let state = ctx.state();
    let rules = state.physical_optimizers().iter();
    rules.map(|rule| rule.name().to_owned()).collect()
}

/// A rule without effect, to check that it is kept.
#[derive(Debug)]
struct Marker;

impl PhysicalOptimizerRule for Marker {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &datafusion::config::ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan)
    }

    fn name(&self) -> &str {
        "marker"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn install_keeps_state_of_an_existing_context() -> Result<()> {
    let config = SessionConfig::new()
        .with_batch_size(77)
        .with_default_catalog_and_schema("mine", "own");
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(Marker))
        .build();
    let ctx = SessionContext::new_with_state(state);
    let session = ctx.session_id();
    ctx.register_table("t", table(&[1, 2, 3]))?;
    let other = MemoryCatalogProvider::new();
    datafusion::catalog::CatalogProvider::register_schema(
        &other,
        "s",
        Arc::new(MemorySchemaProvider::new()),
    )?;
    ctx.register_catalog("other", Arc::new(other));
    ctx.register_table("other.s.u", table(&[40]))?;
    ctx.sql("CREATE VIEW w AS SELECT v + 1 AS v FROM t").await?;
    ctx.sql("SET datafusion.execution.target_partitions = 3").await?;
    // Many names that are aliases of older functions, because the order of a map is random.
    for i in 0..16 {
        ctx.register_udf(constant(&format!("older_{i}"), Some(format!("newer_{i}")), 0));
        ctx.register_udf(constant(&format!("newer_{i}"), None, 1));
    }

    galatea::install(&ctx)?;
    let rules = rule_names(&ctx);
    assert!(rules.iter().any(|name| name == "galatea_place_on_device"));
    galatea::install(&ctx)?;

    assert_eq!(ctx.session_id(), session);
    assert_eq!(number(&ctx, "SELECT sum(v) FROM t").await?, 6);
    assert_eq!(number(&ctx, "SELECT sum(v) FROM w").await?, 9);
    assert_eq!(number(&ctx, "SELECT sum(v) FROM other.s.u").await?, 40);
    for i in 0..16 {
        assert_eq!(
            number(&ctx, &format!("SELECT newer_{i}()")).await?,
            1,
            "newer_{i}"
        );
        assert_eq!(
            number(&ctx, &format!("SELECT older_{i}()")).await?,
            0,
            "older_{i}"
        );
    }
    let state = ctx.state();
    let options = state.config_options();
    assert_eq!(state.config().batch_size(), 77);
    assert_eq!(options.execution.target_partitions, 3);
    assert!(options.catalog.create_default_catalog_and_schema);
    assert!(
        state
            .physical_optimizers()
            .iter()
            .any(|rule| rule.name() == "marker")
    );
    assert_eq!(rule_names(&ctx), rules, "installed once");
    ctx.sql("CREATE TABLE after AS SELECT v FROM t")
        .await?
        .collect()
        .await?;
    assert_eq!(number(&ctx, "SELECT count(*) FROM after").await?, 3);
    Ok(())
}
