//! From a physical subtree to a pipeline plan.

use super::build_side::{Build, Buildable, DimensionSource};
use super::is_candidate;
use super::join;
use crate::config::GalateaConfig;
use crate::expression::{Expr, lower};
use crate::history::PlanKey;
use crate::pipeline::aggregate::{AggregateCall, AggregateFunction};
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::reason::Reason;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use galatea_store::{ColumnSource, StoreScanExec};
use std::sync::Arc;
use std::time::Duration;

/// Where a pipeline's rows come from.
#[derive(Debug, Clone)]
pub enum PipelineSource {
    /// Files that DataFusion scans; their columns are encoded into the store on first use.
    Files {
        /// The scan as DataFusion planned it.
        scan: Arc<DataSourceExec>,
    },
    /// A table of the store.
    Stored(Arc<dyn ColumnSource>),
    /// Any other plan: its batches are encoded as they are collected.
    Plan(Arc<dyn ExecutionPlan>),
}

/// A subtree that can run as one pipeline.
#[derive(Debug, Clone)]
pub struct Subtree {
    /// Where its rows come from.
    pub source: PipelineSource,
    /// What its rows look up, by number.
    pub dimensions: Vec<DimensionSource>,
    /// What it computes over the source's columns.
    pub plan: PipelinePlan,
    /// Predicates over the source's schema that zone maps may use to skip chunks.
    pub pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows of the source, where known.
    pub rows: Option<u64>,
    /// Schema of the source, which the plan's columns index.
    pub schema: SchemaRef,
    /// Rows after which a pipeline that returns rows may stop; its result has no more.
    pub fetch: Option<usize>,
    /// By what a refusal at run time is remembered: of the subtree as it was found, before what feeds it was placed in turn.
    pub shape: Option<PlanKey>,
    /// What it was placed for, where times decided.
    pub prediction: Option<Prediction>,
}

/// Times that the cost model expects of a subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// On the device, with the share of loading that is this run's.
    pub device: Duration,
    /// On the CPU.
    pub cpu: Duration,
}

impl Subtree {
    /// Whether it returns rows rather than groups.
    pub fn materialises(&self) -> bool {
        matches!(self.plan.sink, SinkPlan::Materialise { .. })
    }

    /// The pipelines that make its build sides.
    pub fn builds(&self) -> impl Iterator<Item = &Subtree> {
        self.dimensions
            .iter()
            .filter_map(|d| d.build.as_ref())
            .map(|build| &*build.subtree)
    }

    /// The plans that feed it: of its rows, unless they are a table's, then of its dimensions.
    pub fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        let rows = match &self.source {
            PipelineSource::Plan(child) => Some(child),
            _ => None,
        };
        rows.into_iter()
            .chain(
                self.dimensions
                    .iter()
                    .filter(|d| d.build.is_none())
                    .map(|d| &d.plan),
            )
            .chain(self.builds().flat_map(Subtree::children))
            .collect()
    }

    /// [`Self::children`], to be replaced.
    pub fn children_mut(&mut self) -> Vec<&mut Arc<dyn ExecutionPlan>> {
        let rows = match &mut self.source {
            PipelineSource::Plan(child) => Some(child),
            _ => None,
        };
        rows.into_iter()
            .chain(self.dimensions.iter_mut().flat_map(|d| match &mut d.build {
                None => vec![&mut d.plan],
                Some(build) => build.subtree.children_mut(),
            }))
            .collect()
    }
}

/// The pipeline of the subtree under `plan`; `None` when the node is not the start of one, `Err` says why it cannot.
pub fn subtree(plan: &Arc<dyn ExecutionPlan>, _config: &GalateaConfig) -> Option<Result<Subtree, Reason>> {
    if !is_candidate(plan) {
        return None;
    }
    Some(match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregate_subtree(aggregate, plan.schema()),
        None => rows_subtree(plan),
    })
}

/// The pipeline of an aggregate; `None` of other nodes.
pub(super) fn aggregate(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<Subtree, Reason>> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    Some(aggregate_subtree(aggregate, plan.schema()))
}

pub(super) fn node(node: &str, detail: impl Into<String>) -> Reason {
    Reason::Node {
        node: node.into(),
        detail: detail.into(),
    }
}

fn aggregate_subtree(aggregate: &AggregateExec, output: SchemaRef) -> Result<Subtree, Reason> {
    let first = match aggregate.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let mut input = aggregate.input();
            while let Some(below) = arrangement(input) {
                input = below;
            }
            input
                .downcast_ref::<AggregateExec>()
                .filter(|partial| matches!(partial.mode(), AggregateMode::Partial))
                .ok_or_else(|| node("AggregateExec", "a final aggregate without its partial one"))?
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
        mode => return Err(node("AggregateExec", format!("mode {mode:?}"))),
    };
    let group_by = first.group_expr();
    if group_by.has_grouping_set() || !(group_by.is_single() || group_by.is_empty()) {
        return Err(node("AggregateExec", "grouping sets"));
    }
    let chain = Chain::below(first.input())?;
    let input_schema = first.input().schema();
    let lower_here = |e: &Arc<dyn PhysicalExpr>| -> Result<Expr, Reason> {
        Ok(lower(e, &input_schema)?.substitute(&chain.columns))
    };
    let keys = group_by
        .expr()
        .iter()
        .map(|(e, _)| lower_here(e))
        .collect::<Result<Vec<_>, _>>()?;
    let fields = output.fields();
    let aggregates = first
        .aggr_expr()
        .iter()
        .zip(first.filter_expr())
        .zip(fields.iter().skip(keys.len()))
        .map(|((call, filter), field)| {
            let filter = filter.as_ref().map(lower_here).transpose()?;
            aggregate_call(call, filter, Arc::clone(field), &lower_here)
        })
        .collect::<Result<Vec<_>, _>>()?;
    chain.finish(SinkPlan::Aggregate { keys, aggregates }, output)
}

/// Lowers an expression over an aggregate's input to the source's columns.
type LowerHere<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> + 'a;

fn aggregate_call(
    call: &AggregateFunctionExpr,
    filter: Option<Expr>,
    field: arrow::datatypes::FieldRef,
    lower_here: &LowerHere<'_>,
) -> Result<AggregateCall, Reason> {
    let name = call.fun().name();
    let refuse = |detail: &str| Reason::Function {
        name: name.to_string(),
        detail: detail.to_string(),
    };
    let function = AggregateFunction::from_name(name).ok_or_else(|| refuse("no aggregate of a pipeline"))?;
    if call.is_distinct() && !function.orders_values() {
        return Err(refuse("DISTINCT"));
    }
    if !call.order_bys().is_empty() {
        return Err(refuse("ORDER BY inside the aggregate"));
    }
    let arguments = call.expressions();
    let argument = match (function, arguments.as_slice()) {
        (AggregateFunction::Count, [one])
            if one
                .downcast_ref::<Literal>()
                .is_some_and(|l| !l.value().is_null()) =>
        {
            None
        }
        (AggregateFunction::Count, []) => None,
        (_, [one]) => Some(lower_here(one)?),
        _ => return Err(refuse("more than one argument")),
    };
    let call = AggregateCall {
        function,
        argument,
        filter,
        field,
    };
    call.supports()?;
    Ok(call)
}

fn rows_subtree(plan: &Arc<dyn ExecutionPlan>) -> Result<Subtree, Reason> {
    let chain = Chain::below(plan)?;
    let outputs = chain.columns.clone();
    if outputs.is_empty() {
        return Err(node(plan.name(), "no columns"));
    }
    chain.finish(SinkPlan::Materialise { outputs }, plan.schema())
}

/// What is known of a plan's rows.
pub(super) fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    let context = StatisticsContext::new();
    context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// Nodes that only move batches about.
fn arrangement(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
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

/// Filters, projections and joins with dimensions from a source upwards, all in terms of the source's columns.
pub(super) struct Chain {
    pub(super) source: PipelineSource,
    source_schema: SchemaRef,
    rows: Option<u64>,
    pub(super) dimensions: Vec<DimensionSource>,
    /// Of each dimension what a pipeline could make it from.
    pub(super) buildable: Vec<Option<Buildable>>,
    pub(super) filters: Vec<Expr>,
    pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// The current node's output columns.
    pub(super) columns: Vec<Expr>,
    /// Source column of each output column, as long as they are plain columns: lets pruning predicates be rewritten.
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
                        .downcast_ref::<datafusion::physical_expr::expressions::Column>()
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
                            let plain = e
                                .expr
                                .downcast_ref::<datafusion::physical_expr::expressions::Column>()
                                .map(datafusion::physical_expr::expressions::Column::index);
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
        Ok(Self::over_table(
            PipelineSource::Plan(Arc::clone(plan)),
            schema,
            rows,
            &indices,
        ))
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
        use datafusion::physical_expr::expressions::Column;
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

    pub(super) fn finish(mut self, sink: SinkPlan, output: SchemaRef) -> Result<Subtree, Reason> {
        let plan = PipelinePlan {
            filters: self.filters,
            sink,
            output,
        };
        for column in plan.columns() {
            let field = self.source_schema.field(column);
            if galatea_store::supports_type(field.data_type()).is_err() {
                return Err(Reason::Type {
                    data_type: field.data_type().clone(),
                    place: field.name().clone(),
                });
            }
        }
        plan.check()?;
        join::check(&plan)?;
        let wanted = plan.lookups();
        let sides = self.dimensions.iter_mut().zip(self.buildable);
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
            source: self.source,
            dimensions: self.dimensions,
            plan,
            pruning: self.pruning,
            rows: self.rows,
            schema: self.source_schema,
            fetch: None,
            shape: None,
            prediction: None,
        })
    }
}
