//! From a physical subtree to a pipeline plan.

use super::aggregate::call::aggregate_call;
use super::aggregate::{deviations, distinct};
use super::chain::{Chain, Finder};
use super::joins::{self, eager};
use super::nodes::{arrangement, first_step, has_rows, node, statistics};
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

/// Finds chains with what runs have found in the rows of build sides, which `found` tells; `encodes`: also
/// over rows that CPU operators make.
pub(super) fn finder(found: &dyn Fn(&BuildSide) -> Option<Reason>, encodes: bool) -> Finder<'_> {
    Finder::new(below, found, encodes)
}

/// The pipeline of the subtree under `plan`; `None` when the node is not the start of one, `Err` says why it
/// cannot.
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
    Some(match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregate_subtree(aggregate, plan.schema(), finder),
        None => rows_subtree(plan, plan.schema(), finder),
    })
}

/// The plan of several steps that computes what an aggregate does; `None` where one is enough, or none helps.
fn in_steps(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    distinct::in_two_steps(plan).or_else(|| deviations::from_means(plan))
}

/// The pipeline of an aggregate; `None` of other nodes.
fn aggregate(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<Result<PipelineGraph, Reason>> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    Some(aggregate_subtree(aggregate, plan.schema(), finder))
}

fn aggregate_subtree(
    aggregate: &AggregateExec,
    output: SchemaRef,
    finder: &Finder<'_>,
) -> Result<PipelineGraph, Reason> {
    let first = first_step(aggregate)?;
    let group_by = first.group_expr();
    if group_by.has_grouping_set() || !(group_by.is_single() || group_by.is_empty()) {
        return Err(node("AggregateExec", "grouping sets"));
    }
    if let Some(found) = eager::subtree(first, &output, finder) {
        return Ok(found);
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
    let kept = false;
    chain.finish(
        SinkPlan::Aggregate {
            keys,
            aggregates,
            kept,
        },
        output,
    )
}

fn rows_subtree(
    plan: &Arc<dyn ExecutionPlan>,
    output: SchemaRef,
    finder: &Finder<'_>,
) -> Result<PipelineGraph, Reason> {
    let chain = finder.below(plan)?;
    if matches!(&chain.source, PipelineSource::Plan(made) if Arc::ptr_eq(made.plan(), plan)) {
        // Nothing is left for the device: why is what is asked for.
        finder.over_tables().below(plan)?;
    }
    let outputs = chain.columns.clone();
    if outputs.is_empty() {
        return Err(node(plan.name(), "no columns"));
    }
    chain.finish(SinkPlan::Materialise { outputs, order: None }, output)
}

/// The chain of a plan, from its source upwards.
fn below(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Result<Chain, Reason> {
    if let Some(input) = arrangement(plan) {
        return finder.below(input);
    }
    match narrowed(plan, finder) {
        // What has no device version is made by the CPU, where the device is forced to take its rows.
        Some(Err(_)) if finder.encodes => return Ok(made_by_host(plan)),
        Some(found) => return found,
        None => {}
    }
    let found = window::chain(plan, finder)
        .or_else(|| joins::chain(plan, finder))
        .or_else(|| union::chain(plan, finder));
    match found {
        Some(Ok(chain)) => Ok(chain),
        _ => source(plan, finder),
    }
}

/// The chain of a filter or a projection; `None` of other nodes.
fn narrowed(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<Result<Chain, Reason>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(filtered(filter, finder));
    }
    if let Some(sample) = plan.downcast_ref::<SampleExec>() {
        return Some(sampled(sample, finder));
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    Some(projected(projection, finder))
}

/// The chain of a sample of a table, whose rows have numbers.
fn sampled(sample: &SampleExec, finder: &Finder<'_>) -> Result<Chain, Reason> {
    let mut chain = finder.below(sample.input())?;
    let is_table = matches!(
        chain.source,
        PipelineSource::Stored(_) | PipelineSource::Files { .. }
    );
    if !is_table || !chain.filters.is_empty() || !chain.dimensions.is_empty() {
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

/// The chain of rows that CPU operators make.
fn made_by_host(plan: &Arc<dyn ExecutionPlan>) -> Chain {
    let schema = plan.schema();
    let indices: Vec<usize> = (0..schema.fields().len()).collect();
    let rows = statistics(plan).and_then(|s| s.num_rows.get_value().map(|rows| *rows as u64));
    Chain::over_table(PipelineSource::Plan(plan.into()), schema, rows, &indices)
}

/// The chain that is a source alone.
fn source(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Result<Chain, Reason> {
    let rows = statistics(plan).and_then(|s| s.num_rows.get_value().map(|rows| *rows as u64));
    if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
        if scan.fetch().is_some() {
            return Err(node("StoreScanExec", "a limit inside the scan"));
        }
        let source = scan.source();
        let schema = source.schema();
        let indices = scan.projection().to_vec();
        return Ok(Chain::over_table(
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
            let mut chain = Chain::over_table(
                PipelineSource::Files {
                    scan,
                    table: ScannedTable::default(),
                },
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
    if let Some(steps) = in_steps(plan)
        && let Ok(chain) = finder.below(&steps)
    {
        return Ok(chain);
    }
    let schema = plan.schema();
    let indices: Vec<usize> = (0..schema.fields().len()).collect();
    if let Some(Ok(mut groups)) = aggregate(plan, finder)
        && !matches!(groups.root().source, PipelineSource::Plan(_))
        && !groups.root().plan.finishes_on_host()
    {
        let source = PipelineSource::Groups(Arc::clone(plan));
        let mut chain = Chain::over_table(source, schema, groups.root().rows, &indices);
        let root = groups.root_mut();
        root.plan.sink = root.plan.sink.clone().kept();
        chain.groups = Some(groups);
        return Ok(chain);
    }
    Ok(made_by_host(plan))
}

/// Why a join, or window functions, cannot be part of a pipeline; `None` for other nodes, and for those that
/// can.
pub(super) fn refusal(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> Option<Reason> {
    let found = window::chain(plan, finder).or_else(|| joins::chain(plan, finder));
    found?.err()
}

/// Whether a node starts a pipeline candidate: an aggregate, or a filter, join or window functions under
/// projections. A projection alone is no work, and neither is what has no rows below it.
fn is_candidate(plan: &Arc<dyn ExecutionPlan>, finder: &Finder<'_>) -> bool {
    if plan.is::<AggregateExec>() {
        return has_rows(plan);
    }
    let mut node = plan;
    let mut filters = false;
    while node.is::<FilterExec>() || node.is::<SampleExec>() || node.is::<ProjectionExec>() {
        filters |= !node.is::<ProjectionExec>();
        match node.children().first() {
            Some(child) => node = child,
            None => return false,
        }
    }
    let found = window::chain(node, finder).or_else(|| joins::chain(node, finder));
    if matches!(found, Some(Ok(_))) {
        return true;
    }
    filters && has_rows(node)
}

#[cfg(test)]
mod tests;
