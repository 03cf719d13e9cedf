//! Copies of finished plans, including GPU subtrees, one for each execution
//! ([`graph::copy`](crate::graph::copy)).

use crate::graph::InputPlan;
use crate::graph::copy::{self, Renewal, is_in_memory, parquet_scan, reads_subquery, tightened_filter};
use crate::nodes::GpuExec;
use crate::placement::PlacementExec;
use crate::report::PlanReport;
use crate::spilling_join::SpillingJoinExec;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use galatea_store::StoreScanExec;
use std::path::PathBuf;
use std::sync::Arc;

/// The plan as before its first execution; GPU subtrees report to `report`.
///
/// The state of nodes that [`is_renewable`] does not list is reset if they support it.
pub(super) fn renewed(plan: &Arc<dyn ExecutionPlan>, report: &PlanReport) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal::new(&|plan, renewal| copy_own(plan, renewal, report, false)).copy(plan)
}

/// The plan for the cache: copies of it share the rows of small build sides.
pub(super) fn kept(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let report = PlanReport::default();
    Renewal::new(&|plan, renewal| copy_own(plan, renewal, &report, true)).copy(plan)
}

/// A copy of a node of our own, over copies of its children; `keeps`: whether the copy will be cached.
fn copy_own(
    plan: &Arc<dyn ExecutionPlan>,
    renewal: &mut Renewal<'_>,
    report: &PlanReport,
    keeps: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(placement) = plan.downcast_ref::<PlacementExec>() {
        let input = renewal.copy(placement.input())?;
        return Ok(Some(Arc::new(placement.renewed(input, report))));
    }
    let Some(gpu) = plan.downcast_ref::<GpuExec>() else {
        return Ok(None);
    };
    let mut graph = gpu.graph().clone();
    for input in graph.inputs_mut() {
        // An input is copied when it runs. It is copied here only if the copy differs: our own nodes report
        // to this query, and expressions read this query's subqueries.
        let plan = input.plan();
        *input = InputPlan::new(match renewal.has_subqueries() || has_own(plan) {
            true => renewal.copy(plan)?,
            false => Arc::clone(plan),
        });
    }
    let mut cpu = Arc::clone(gpu.cpu());
    if keeps {
        // Rows that depend on a subquery are those of one execution.
        let files = |plan: &Arc<dyn ExecutionPlan>| match any_reads_subquery(plan) {
            true => None,
            false => local_files(plan),
        };
        graph.share_rows(&files);
    }
    if renewal.has_subqueries() {
        graph.rebind(&|expression| renewal.rebind(expression))?;
        cpu = renewal.copy(&cpu)?;
    }
    Ok(Some(Arc::new(gpu.with(graph, cpu, report.clone()))))
}

/// Whether a plan contains nodes of our own.
fn has_own(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let own = plan.is::<GpuExec>() || plan.is::<PlacementExec>();
    own || plan.children().into_iter().any(has_own)
}

/// The files that a plan reads; `None` if some are not local.
fn local_files(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    add_files(plan, &mut files)?;
    Some(files)
}

fn add_files(plan: &Arc<dyn ExecutionPlan>, files: &mut Vec<PathBuf>) -> Option<()> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
        && let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>()
    {
        files.extend(copy::local_files(config)?);
    }
    // A GPU subtree reads the files of the CPU plan that it replaces.
    if let Some(gpu) = plan.downcast_ref::<GpuExec>() {
        add_files(gpu.cpu(), files)?;
    }
    let mut children = plan.children().into_iter();
    children.try_for_each(|child| add_files(child, files))
}

fn any_reads_subquery(plan: &Arc<dyn ExecutionPlan>) -> bool {
    // The expressions of a GPU subtree are those of the CPU plan that it replaces.
    let stands_for = plan.downcast_ref::<GpuExec>().map(GpuExec::cpu);
    let mut below = plan.children().into_iter().chain(stands_for);
    reads_subquery(plan).unwrap_or(true) || below.any(any_reads_subquery)
}

/// Whether copies of a plan share no state that changes while they run.
///
/// A dynamic filter belongs to the operator that updates it and to the one that applies it. Copies of hash
/// joins and of Parquet scans have their own. Plans with other such pairs share them, and so do operators
/// that are not listed here.
pub(super) fn is_renewable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_renewable_below(plan, &mut Vec::new())
}

/// The same for a part of a plan, below hash joins that update the dynamic filters with these numbers.
fn is_renewable_below(plan: &Arc<dyn ExecutionPlan>, tightened: &mut Vec<u64>) -> bool {
    let known = plan.is::<GpuExec>()
        || plan.is::<PlacementExec>()
        || plan.is::<StoreScanExec>()
        || plan.is::<ScalarSubqueryExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SpillingJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SortExec>()
        || plan.is::<PartialSortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<UnionExec>()
        || plan.is::<InterleaveExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<EmptyExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan
            .downcast_ref::<DataSourceExec>()
            .is_some_and(|scan| is_in_memory(scan) || is_copied_scan(scan));
    let above = tightened.len();
    tightened.extend(plan.downcast_ref::<HashJoinExec>().and_then(tightened_filter));
    let renewable = known
        && !applies_others_filter(plan, tightened)
        && has_own_results(plan)
        && plan
            .downcast_ref::<GpuExec>()
            .is_none_or(|gpu| all_have_own_results(gpu.cpu()))
        && (plan.children().into_iter()).all(|child| is_renewable_below(child, tightened));
    tightened.truncate(above);
    renewable
}

fn is_copied_scan(scan: &DataSourceExec) -> bool {
    parquet_scan(scan, &|predicate| Ok(Arc::clone(predicate))).is_some()
}

/// Whether a copy of a node reads the results of the copy's subqueries, if it reads any.
fn has_own_results(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || reads_subquery(plan).is_ok_and(|reads| !reads)
}

fn all_have_own_results(plan: &Arc<dyn ExecutionPlan>) -> bool {
    has_own_results(plan) && plan.children().into_iter().all(all_have_own_results)
}

/// Whether a node has a dynamic filter that is neither its own nor, in a scan of files, that of a join above
/// it.
fn applies_others_filter(plan: &Arc<dyn ExecutionPlan>, tightened: &[u64]) -> bool {
    let own = plan.dynamic_expressions_produced();
    let own = own.iter().filter_map(|own| own.expression_id());
    let mut copied: Vec<u64> = own.collect();
    if plan.is::<DataSourceExec>() {
        copied.extend(tightened);
    }
    let mut applies = false;
    let visited = plan.apply_expressions(&mut |expression| {
        applies |= expression.exists(|part| {
            let dynamic = part.downcast_ref::<DynamicFilterPhysicalExpr>().is_some();
            Ok(dynamic && part.expression_id().is_none_or(|id| !copied.contains(&id)))
        })?;
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_err() || applies
}
