//! Copies of plans, for executions of their own.
//!
//! A node keeps what an execution needs: counters, collected build sides, channels between partitions,
//! filters that one operator tightens for another while both run. Executions that share a node share that, so
//! a plan that is used again is copied node by node.

use crate::execution::GpuExec;
use crate::placement::PlacementExec;
use crate::report::PlanReport;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// The plan as it was before its first execution; GPU subtrees report to `report`.
///
/// Nodes that [`is_renewable`] does not know are reset as far as they can be.
pub(crate) fn renewed(plan: &Arc<dyn ExecutionPlan>, report: &PlanReport) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal::new(report, false).copy(plan)
}

/// The plan as it is kept: copies of it share the rows of small build sides.
pub(super) fn kept(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal::new(&PlanReport::default(), true).copy(plan)
}

/// One copying of a plan.
pub(crate) struct Renewal<'a> {
    /// What GPU subtrees of the copy report to.
    pub(crate) report: &'a PlanReport,
    /// Where subqueries of the plan leave their values, and where those of the copy do.
    results: Vec<(ScalarSubqueryResults, ScalarSubqueryResults)>,
    /// Whether the copy is to be kept.
    keeps: bool,
}

impl<'a> Renewal<'a> {
    fn new(report: &'a PlanReport, keeps: bool) -> Self {
        Self {
            report,
            results: Vec::new(),
            keeps,
        }
    }

    /// Rows of a build side that `plan` makes, shared by executions; none where they hang on a subquery.
    pub(crate) fn shares(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        self.keeps && !any_reads_subquery(plan)
    }

    /// A copy of a part of the plan.
    pub(crate) fn copy(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.copy_subqueries(subqueries);
        }
        let children = plan.children().into_iter();
        let mut children = children
            .map(|child| self.copy(child))
            .collect::<Result<Vec<_>>>()?;
        if let Some(gpu) = plan.downcast_ref::<GpuExec>() {
            return Ok(Arc::new(gpu.renewed(children, self)?));
        }
        if let Some(placement) = plan.downcast_ref::<PlacementExec>()
            && let Some(input) = children.pop()
        {
            return Ok(Arc::new(placement.renewed(input, self.report)));
        }
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
            && let Some(copy) = parquet_scan(scan)
        {
            return Ok(copy);
        }
        let mut copy = Arc::clone(plan);
        if !children.is_empty() {
            // The children are copies: their properties are those that the node was made for.
            let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            copy = copy.replace_children(children, same)?;
        }
        if reads_subquery(&copy)? {
            return self.with_own_results(&copy);
        }
        if let Some(aggregate) = copy.downcast_ref::<AggregateExec>()
            && let Some(rebuilt) = with_own_filter(aggregate)?
        {
            return Ok(rebuilt);
        }
        copy.reset_state()
    }

    /// A node that runs subqueries, and leaves their values where the copy's expressions look for them.
    fn copy_subqueries(&mut self, plan: &ScalarSubqueryExec) -> Result<Arc<dyn ExecutionPlan>> {
        let results = ScalarSubqueryResults::new(plan.subqueries().len());
        self.results.push((plan.results().clone(), results.clone()));
        let input = self.copy(plan.input())?;
        let links = plan.subqueries().iter().map(|link| {
            let plan = self.copy(&link.plan)?;
            let index = link.index;
            Ok(ScalarSubqueryLink { plan, index })
        });
        let links = links.collect::<Result<_>>()?;
        Ok(Arc::new(ScalarSubqueryExec::new(input, links, results)))
    }

    /// Whether subqueries are among what is copied.
    pub(crate) fn has_subqueries(&self) -> bool {
        !self.results.is_empty()
    }

    /// The expression, with values of the copy's subqueries.
    pub(crate) fn rebind(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let rebound = Arc::clone(expression).transform(|part| {
            let Some(subquery) = part.downcast_ref::<ScalarSubqueryExpr>() else {
                return Ok(Transformed::no(part));
            };
            let own =
                (self.results.iter()).find(|(old, _)| ScalarSubqueryResults::ptr_eq(old, subquery.results()));
            let Some((_, own)) = own else {
                return Ok(Transformed::no(part));
            };
            let field = subquery.return_field(&Schema::empty())?;
            #[expect(deprecated, reason = "what its number is nothing else tells")]
            let index = subquery.index();
            let own =
                ScalarSubqueryExpr::new(field.data_type().clone(), field.is_nullable(), index, own.clone());
            Ok(Transformed::yes(Arc::new(own) as Arc<dyn PhysicalExpr>))
        });
        Ok(rebound?.data)
    }

    /// A node whose expressions read values of the copy's subqueries; other nodes than these are not
    /// [renewable](is_renewable) with such expressions.
    fn with_own_results(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let predicate = self.rebind(filter.predicate())?;
            let copy = FilterExecBuilder::from(filter).with_predicate(predicate);
            return Ok(Arc::new(copy.build()?));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let columns = projection.expr().iter().map(|column| {
                Ok(ProjectionExpr {
                    expr: self.rebind(&column.expr)?,
                    alias: column.alias.clone(),
                })
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            return Ok(Arc::new(ProjectionExec::try_new(
                columns,
                Arc::clone(projection.input()),
            )?));
        }
        Arc::clone(plan).reset_state()
    }
}

fn any_reads_subquery(plan: &Arc<dyn ExecutionPlan>) -> bool {
    // The expressions of a GPU subtree are those of the plan that it stands for.
    let stands_for = plan.downcast_ref::<GpuExec>().map(GpuExec::cpu);
    let mut below = plan.children().into_iter().chain(stands_for);
    reads_subquery(plan).unwrap_or(true) || below.any(any_reads_subquery)
}

/// Whether expressions of a node read values of subqueries.
fn reads_subquery(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut reads = false;
    plan.apply_expressions(&mut |expression| {
        reads |= expression.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// Whether copies of a plan share nothing that changes while they run.
///
/// Filters that one operator tightens and another applies are part of both, so plans with such a pair are
/// not; nor are operators that are not known here.
pub(crate) fn is_renewable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let known = plan.is::<GpuExec>()
        || plan.is::<PlacementExec>()
        || plan.is::<StoreScanExec>()
        || plan.is::<ScalarSubqueryExec>()
        || plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<HashJoinExec>()
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
            .is_some_and(|scan| is_in_memory(scan) || parquet_scan(scan).is_some());
    known
        && !applies_others_filter(plan)
        && has_own_results(plan)
        && plan
            .downcast_ref::<GpuExec>()
            .is_none_or(|gpu| all_have_own_results(gpu.cpu()))
        && plan.children().into_iter().all(is_renewable)
}

/// Whether a copy of a node reads values of the copy's subqueries, if any.
fn has_own_results(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || reads_subquery(plan).is_ok_and(|reads| !reads)
}

fn all_have_own_results(plan: &Arc<dyn ExecutionPlan>) -> bool {
    has_own_results(plan) && plan.children().into_iter().all(all_have_own_results)
}

/// Whether a node has a filter that changes while it runs and is not its own.
fn applies_others_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let own = plan.dynamic_expressions_produced();
    let is_own = |expression: &Arc<dyn PhysicalExpr>| own.iter().any(|own| Arc::ptr_eq(own, expression));
    let mut applies = false;
    let visited = plan.apply_expressions(&mut |expression| {
        applies |=
            !is_own(expression) && DynamicFilterTracking::classify(expression).contains_dynamic_filter();
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_err() || applies
}

/// Rows of the query's text, which no execution counts.
fn is_in_memory(scan: &DataSourceExec) -> bool {
    scan.data_source().downcast_ref::<MemorySourceConfig>().is_some()
}

/// A scan of the same Parquet files with counters of its own; none where what the scan does cannot all be
/// read off it.
fn parquet_scan(scan: &DataSourceExec) -> Option<Arc<dyn ExecutionPlan>> {
    let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    let options = source.table_parquet_options();
    let encrypted = options.crypto.factory_id.is_some() || options.crypto.file_decryption.is_some();
    if encrypted || !config.output_ordering.is_empty() {
        return None;
    }
    let mut copy =
        ParquetSource::new(source.table_schema().clone()).with_table_parquet_options(options.clone());
    if let Some(hint) = options.global.metadata_size_hint {
        copy = copy.with_metadata_size_hint(hint);
    }
    if let Some(factory) = source.parquet_file_reader_factory() {
        copy = copy.with_parquet_file_reader_factory(Arc::clone(factory));
    }
    if let Some(predicate) = source.filter() {
        copy = copy.with_predicate(predicate);
    }
    let projection = source.projection()?;
    let copy = copy.try_pushdown_projection(projection).ok()??;
    if copy.projection() != Some(projection) {
        return None;
    }
    let config = FileScanConfigBuilder::from(config.clone()).with_source(copy);
    Some(DataSourceExec::from_data_source(config.build()))
}

/// An aggregate whose filter for its input, where it has one, is shared with no other: `replace_children` and
/// `reset_state` share it.
fn with_own_filter(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if aggregate.dynamic_expressions_produced().is_empty() {
        return Ok(None);
    }
    let own = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let own = own.with_limit_options(aggregate.limit_options());
    let alike = own.schema() == aggregate.schema();
    Ok(alike.then(|| Arc::new(own) as Arc<dyn ExecutionPlan>))
}
