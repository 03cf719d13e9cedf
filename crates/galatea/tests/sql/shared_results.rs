//! Equal queries that run at the same time have one run (`galatea.cache.shared_results`).

use crate::compare::same;
use crate::plans::files::SETTLED;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use galatea::{EmulatorOptions, QueryDevice, SessionBuilder};
use std::path::Path;
use std::sync::Arc;

const GROUPS: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k";

fn builder() -> SessionBuilder {
    galatea::session()
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
}

/// A session with a table of 5,000 rows, on an engine of its own.
async fn session() -> SessionContext {
    let builder = builder().with_emulated_device(EmulatorOptions::default());
    let ctx = builder.build().expect("a session");
    statement(
        &ctx,
        "CREATE TABLE t AS SELECT value % 50 AS k, value AS v FROM generate_series(1, 5000) AS g(value)",
    )
    .await;
    ctx
}

/// Another session over the tables of `ctx`.
fn client(ctx: &SessionContext) -> SessionContext {
    builder().with_tables_of(ctx).build().expect("a session")
}

async fn statement(ctx: &SessionContext, sql: &str) {
    let frame = galatea::sql(ctx, sql).await.expect("a plan");
    frame.collect().await.expect("a result");
}

/// A query in progress.
struct Running {
    plan: Arc<dyn ExecutionPlan>,
    rows: SendableRecordBatchStream,
}

impl Running {
    async fn begin(ctx: &SessionContext, sql: &str) -> Self {
        let plan = galatea::physical_plan(ctx, sql).await.expect("a plan");
        let rows = plan.execute(0, ctx.task_ctx()).expect("a stream");
        Self { plan, rows }
    }

    /// The rows, and whether they are those of another query.
    async fn end(self) -> Result<(Vec<RecordBatch>, bool)> {
        let rows = self.rows.try_collect().await?;
        let report = galatea::query_report(&self.plan).expect("a report");
        Ok((rows, report.is_shared))
    }
}

/// Runs a query in both sessions at the same time, with kept plans; whether the second has the rows of the
/// first.
async fn shares(first: &SessionContext, second: &SessionContext, sql: &str) -> bool {
    for ctx in [first, second] {
        let alone = Running::begin(ctx, sql).await.end().await.expect("rows");
        assert!(!alone.1, "no other query runs");
    }
    let one = Running::begin(first, sql).await;
    let other = Running::begin(second, sql).await;
    let (one, other) = futures::join!(one.end(), other.end());
    let (one, other) = (one.expect("rows"), other.expect("rows"));
    assert!(!one.1, "the first query runs");
    same(&one.0, &other.0).unwrap_or_else(|difference| panic!("{sql}: {difference}"));
    other.1
}

#[tokio::test]
async fn equal_queries_of_sessions_have_one_run() {
    let first = session().await;
    assert!(shares(&first, &first, GROUPS).await, "one session");
    let second = client(&first);
    assert!(shares(&first, &second, GROUPS).await, "two sessions");
    // A query alone runs again, and has its own report.
    let plan = galatea::physical_plan(&second, GROUPS).await.expect("a plan");
    datafusion::physical_plan::collect(Arc::clone(&plan), second.task_ctx())
        .await
        .expect("rows");
    let report = galatea::query_report(&plan).expect("a report");
    assert!(!report.is_shared && report.device_bytes > 0, "{report:?}");
}

#[tokio::test]
async fn report_of_shared_result_has_the_device_and_no_bytes() {
    let ctx = session().await;
    statement(&ctx, GROUPS).await;
    let (one, other) = (
        Running::begin(&ctx, GROUPS).await,
        Running::begin(&ctx, GROUPS).await,
    );
    let plan = Arc::clone(&other.plan);
    let _rows = futures::join!(one.end(), other.end());
    let report = galatea::query_report(&plan).expect("a report");
    assert!(report.is_shared && report.plan_reused, "{report:?}");
    assert_eq!(report.device, QueryDevice::Emulated);
    assert_eq!((report.device_bytes, report.link_bytes), (0, 0));
}

#[tokio::test]
async fn equal_queries_over_files_have_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = session().await;
    let file = folder.path().join("t.parquet");
    write(&first, &file, 4000).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE f STORED AS PARQUET LOCATION '{}'",
        file.display()
    );
    statement(&first, &sql).await;
    let second = client(&first);
    let sql = "SELECT k, max(v) FROM f WHERE v > 10 GROUP BY k ORDER BY k";
    std::thread::sleep(SETTLED);
    assert!(shares(&first, &first, sql).await, "one session");
    assert!(shares(&first, &second, sql).await);
    let before = Running::begin(&first, sql).await;
    write(&first, &file, 90).await;
    let after = Running::begin(&second, sql).await;
    let (_, after) = futures::join!(before.end(), after.end());
    let (rows, is_shared) = after.expect("rows");
    assert!(!is_shared, "the file has changed");
    let max = rows
        .iter()
        .flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(max.max(), Some(90));
}

async fn write(ctx: &SessionContext, file: &Path, rows: usize) {
    let sql = format!(
        "COPY (SELECT value % 7 AS k, value AS v FROM generate_series(1, {rows}) AS g(value)) TO '{}'",
        file.display()
    );
    statement(ctx, &sql).await;
}

#[tokio::test]
async fn queries_with_other_meanings_run_on_their_own() {
    let first = session().await;
    let second = client(&first);
    let other = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k DESC";
    statement(&first, GROUPS).await;
    statement(&second, other).await;
    let (one, two) = (
        Running::begin(&first, GROUPS).await,
        Running::begin(&second, other).await,
    );
    let (_, two) = futures::join!(one.end(), two.end());
    assert!(!two.expect("rows").1, "another order");

    statement(&second, "SET datafusion.execution.batch_size = 100").await;
    assert!(!shares(&first, &second, GROUPS).await, "another setting");

    let volatile = "SELECT count(*), min(v + random()) < 0 FROM t";
    assert!(!shares(&first, &client(&first), volatile).await, "random values");

    let off = client(&first);
    statement(&off, "SET galatea.cache.shared_results = false").await;
    assert!(!shares(&off, &off, GROUPS).await, "the setting");
}

/// A rule of the program may restrict the rows of a session.
#[tokio::test]
async fn sessions_with_other_rules_run_on_their_own() {
    #[derive(Debug)]
    struct Own;
    impl OptimizerRule for Own {
        fn name(&self) -> &str {
            "own"
        }
        fn apply_order(&self) -> Option<ApplyOrder> {
            None
        }
        fn rewrite(
            &self,
            plan: datafusion::logical_expr::LogicalPlan,
            _: &dyn OptimizerConfig,
        ) -> Result<datafusion::common::tree_node::Transformed<datafusion::logical_expr::LogicalPlan>>
        {
            Ok(datafusion::common::tree_node::Transformed::no(plan))
        }
    }
    let first = session().await;
    let second = client(&first);
    second.add_optimizer_rule(Arc::new(Own));
    assert!(!shares(&first, &second, GROUPS).await);
    assert!(
        shares(&second, &second, GROUPS).await,
        "one session has one set of rules"
    );
}

#[tokio::test]
async fn run_continues_without_the_query_that_began_it() {
    let ctx = session().await;
    statement(&ctx, GROUPS).await;
    let (one, other) = (
        Running::begin(&ctx, GROUPS).await,
        Running::begin(&ctx, GROUPS).await,
    );
    drop(one);
    let (rows, is_shared) = other.end().await.expect("rows");
    assert!(is_shared);
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 50);
}

#[tokio::test]
async fn changed_table_is_read_again() {
    let first = session().await;
    let second = client(&first);
    let sql = "SELECT count(*) AS n FROM t";
    let sums = "SELECT sum(v) AS s FROM t WHERE k < 40";
    assert!(shares(&first, &second, sums).await);
    let before = Running::begin(&first, sums).await;
    statement(&first, "INSERT INTO t VALUES (1, 1000000)").await;
    let after = Running::begin(&second, sums).await;
    let (before, after) = futures::join!(before.end(), after.end());
    let sum = |rows: &[RecordBatch]| rows[0].column(0).as_primitive::<Int64Type>().value(0);
    let (before, after) = (before.expect("rows"), after.expect("rows"));
    assert!(!after.1);
    assert_eq!(sum(&after.0), sum(&before.0) + 1_000_000);
    statement(&second, sql).await;
}

/// Each query has its own error.
#[tokio::test]
async fn failed_run_belongs_to_the_query_that_began_it() {
    let ctx = session().await;
    let sql = "SELECT k, sum(v / (k - 49)) AS q FROM t GROUP BY k ORDER BY k";
    for _ in 0..2 {
        let (one, other) = (Running::begin(&ctx, sql).await, Running::begin(&ctx, sql).await);
        let (one, other) = futures::join!(one.end(), other.end());
        let (one, other) = (one.expect_err("a division by zero"), other.expect_err("the same"));
        assert_eq!(one.to_string(), other.to_string());
        assert!(one.to_string().contains("ivi"), "{one}");
    }
}

/// A result beyond the limit is streamed, and each query runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_result_is_not_shared() {
    let ctx = session().await;
    statement(
        &ctx,
        "CREATE TABLE wide AS SELECT value AS v, value * 3 AS w, value * 5 AS x FROM generate_series(1, 900000) AS g(value)",
    )
    .await;
    let sql = "SELECT v, w, x FROM wide WHERE v % 1000 <> 7";
    assert!(!shares(&ctx, &ctx, sql).await);
}
