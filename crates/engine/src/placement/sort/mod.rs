//! `ORDER BY` over all rows. The pipeline below keeps its rows on the device, sorts them there and returns
//! them in order, without the sort columns if these are projected away.

pub(in crate::placement) mod top;

use crate::config::{DeviceChoice, GalateaConfig};
use crate::graph::{PipelineGraph, PipelineSource};
use crate::placement::chain::Finder;
use crate::placement::cost::Estimator;
use crate::placement::nodes::node;
use crate::placement::plan_node::PlanNode;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_expression::{Expr, SortOrder, lower};
use std::sync::Arc;

policy! {
    /// The orders that are sorted on the device.
    pub(in crate::placement) struct SortPolicy {
        /// Maximum LIMIT with a last row that is found by counting; the CPU sorts then.
        counted_rows: usize = 1 << 17,
        /// Maximum number of 64-bit words in an order: each takes up to eight passes over all rows.
        words: usize = 16,
    }
}

const POLICY: SortPolicy = SortPolicy::DEFAULT;

/// The sort and the pipeline that returns its rows in order. The sort has no LIMIT, or one for which counting
/// is not profitable, and may be below a projection to some of its columns. `None` for other nodes.
pub(in crate::placement) fn below<'p>(
    plan: &'p Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Option<(&'p SortExec, Result<PipelineGraph, Reason>)> {
    let (sort, kept) = match PlanNode::of(plan) {
        PlanNode::Projection(projection) => (unmerged(projection.input()), Some(kept(projection)?)),
        _ => (plan, None),
    };
    let PlanNode::Sort(sort) = PlanNode::of(sort) else {
        return None;
    };
    let few = sort.fetch().is_some_and(|fetch| fetch <= POLICY.counted_rows);
    (!few).then(|| (sort, subtree(plan, sort, kept, finder)))
}

/// The input of a node that keeps rows in order: an order requirement, or a merge of partitions; the device
/// has only one partition.
fn unmerged(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match PlanNode::of(plan) {
        PlanNode::Requirement(input) if plan.fetch().is_none() => input,
        PlanNode::Merge(merge) if merge.fetch().is_none() => merge.input(),
        _ => plan,
    }
}

/// The columns that a projection keeps; `None` if it computes others.
fn kept(projection: &ProjectionExec) -> Option<Vec<usize>> {
    let columns = projection.expr().iter();
    let columns = columns.map(|output| Some(output.expr.downcast_ref::<Column>()?.index()));
    columns.collect()
}

/// The pipeline that returns these columns of a sort's rows, or all, as `plan` does.
fn subtree(
    plan: &Arc<dyn ExecutionPlan>,
    sort: &SortExec,
    kept: Option<Vec<usize>>,
    finder: &Finder<'_>,
) -> Result<PipelineGraph, Reason> {
    let chain = finder.below(sort.input())?;
    match (&chain.source, &chain.groups) {
        (PipelineSource::Plan(plan), _) if !finder.encodes => {
            return Err(node(plan.plan().name(), "its rows are not on the device"));
        }
        (_, Some(groups)) if matches!(&groups.root().get().plan.sink, SinkPlan::Aggregate { keys, .. } if keys.is_empty()) =>
        {
            return Err(node("SortExec", "one row"));
        }
        _ => {}
    }
    let outputs: Vec<Expr> = match kept {
        Some(kept) => kept
            .into_iter()
            .map(|column| chain.columns[column].clone())
            .collect(),
        None => chain.columns.clone(),
    };
    if outputs.is_empty() {
        return Err(node("SortExec", "no columns"));
    }
    let schema = sort.input().schema();
    let keys = sort.expr().iter().map(|key| {
        let value = lower(&key.expr, &schema)?.substitute(&chain.columns);
        let order = SortOrder {
            descending: key.options.descending,
            nulls_first: key.options.nulls_first,
        };
        Ok((value, order))
    });
    let keys = keys.collect::<Result<Vec<_>, Reason>>()?;
    // Row numbers already follow the order of the window.
    let words = match chain.is_ordered_by(&keys) {
        true => Expr::sort_words([(Expr::row_number(), SortOrder::ASCENDING)]),
        false => Expr::sort_words(keys),
    };
    if words.len() > POLICY.words {
        return Err(Reason::Limit {
            expression: "ORDER BY".into(),
            asked: words.len() as u64,
            limit: POLICY.words as u64,
            unit: "words of 64 bits",
        });
    }
    let sink = SinkPlan::Rows {
        outputs,
        order: Some(RowOrder::All(words)),
    };
    let mut found = chain.finish(sink, plan.schema())?;
    found.root_mut().fetch = sort.fetch();
    Ok(found)
}

/// Refuses sorts that the CPU finishes as soon as it has the rows: of few rows, and of few groups even if the
/// device is forced.
pub(in crate::placement) fn check_worth(
    found: &PipelineGraph,
    sort: &SortExec,
    estimator: &Estimator,
    config: &GalateaConfig,
) -> Result<(), Reason> {
    let rows = estimator.rows(sort.input());
    if matches!(found.root().source, PipelineSource::Groups(_)) && rows < config.build_rows.0 as f64 {
        return Err(node(
            "SortExec",
            "few groups are sorted when they have been returned",
        ));
    }
    if config.device != DeviceChoice::Auto {
        return Ok(());
    }
    match estimator.device_sort(&found.root(), rows) <= estimator.host_sort(sort) {
        true => Ok(()),
        false => Err(node(
            "SortExec",
            "few rows are sorted when they have been returned",
        )),
    }
}
