//! Operators of a plan that the CPU runs although they have work: tests list the queries with such operators.

use arrow::array::{AsArray, RecordBatch};
use datafusion::prelude::SessionContext;

/// DataFusion's operators that compute. The order of a result may remain on the CPU, at the end of a plan.
const WORK: [&str; 8] = [
    "AggregateExec",
    "FilterExec",
    "HashJoinExec",
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "SortMergeJoinExec",
    "WindowAggExec",
    "BoundedWindowAggExec",
];

/// The names of operators with work that the CPU runs, in the order of EXPLAIN.
pub(crate) async fn work_on_cpu(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let frame = ctx.sql(&format!("EXPLAIN {sql}")).await.expect("plans");
    let batches = frame.collect().await.expect("explains");
    batches.iter().flat_map(physical).collect()
}

fn physical(batch: &RecordBatch) -> Vec<String> {
    let (kinds, plans) = (
        batch.column(0).as_string::<i32>(),
        batch.column(1).as_string::<i32>(),
    );
    let physical = kinds.iter().zip(plans.iter().flatten());
    let physical = physical.filter(|(kind, _)| *kind == Some("physical_plan"));
    let lines = physical.flat_map(|(_, plan)| plan.lines());
    let names = lines.filter_map(|line| line.trim_start().split(':').next());
    names
        .filter(|name| WORK.contains(name))
        .map(str::to_owned)
        .collect()
}
