//! From a source upwards: the filters, projections and lookups of a pipeline.

use super::build_side::{Build, Buildable, DimensionSource, SharedRows};
use super::join;
use super::subtree::{self, PipelineSource, Subtree, node};
use crate::expression::{Expr, lower};
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::reason::Reason;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// What is known of a plan's rows.
pub(super) fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    let context = StatisticsContext::new();
    context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// Nodes that only move batches about.
pub(super) fn arrangement(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let moves = plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<RepartitionExec>()
        || plan.name() == "CoalesceBatchesExec";
    if moves && plan.fetch().is_none() {
        plan.children().first().copied()
    } else {
        None
    }
}

/// Filters, projections and joins with dimensions from a source upwards, all in terms of the source's
/// columns.
pub(super) struct Chain {
    pub(super) source: PipelineSource,
    /// The pipeline that makes the rows, of groups.
    pub(super) groups: Option<Subtree>,
    source_schema: SchemaRef,
    rows: Option<u64>,
    pub(super) dimensions: Vec<DimensionSource>,
    /// Of each dimension what a pipeline could make it from.
    pub(super) buildable: Vec<Option<Buildable>>,
    pub(super) filters: Vec<Expr>,
    pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// The current node's output columns.
    pub(super) columns: Vec<Expr>,
    /// Source column of each output column, as long as they are plain columns: lets pruning predicates be
    /// rewritten.
    pub(super) plain: Vec<Option<usize>>,
}

impl Chain {
    pub(super) fn below(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, Reason> {
        if let Some(below) = arrangement(plan) {
            return Self::below(below);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            if filter.fetch().is_some() {
                return Err(node("FilterExec", "a limit inside the filter"));
            }
            let mut chain = Self::below(filter.input())?;
            let predicate = lower(filter.predicate(), &filter.input().schema())?.substitute(&chain.columns);
            chain.filters.extend(predicate.conjuncts());
            chain
                .pruning
                .extend(chain.rewrite_for_pruning(filter.predicate()));
            if let Some(projection) = filter.projection().as_ref() {
                chain.project(
                    projection
                        .iter()
                        .map(|i| (chain.columns[*i].clone(), chain.plain[*i]))
                        .collect(),
                );
            }
            return Ok(chain);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let mut chain = Self::below(projection.input())?;
            let schema = projection.input().schema();
            let columns = projection
                .expr()
                .iter()
                .map(|e| {
                    let lowered = lower(&e.expr, &schema)?.substitute(&chain.columns);
                    let plain = e
                        .expr
                        .downcast_ref::<Column>()
                        .and_then(|c| chain.plain[c.index()]);
                    Ok((lowered, plain))
                })
                .collect::<Result<Vec<_>, Reason>>()?;
            chain.project(columns);
            return Ok(chain);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>()
            && let Ok(chain) = join::chain(join)
        {
            return Ok(chain);
        }
        Self::source(plan)
    }

    pub(super) fn project(&mut self, columns: Vec<(Expr, Option<usize>)>) {
        (self.columns, self.plain) = columns.into_iter().unzip();
    }

    fn source(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, Reason> {
        let rows = statistics(plan).and_then(|s| s.num_rows.get_value().map(|rows| *rows as u64));
        if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
            if scan.fetch().is_some() {
                return Err(node("StoreScanExec", "a limit inside the scan"));
            }
            let source = scan.source();
            let schema = source.schema();
            let indices = scan.projection().to_vec();
            return Ok(Self::over_table(
                PipelineSource::Stored(source),
                schema,
                rows,
                &indices,
            ));
        }
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
            && let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>()
        {
            if config.limit.is_some() {
                return Err(node("DataSourceExec", "a limit inside the scan"));
            }
            if config.file_source().filter().is_some() {
                return Err(node("DataSourceExec", "a filter inside the scan"));
            }
            if matches!(
                config.file_source().file_type(),
                "parquet" | "csv" | "json" | "arrow"
            ) {
                let schema = Arc::clone(config.file_source().table_schema().table_schema());
                let projection = config.file_source().projection();
                let scan = Arc::new(scan.clone());
                let everything: Vec<usize> = (0..schema.fields().len()).collect();
                let mut chain = Self::over_table(
                    PipelineSource::Files { scan },
                    Arc::clone(&schema),
                    rows,
                    &everything,
                );
                if let Some(projection) = projection {
                    let columns = projection
                        .as_ref()
                        .iter()
                        .map(|e| {
                            let plain = e.expr.downcast_ref::<Column>().map(Column::index);
                            Ok((lower(&e.expr, &schema)?, plain))
                        })
                        .collect::<Result<Vec<_>, Reason>>()?;
                    chain.project(columns);
                }
                return Ok(chain);
            }
        }
        if ["EmptyExec", "PlaceholderRowExec"].contains(&plan.name()) {
            return Err(node(plan.name(), "no rows to scan"));
        }
        let schema = plan.schema();
        let indices: Vec<usize> = (0..schema.fields().len()).collect();
        if let Some(Ok(groups)) = subtree::aggregate(plan)
            && !matches!(groups.source, PipelineSource::Plan(_))
        {
            let source = PipelineSource::Groups(Arc::clone(plan));
            let chain = Self::over_table(source, schema, groups.rows, &indices);
            return Ok(Self {
                groups: Some(groups),
                ..chain
            });
        }
        Ok(Self::over_table(
            PipelineSource::Plan(Arc::clone(plan)),
            schema,
            rows,
            &indices,
        ))
    }

    /// Whether several of the groups may have the same `keys`, over the columns of `plan`, which this is the
    /// chain of: the keys are columns, and not all parts of the groups' key are among them.
    pub(super) fn shares_keys<'k>(
        &self,
        groups: &Subtree,
        plan: &Arc<dyn ExecutionPlan>,
        keys: impl Iterator<Item = &'k Arc<dyn PhysicalExpr>>,
    ) -> bool {
        let schema = plan.schema();
        let columns: Option<Vec<usize>> = keys
            .map(|key| lower(key, &schema).ok()?.substitute(&self.columns).as_column())
            .collect();
        match (&groups.plan.sink, columns) {
            (SinkPlan::Aggregate { keys, .. }, Some(columns)) => {
                !(0..keys.len()).all(|part| columns.contains(&part))
            }
            _ => false,
        }
    }

    /// Whether the rows are those of a table, on the device or to be brought there.
    pub(super) fn is_of_table(&self) -> bool {
        matches!(
            self.source,
            PipelineSource::Files { .. } | PipelineSource::Stored(_)
        )
    }

    fn over_table(source: PipelineSource, schema: SchemaRef, rows: Option<u64>, indices: &[usize]) -> Self {
        let columns = indices
            .iter()
            .map(|i| {
                let field = schema.field(*i);
                Expr::column(*i, field.data_type().clone(), field.is_nullable())
            })
            .collect();
        Self {
            source,
            groups: None,
            source_schema: schema,
            rows,
            dimensions: Vec::new(),
            buildable: Vec::new(),
            filters: Vec::new(),
            pruning: Vec::new(),
            columns,
            plain: indices.iter().map(|i| Some(*i)).collect(),
        }
    }

    /// The predicate over source columns, if it only uses plain ones.
    fn rewrite_for_pruning(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let mut plain = true;
        let rewritten = Arc::clone(predicate)
            .transform(|e| {
                Ok(match e.downcast_ref::<Column>() {
                    Some(column) => match self.plain.get(column.index()).copied().flatten() {
                        Some(index) => {
                            let name = self.source_schema.field(index).name();
                            Transformed::yes(Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>)
                        }
                        None => {
                            plain = false;
                            Transformed::no(e)
                        }
                    },
                    None => Transformed::no(e),
                })
            })
            .ok()?
            .data;
        plain.then_some(rewritten)
    }

    /// Looks up the columns of groups, by the number of the row, in the group table, which becomes the last
    /// of the build sides.
    fn look_up_groups(mut self, sink: SinkPlan) -> (Self, SinkPlan) {
        let (PipelineSource::Groups(plan), Some(groups)) = (&self.source, self.groups.take()) else {
            return (self, sink);
        };
        let number = self.dimensions.len();
        let row = Expr::row_number();
        let fields = self.source_schema.fields().iter().enumerate();
        let columns: Vec<Expr> = fields
            .map(|(index, field)| Expr::lookup(number, index, field, row.clone()))
            .collect();
        let side = DimensionSource {
            plan: Arc::clone(plan),
            key: Arc::new(Column::new("entry", 0)),
            wanted: row.clone(),
            unique: true,
            rows: None,
            shape: None,
            limit: Some(node("AggregateExec", "its groups have to stay on the device")),
            build: None,
            shared: SharedRows::default(),
        };
        for side in &mut self.dimensions {
            side.wanted = side.wanted.substitute(&columns);
        }
        let filters = self.filters.iter().map(|filter| filter.substitute(&columns));
        self.filters = [Expr::member(number, row)].into_iter().chain(filters).collect();
        self.pruning.clear();
        self.dimensions.push(side);
        self.buildable.push(Some(Buildable::Groups(groups)));
        (self, sink.substitute(&columns))
    }

    pub(super) fn finish(self, sink: SinkPlan, output: SchemaRef) -> Result<Subtree, Reason> {
        let (mut chain, sink) = self.look_up_groups(sink);
        let plan = PipelinePlan {
            filters: chain.filters,
            sink,
            output,
        };
        for column in plan.columns() {
            let field = chain.source_schema.field(column);
            if galatea_store::supports_type(field.data_type()).is_err() {
                return Err(Reason::Type {
                    data_type: field.data_type().clone(),
                    place: field.name().clone(),
                });
            }
        }
        plan.check()?;
        let is_groups = |side: &Option<Buildable>| matches!(side, Some(Buildable::Groups(_)));
        let groups: Vec<bool> = chain.buildable.iter().map(is_groups).collect();
        join::check(&plan, &groups)?;
        let wanted = plan.lookups();
        let sides = chain.dimensions.iter_mut().zip(chain.buildable);
        for (number, (side, buildable)) in sides.enumerate() {
            let columns = wanted.keys().filter(|(dimension, _)| *dimension == number);
            let columns: Vec<usize> = columns.map(|(_, column)| *column).collect();
            let built = buildable.and_then(|buildable| buildable.build(&columns, side.unique).ok());
            side.build = built.map(|subtree| Build {
                subtree: Box::new(subtree),
                shape: None,
            });
        }
        Ok(Subtree {
            source: chain.source,
            dimensions: chain.dimensions,
            plan,
            pruning: chain.pruning,
            rows: chain.rows,
            schema: chain.source_schema,
            fetch: None,
            shape: None,
            prediction: None,
        })
    }
}
