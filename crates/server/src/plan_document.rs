//! The plan of a statement as a document of the feed.

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::ExecutionPlan;
use galatea::{PlanEdgeKind, QueryReport, RunReport, SpanPhase};

use crate::feed::{Fact, Phases, PipelineRun, Plan, PlanEdge, PlanNode, Span, StatementDetail};
use crate::shortened::shortened;

/// Maximum bytes of one value of a fact, and of a reason.
const VALUE_BYTES: usize = 400;

/// Maximum number of values of a fact, and of reasons.
const VALUES: usize = 20;

fn values(values: Vec<String>) -> Vec<String> {
    let left_out = values.len().saturating_sub(VALUES);
    let kept = values.into_iter().take(VALUES).map(|value| {
        let (kept, is_shortened) = shortened(&value, VALUE_BYTES);
        if is_shortened { kept + "…" } else { kept }
    });
    let more = (left_out > 0).then(|| format!("and {left_out} more"));
    kept.chain(more).collect()
}

/// The graph of a plan, with the figures of its execution so far. Times count from `began`.
pub(crate) fn plan_document(plan: &Arc<dyn ExecutionPlan>, began: Instant) -> Plan {
    let graph = galatea::plan_graph(plan);
    let nodes = graph.nodes.into_iter().map(|node| PlanNode {
        name: shortened(&node.name, VALUE_BYTES).0,
        pipeline: node.is_pipeline,
        facts: (node.facts.into_iter())
            .map(|fact| Fact {
                name: fact.name,
                values: values(fact.values),
            })
            .collect(),
        rows: node.rows,
        seconds: node.time.map(|time| time.as_secs_f64()),
        run: node.run.map(|run| pipeline_run(&run, began)),
    });
    Plan {
        reasons: values(graph.reasons),
        nodes: nodes.collect(),
        edges: (graph.edges.into_iter())
            .map(|edge| PlanEdge {
                from: edge.from,
                to: edge.to,
                build: edge.kind == PlanEdgeKind::Build,
            })
            .collect(),
        cut: graph.is_cut,
    }
}

/// Seconds from `began` to `at`.
fn since(began: Instant, at: Instant) -> f64 {
    match at.checked_duration_since(began) {
        Some(after) => after.as_secs_f64(),
        None => -(began - at).as_secs_f64(),
    }
}

fn pipeline_run(run: &RunReport, began: Instant) -> PipelineRun {
    let whole = run.timeline.run();
    let spans = run.timeline.spans().iter().map(|span| Span {
        phase: match span.phase {
            SpanPhase::Load => "load",
            SpanPhase::Compile => "compile",
            SpanPhase::Transfer => "transfer",
            SpanPhase::Kernel => "kernel",
        }
        .to_string(),
        begin: since(began, span.begun),
        seconds: span.took.as_secs_f64(),
    });
    PipelineRun {
        strategy: run.strategy.clone(),
        rows_scanned: run.rows,
        rows_passed: run.rows_passed,
        chunks: run.chunks,
        chunks_skipped: run.chunks_skipped,
        device_bytes: run.device_bytes,
        link_bytes: run.link_bytes,
        launches: run.launches,
        resident: run.resident,
        ceiling: run.ceiling,
        begin: whole.map(|(begin, _)| since(began, begin)),
        end: whole.map(|(_, end)| since(began, end)),
        spans: spans.collect(),
    }
}

/// The phases of a report.
pub(crate) fn phases(report: Option<&QueryReport>) -> Phases {
    report.map_or_else(Phases::default, |report| Phases {
        planning: report.phases.planning.as_secs_f64(),
        compile: report.phases.compile.as_secs_f64(),
        load: report.phases.load.as_secs_f64(),
        transfer: report.phases.transfer.as_secs_f64(),
        kernel: report.phases.kernel.as_secs_f64(),
    })
}

/// The approximate bytes of a statement in memory.
pub(crate) fn size(detail: &StatementDetail) -> usize {
    let summary = &detail.summary;
    let strings = [&detail.statement, &summary.statement, &summary.user];
    let texts: usize = strings.iter().map(|text| text.len()).sum();
    let error = summary.error.as_ref().map_or(0, String::len);
    let plan = detail.plan.as_ref().map_or(0, |plan| {
        let nodes: usize = plan.nodes.iter().map(node_size).sum();
        let reasons: usize = plan.reasons.iter().map(|reason| of_string(reason)).sum();
        nodes + reasons + size_of_val(plan.edges.as_slice())
    });
    size_of::<StatementDetail>() + texts + error + plan
}

fn of_string(text: &str) -> usize {
    size_of::<String>() + text.len()
}

fn node_size(node: &PlanNode) -> usize {
    let facts = node.facts.iter().map(|fact| {
        let values: usize = fact.values.iter().map(|value| of_string(value)).sum();
        of_string(&fact.name) + values
    });
    let run = node.run.as_ref().map_or(0, |run| {
        run.strategy.len() + run.spans.len() * (size_of::<Span>() + "transfer".len())
    });
    size_of::<PlanNode>() + node.name.len() + facts.sum::<usize>() + run
}
