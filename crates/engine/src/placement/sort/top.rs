//! `ORDER BY ... LIMIT`: the pipeline below returns candidates for the first rows, in no order, and
//! DataFusion sorts them.

use crate::graph::{PipelineGraph, PipelineSource};
use crate::placement::chain::Finder;
use crate::placement::nodes::node;
use crate::placement::plan_node::PlanNode;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use galatea_base::reason::Reason;
use galatea_codegen::{RowOrder, SinkPlan, TopRows};
use galatea_expression::{Expr, SortOrder, is_string, lower};
use std::sync::Arc;

/// The sort with a limit, and the pipeline of its input; `None` for other nodes.
pub(in crate::placement) fn below<'p>(
    plan: &'p Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Option<(&'p SortExec, Result<PipelineGraph, Reason>)> {
    let PlanNode::Sort(sort) = PlanNode::of(plan) else {
        return None;
    };
    let fetch = sort.fetch()?;
    Some((sort, subtree(sort, fetch, finder)))
}

fn subtree(sort: &SortExec, fetch: usize, finder: &Finder<'_>) -> Result<PipelineGraph, Reason> {
    let chain = finder.below(sort.input())?;
    let of_groups = match (&chain.source, &chain.groups) {
        (PipelineSource::Plan(plan), _) if !finder.encodes => {
            return Err(node(plan.plan().name(), "its rows are not on the device"));
        }
        (_, Some(groups)) if matches!(&groups.root().get().plan.sink, SinkPlan::Aggregate { keys, .. } if keys.is_empty()) =>
        {
            return Err(node("SortExec", "one row"));
        }
        (_, groups) => groups.is_some(),
    };
    let schema = sort.input().schema();
    let keys = sort.expr().iter().map_while(|key| {
        let value = lower(&key.expr, &schema).ok()?.substitute(&chain.columns);
        let order = SortOrder {
            descending: key.options.descending,
            nulls_first: key.options.nulls_first,
        };
        // Keys of groups have dictionaries; other strings are compared by their first bytes.
        let ordered = of_groups || !is_string(value.data_type()) || value.has_bytes();
        ordered.then_some((value, order))
    });
    let keys: Vec<_> = keys.collect();
    if keys.is_empty() {
        return Err(node("SortExec", "the first key has no number on the device"));
    }
    let top = TopRows {
        whole: keys.len() == sort.expr().len(),
        key: Expr::sort_key(keys),
        fetch: fetch as u64,
    };
    let sink = SinkPlan::Rows {
        outputs: chain.columns.clone(),
        order: Some(RowOrder::First(top)),
    };
    chain.finish(sink, schema)
}
