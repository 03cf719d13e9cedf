//! Copies of plans, for executions of their own.
//!
//! A node keeps what an execution needs: counters, collected build sides, channels between partitions,
//! filters that one operator tightens for another while both run. Executions that share a node share that, so
//! a plan that is used again is copied node by node.

use crate::execution::GpuExec;
use crate::placement::PlacementExec;
use crate::report::PlanReport;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
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
    let children = plan.children().into_iter();
    let mut children = children
        .map(|child| renewed(child, report))
        .collect::<Result<Vec<_>>>()?;
    if let Some(gpu) = plan.downcast_ref::<GpuExec>() {
        return Ok(Arc::new(gpu.renewed(children, report)));
    }
    if let Some(placement) = plan.downcast_ref::<PlacementExec>()
        && let Some(input) = children.pop()
    {
        return Ok(Arc::new(placement.renewed(input, report)));
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
    if let Some(aggregate) = copy.downcast_ref::<AggregateExec>()
        && let Some(rebuilt) = with_own_filter(aggregate)?
    {
        return Ok(rebuilt);
    }
    copy.reset_state()
}

/// Whether copies of a plan share nothing that changes while they run.
///
/// Filters that one operator tightens and another applies are part of both, so plans with such a pair are
/// not; nor are operators that are not known here.
pub(crate) fn is_renewable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let known = plan.is::<GpuExec>()
        || plan.is::<PlacementExec>()
        || plan.is::<StoreScanExec>()
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
    known && !applies_others_filter(plan) && plan.children().into_iter().all(is_renewable)
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
