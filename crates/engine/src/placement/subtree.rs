//! From a physical subtree to a pipeline plan.

use super::build_side::{DimensionSource, SharedRows};
use super::chain::{Chain, arrangement};
use super::eager;
use super::is_candidate;
use crate::config::GalateaConfig;
use crate::expression::{Expr, Rebind, lower};
use crate::history::PlanKey;
use crate::pipeline::aggregate::{AggregateCall, AggregateFunction};
use crate::pipeline::{PipelinePlan, SinkPlan, TopRows};
use crate::reason::Reason;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use galatea_store::ColumnSource;
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
    /// The groups of an aggregate, which another pipeline leaves on the device: the last of the build sides.
    /// A row is an entry of its group table, and columns are looked up by the number of the row.
    Groups(Arc<dyn ExecutionPlan>),
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
    /// By what a refusal at run time is remembered: of the subtree as it was found, before what feeds it was
    /// placed in turn.
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
    /// Which of its rows are wanted, if not all.
    pub fn top(&self) -> Option<&TopRows> {
        match &self.plan.sink {
            SinkPlan::Materialise { top, .. } => top.as_ref(),
            _ => None,
        }
    }

    /// Whether it returns rows rather than groups.
    pub fn materialises(&self) -> bool {
        matches!(self.plan.sink, SinkPlan::Materialise { .. })
    }

    /// Has executions of copies share the rows that CPU operators make, of plans for which it `may` be.
    pub(crate) fn share_rows(&mut self, may: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool) {
        for side in &mut self.dimensions {
            match &mut side.build {
                Some(build) => build.subtree.share_rows(may),
                None if may(&side.plan) => side.shared = SharedRows::begin(),
                None => {}
            }
        }
    }

    /// Replaces the expressions of DataFusion's that are in it.
    pub(crate) fn rebind(&mut self, replace: &Rebind<'_>) -> DataFusionResult<()> {
        self.plan = self.plan.rebound(replace)?;
        for predicate in &mut self.pruning {
            *predicate = replace(predicate)?;
        }
        for side in &mut self.dimensions {
            side.key = replace(&side.key)?;
            side.wanted = side.wanted.rebound(replace)?;
            if let Some(build) = &mut side.build {
                build.subtree.rebind(replace)?;
            }
        }
        Ok(())
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

/// The pipeline of the subtree under `plan`; `None` when the node is not the start of one, `Err` says why it
/// cannot.
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
    if let Some(found) = eager::subtree(first, &output) {
        return Ok(found);
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
pub(super) type LowerHere<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> + 'a;

pub(super) fn aggregate_call(
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
    chain.finish(SinkPlan::Materialise { outputs, top: None }, plan.schema())
}
