use super::*;
use datafusion::prelude::SessionContext;
use std::cell::Cell;

/// Number of times that the search visits a build side of a chain of `joins` joins.
async fn looks(joins: usize) -> usize {
    let ctx = SessionContext::new();
    let table = "CREATE TABLE t AS SELECT value AS i, value AS j FROM generate_series(1, 100)";
    let frame = ctx.sql(table).await.expect("a table");
    frame.collect().await.expect("its rows");
    let joined = (1..=joins).map(|at| format!(" JOIN t t{at} ON t{}.j = t{at}.i", at - 1));
    let sql = format!("SELECT count(*) FROM t t0{}", joined.collect::<String>());
    let frame = ctx.sql(&sql).await.expect("a query");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let looks = Cell::new(0);
    let found = |_: &BuildSide| {
        looks.set(looks.get() + 1);
        None
    };
    let chain = highest(&plan, &finder(&found, true)).expect("an aggregate");
    chain.expect("joins of the device");
    looks.get()
}

/// The highest subtree of a plan.
fn highest(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<Result<PipelineGraph, Reason>> {
    let here = subtree(plan, finder);
    here.or_else(|| (plan.children().into_iter()).find_map(|child| highest(child, finder)))
}

/// Without cached chains, each further join would take three times as long.
#[tokio::test]
async fn chain_search_is_linear_in_number_of_joins() {
    let (few, many) = (looks(4).await, looks(16).await);
    assert!(few >= 4, "{few}");
    assert!(many <= 5 * few, "{few} for 4 joins, {many} for 16");
}
