//! Copies of DataFusion's plans, one for each execution.
//!
//! A node keeps the state of an execution: counters, collected build sides, channels between partitions,
//! dynamic filters that one operator updates for another while both run. Executions that share a node share
//! its state, so a plan that is used again is copied node by node.

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use galatea_store::{guarded_as, parquet_source};
use std::path::PathBuf;
use std::sync::Arc;

/// Copies one of our own nodes and its inputs; `None` for other nodes.
pub(crate) type CopyOwn<'a> =
    dyn Fn(&Arc<dyn ExecutionPlan>, &mut Renewal<'_>) -> Result<Option<Arc<dyn ExecutionPlan>>> + 'a;

/// Replaces an expression by another.
pub(crate) type Rewrite<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> + 'a;

/// The state of copying one plan.
pub(crate) struct Renewal<'a> {
    own: &'a CopyOwn<'a>,
    /// The results of subqueries of the plan, and those of the copy's subqueries.
    results: Vec<(ScalarSubqueryResults, ScalarSubqueryResults)>,
    /// Dynamic filters that joins of the plan update for scans below them, by number, and those of the copy's
    /// joins.
    filters: Vec<(u64, Arc<dyn PhysicalExpr>)>,
}

/// A copy, as before its first execution, of a plan that consists only of DataFusion's nodes.
pub(crate) fn renewed_host(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Renewal::new(&|_, _| Ok(None)).copy(plan)
}

impl<'a> Renewal<'a> {
    /// A copier that leaves our own nodes to `own`.
    pub(crate) fn new(own: &'a CopyOwn<'a>) -> Self {
        Self {
            own,
            results: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// A copy of a part of the plan.
    pub(crate) fn copy(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.copy_subqueries(subqueries);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>()
            && let Some(filter) = tightened_filter(join)
        {
            return self.copy_join(join, filter);
        }
        let own = self.own;
        if let Some(copy) = own(plan, self)? {
            return Ok(copy);
        }
        let children = self.copy_children(plan.as_ref())?;
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
            && let Some(copy) = parquet_scan(scan, &|predicate| self.with_own_filters(predicate))
        {
            return Ok(copy);
        }
        let mut copy = Arc::clone(plan);
        if !children.is_empty() {
            // The children are copies, so the properties of the node stay valid.
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

    fn copy_children(&mut self, plan: &dyn ExecutionPlan) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let children = plan.children().into_iter();
        children.map(|child| self.copy(child)).collect()
    }

    /// Copies a join that updates a dynamic filter while it runs, and the scans below it that apply that
    /// filter.
    fn copy_join(&mut self, plan: &HashJoinExec, filter: u64) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = plan.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        let own = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
        self.filters.push((filter, Arc::clone(&own) as _));
        let children = self.copy_children(plan)?;
        let copy = plan
            .builder()
            .with_new_children(children)?
            .reset_state()
            .build()?;
        Ok(Arc::new(copy.with_dynamic_filter_expr(own)?))
    }

    /// The expression with the filters of the plan's joins replaced by those of the copy's joins.
    fn with_own_filters(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let changed = Arc::clone(expression).transform(|part| {
            let filter = part
                .expression_id()
                .and_then(|id| self.filters.iter().find(|(old, _)| *old == id));
            let Some((_, own)) = filter else {
                return Ok(Transformed::no(part));
            };
            let columns = part.children().into_iter().cloned().collect();
            let own = Arc::clone(own).with_new_children(columns)?;
            Ok(Transformed::yes(own))
        });
        Ok(changed?.data)
    }

    /// Copies a node that runs subqueries; they leave their results for the copy's expressions.
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

    /// Whether the copied plan has subqueries.
    pub(crate) fn has_subqueries(&self) -> bool {
        !self.results.is_empty()
    }

    /// The expression, with the results of the copy's subqueries.
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

    /// The node, if its expressions read results of the copy's subqueries. Other nodes than these are not
    /// renewable (`plans/renew.rs`) with such expressions.
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

/// Whether expressions of a node read results of subqueries.
pub(crate) fn reads_subquery(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut reads = false;
    plan.apply_expressions(&mut |expression| {
        reads |= expression.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// The files that a scan reads; `None` if they are not local.
pub(crate) fn local_files(scan: &FileScanConfig) -> Option<impl Iterator<Item = PathBuf>> {
    let is_local = scan.object_store_url.as_str().starts_with("file:");
    let files = scan.file_groups.iter().flat_map(FileGroup::iter);
    is_local.then(|| files.map(|file| PathBuf::from(format!("/{}", file.object_meta.location))))
}

/// Whether a scan reads rows of the query's text, which no execution counts.
pub(crate) fn is_in_memory(scan: &DataSourceExec) -> bool {
    scan.data_source().downcast_ref::<MemorySourceConfig>().is_some()
}

/// The number of the dynamic filter that a join updates while it runs, if it has one.
pub(crate) fn tightened_filter(join: &HashJoinExec) -> Option<u64> {
    join.dynamic_expressions_produced().first()?.expression_id()
}

/// A scan of the same Parquet files with counters of its own, and with a predicate that `predicate` rewrites;
/// `None` if the scan has properties that cannot be copied.
pub(crate) fn parquet_scan(scan: &DataSourceExec, predicate: &Rewrite<'_>) -> Option<Arc<dyn ExecutionPlan>> {
    let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let source = parquet_source(config.file_source().as_ref())?;
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
    if let Some(filter) = source.filter() {
        copy = copy.with_predicate(predicate(&filter).ok()?);
    }
    let projection = source.projection()?;
    let copy = copy.try_pushdown_projection(projection).ok()??;
    if copy.projection() != Some(projection) {
        return None;
    }
    let copy = guarded_as(config.file_source().as_ref(), copy);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(copy);
    Some(DataSourceExec::from_data_source(config.build()))
}

/// An aggregate with its own dynamic filter for its input, if it has one: `replace_children` and
/// `reset_state` share the filter.
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
