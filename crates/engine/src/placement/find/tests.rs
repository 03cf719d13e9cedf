use super::*;
use datafusion::prelude::SessionContext;
use std::cell::Cell;

/// How often the search looks at a build side of a chain of so many joins.
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

/// Without chains that are kept, a join more would take three times as long.
#[tokio::test]
async fn the_search_grows_by_a_constant_with_each_join() {
    let (few, many) = (looks(4).await, looks(16).await);
    assert!(few >= 4, "{few}");
    assert!(many <= 5 * few, "{few} for 4 joins, {many} for 16");
}
