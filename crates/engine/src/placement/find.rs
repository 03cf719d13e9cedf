//! Translates a physical subtree to a pipeline plan.

use super::aggregate::call::aggregate_call;
use super::aggregate::classes::on_device;
use super::aggregate::determined::DeterminedKeys;
use super::aggregate::{deviations, distinct, grouping_sets};
use super::chain::{Chain, Finder};
use super::joins::{self, eager};
use super::nodes::{first_step, has_rows, node, statistics, unsupported};
use super::plan_node::{PlanNode, Scan};
use super::{union, window};
use crate::graph::{BuildSide, PipelineGraph, PipelineSource, ScannedTable};
use crate::sample::SampleExec;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use galatea_base::reason::Reason;
use galatea_codegen::SinkPlan;
use galatea_expression::{Expr, lower};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// A finder of chains. `found` returns the findings of earlier runs in the rows of a build side; `encodes`:
/// also finds chains over rows of CPU operators.
pub(super) fn finder(found: &dyn Fn(&BuildSide) -> Option<Reason>, encodes: bool) -> Finder<'_> {
    Finder::new(below, found, encodes)
}

/// The pipeline of the subtree under `plan`; `None` if the node cannot be the root of one, an error with the
/// reason if it is unsupported.
pub(super) fn subtree(
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Option<Result<PipelineGraph, Reason>> {
    if !is_candidate(plan, finder) {
        return None;
    }
    if let Some(steps) = in_steps(plan) {
        return Some(rows_subtree(&steps, plan.schema(), finder));
    }
    if let Some(found) = one_graph(plan, finder) {
        return Some(Ok(found));
    }
    Some(match PlanNode::of(plan) {
        PlanNode::Aggregate(aggregate) => aggregate_subtree(aggregate, plan, finder),
        _ => rows_subtree(plan, plan.schema(), finder),
    })
}

/// An equivalent plan in several steps for an aggregate; `None` if one step is enough, or none helps.
fn in_steps(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    distinct::in_two_steps(plan).or_else(|| deviations::from_means(plan))
}

/// The pipelines of an aggregate that would otherwise be several subtrees: coarser grouping sets from finer
/// ones, and calls of different classes, joined by the keys.
pub(super) fn one_graph(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<PipelineGraph> {
    let steps = grouping_sets::finest_first(plan).or_else(|| on_device::as_join(plan))?;
    let found = rows_subtree(&steps, plan.schema(), finder).ok()?;
    (!matches!(found.root().source, PipelineSource::Plan(_))).then_some(found)
}

/// The pipeline that returns the groups of an aggregate.
fn aggregate_subtree(
    aggregate: &AggregateExec,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<PipelineGraph, Reason> {
    match groups_of(aggregate, plan, finder)? {
        Groups::Graph(graph) => Ok(graph),
        Groups::Chain(chain) => {
            let outputs = chain.columns.clone();
            chain.finish(SinkPlan::Rows { outputs, order: None }, plan.schema())
        }
    }
}

/// The groups of an aggregate.
enum Groups {
    /// All keys are in the group table.
    Graph(PipelineGraph),
    /// Rows of the group table look up some of the keys.
    Chain(Box<Chain>),
}

fn groups_of(
    aggregate: &AggregateExec,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Groups, Reason> {
    let output = plan.schema();
    let first = first_step(aggregate)?;
    let group_by = first.group_expr();
    if group_by.has_grouping_set() || !(group_by.is_single() || group_by.is_empty()) {
        return Err(node("AggregateExec", "grouping sets"));
    }
    if let Some(found) = eager::subtree(first, &output, finder) {
        return Ok(Groups::Graph(found));
    }
    let chain = finder.below(first.input())?;
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
    if let Some(determined) = DeterminedKeys::of(&keys, &chain, first.input(), group_by.expr())
        && let Some(chain) = determined.chain(plan, (&keys, &aggregates), chain.clone())
    {
        return Ok(Groups::Chain(Box::new(chain)));
    }
    let sink = SinkPlan::Aggregate {
        keys,
        aggregates,
        kept: false,
    };
    chain.finish(sink, output).map(Groups::Graph)
}

/// The pipeline that returns the rows of a plan in any order.
pub(super) fn rows_subtree(
    plan: &Arc<dyn ExecutionPlan>,
    output: SchemaRef,
    finder: &Finder<'_>,
) -> Result<PipelineGraph, Reason> {
    let chain = finder.below(plan)?;
    if matches!(&chain.source, PipelineSource::Plan(made) if Arc::ptr_eq(made.plan(), plan)) {
        // Nothing is left for the device: returns the reason.
        finder.over_tables().below(plan)?;
    }
    let outputs = chain.columns.clone();
    if outputs.is_empty() {
        return Err(node(plan.name(), "no columns"));
    }
    chain.finish(SinkPlan::Rows { outputs, order: None }, output)
}

/// The chain of a plan, from its source upwards.
fn below(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Result<Chain, Reason> {
    // A join, window or union that no pipeline computes is computed by the CPU. Its rows are a source.
    let rows_of_host = |_| Ok(computed_by_host(plan));
    match PlanNode::of(plan) {
        PlanNode::Arrangement(input) => finder.below(input),
        PlanNode::Filter(filter) => or_of_host(filtered(filter, finder), plan, finder),
        PlanNode::Sample(sample) => or_of_host(sampled(sample, finder), plan, finder),
        PlanNode::Projection(projection) => or_of_host(projected(projection, finder), plan, finder),
        PlanNode::Aggregate(aggregate) => aggregated(aggregate, plan, finder),
        PlanNode::Join(join) => joins::chain(join, plan, finder).or_else(rows_of_host),
        PlanNode::Window(window) => window::chain(&window, plan, finder).or_else(rows_of_host),
        PlanNode::Union(union) => union::chain(union, plan, finder).or_else(rows_of_host),
        PlanNode::Scan(Scan::Stored(scan)) => stored(scan, plan),
        PlanNode::Scan(Scan::Files(scan, files)) => filed(scan, files, plan),
        PlanNode::Constant => Err(node(plan.name(), "no rows to scan")),
        _ => Ok(computed_by_host(plan)),
    }
}

/// The chain, or the rows of the CPU operator if the device is forced to take those.
fn or_of_host(
    chain: Result<Chain, Reason>,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    match chain {
        Err(_) if finder.encodes => Ok(computed_by_host(plan)),
        chain => chain,
    }
}

/// The chain of a sample of a table with row numbers.
fn sampled(sample: &SampleExec, finder: &Finder<'_>) -> Result<Chain, Reason> {
    let mut chain = finder.below(sample.input())?;
    let is_table = matches!(
        chain.source,
        PipelineSource::Stored(_) | PipelineSource::Files { .. }
    );
    if !is_table || !chain.filters.is_empty() || !chain.build_sides.is_empty() {
        return Err(node(
            "SampleExec",
            "a sample of rows that are not those of a table",
        ));
    }
    let bound = sample.bound();
    let bound =
        bound.ok_or_else(|| node("SampleExec", "a sample of a table of an unknown number of rows"))?;
    if let Ok(bound) = u64::try_from(bound) {
        let (shift, state) = sample.words();
        chain.filters.push(Expr::drawn(shift, state, bound));
    }
    Ok(chain)
}

fn filtered(filter: &FilterExec, finder: &Finder<'_>) -> Result<Chain, Reason> {
    if filter.fetch().is_some() {
        return Err(node("FilterExec", "a limit inside the filter"));
    }
    let mut chain = finder.below(filter.input())?;
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
    Ok(chain)
}

fn projected(projection: &ProjectionExec, finder: &Finder<'_>) -> Result<Chain, Reason> {
    let mut chain = finder.below(projection.input())?;
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
    Ok(chain)
}

/// The chain over the rows of a CPU operator.
fn computed_by_host(plan: &Arc<dyn ExecutionPlan>) -> Chain {
    let schema = plan.schema();
    let indices: Vec<usize> = (0..schema.fields().len()).collect();
    Chain::over_table(
        PipelineSource::Plan(plan.into()),
        schema,
        known_rows(plan),
        &indices,
    )
}

/// The number of rows of a plan, if its statistics contain it.
fn known_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    statistics(plan).and_then(|s| s.num_rows.get_value().map(|rows| *rows as u64))
}

/// The chain of a table of the store.
fn stored(scan: &StoreScanExec, plan: &Arc<dyn ExecutionPlan>) -> Result<Chain, Reason> {
    if scan.fetch().is_some() {
        return Err(node("StoreScanExec", "a limit inside the scan"));
    }
    let source = scan.source();
    let schema = source.schema();
    let indices = scan.projection().to_vec();
    Ok(Chain::over_table(
        PipelineSource::Stored(source),
        schema,
        known_rows(plan),
        &indices,
    ))
}

/// The chain of a table of files.
fn filed(
    scan: &DataSourceExec,
    files: &FileScanConfig,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Chain, Reason> {
    let source = files.file_source();
    if files.limit.is_some() {
        return Err(node("DataSourceExec", "a limit inside the scan"));
    }
    if source.filter().is_some() {
        return Err(node("DataSourceExec", "a filter inside the scan"));
    }
    if !matches!(source.file_type(), "parquet" | "csv" | "json" | "arrow") {
        return Ok(computed_by_host(plan));
    }
    let schema = Arc::clone(source.table_schema().table_schema());
    let everything: Vec<usize> = (0..schema.fields().len()).collect();
    let mut chain = Chain::over_table(
        PipelineSource::Files {
            scan: Arc::new(scan.clone()),
            table: ScannedTable::default(),
        },
        Arc::clone(&schema),
        known_rows(plan),
        &everything,
    );
    if let Some(projection) = source.projection() {
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
    Ok(chain)
}

/// The chain over the groups of an aggregate.
fn aggregated(
    aggregate: &AggregateExec,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    if let Some(steps) = in_steps(plan)
        && let Ok(chain) = finder.below(&steps)
    {
        return Ok(chain);
    }
    for steps in [
        grouping_sets::finest_first,
        grouping_sets::as_union,
        on_device::as_join,
    ] {
        if let Some(steps) = steps(plan)
            && let Ok(chain) = finder.below(&steps)
            && chain.is_on_device()
        {
            return Ok(chain);
        }
    }
    match groups_of(aggregate, plan, finder) {
        Ok(Groups::Chain(chain)) => Ok(*chain),
        Ok(Groups::Graph(groups))
            if !matches!(groups.root().source, PipelineSource::Plan(_))
                && !groups.root().plan.finishes_on_host() =>
        {
            Ok(Chain::over_groups(plan, plan.schema(), groups))
        }
        _ => Ok(computed_by_host(plan)),
    }
}

/// The reason why a node stays on the CPU; `None` for a node without work for the device.
pub(super) fn refusal(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<Reason> {
    let refused = match PlanNode::of(plan) {
        PlanNode::Window(window) => window::chain(&window, plan, finder).err(),
        PlanNode::Join(join) => joins::chain(join, plan, finder).err(),
        _ => None,
    };
    refused.or_else(|| unsupported(plan))
}

/// Whether a node starts a pipeline candidate: an aggregate, or a filter, join or window functions under
/// projections. A projection alone is no work, and neither is a node without rows below it.
fn is_candidate(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> bool {
    let (mut node, mut filters) = (plan, false);
    loop {
        let computed = match PlanNode::of(node) {
            PlanNode::Aggregate(_) if Arc::ptr_eq(node, plan) => return has_rows(plan),
            PlanNode::Filter(filter) => {
                (node, filters) = (filter.input(), true);
                continue;
            }
            PlanNode::Sample(sample) => {
                (node, filters) = (sample.input(), true);
                continue;
            }
            PlanNode::Projection(projection) => {
                node = projection.input();
                continue;
            }
            PlanNode::Window(window) => window::chain(&window, node, finder).is_ok(),
            PlanNode::Join(join) => joins::chain(join, node, finder).is_ok(),
            _ => false,
        };
        return computed || filters && has_rows(node);
    }
}

#[cfg(test)]
mod tests;
