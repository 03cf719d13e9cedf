//! A plan as a graph, with the figures of its last execution: EXPLAIN ANALYZE as data.
//!
//! ```text
//! n0 SortPreservingMergeExec <── n1 pipeline p1 <── n3 pipeline p0      build
//!                                               <── n4 DataSourceExec   rows
//! ```
//!
//! The root is the first node. Edges lead from a node that returns rows to the node that reads them.

use super::operator;
use super::outline::line;
use crate::facts::Facts;
use crate::graph::Edge;
use crate::nodes::{DescribedPipeline, GpuExec};
use crate::placement::PlacementExec;
use crate::report::{QueryDevice, RunReport};
use crate::stream::GpuStreamExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of nodes of a graph. The inputs of the last ones are left out.
const MOST_NODES: usize = 400;

/// A plan as a graph.
#[derive(Debug, Clone, Default)]
pub struct PlanGraph {
    /// The device, if the plan was offered to one.
    pub device: Option<QueryDevice>,
    /// Reasons why all or parts of it run on the CPU.
    pub reasons: Vec<String>,
    /// The nodes; the first is the root.
    pub nodes: Vec<PlanNode>,
    /// The edges.
    pub edges: Vec<PlanEdge>,
    /// Whether nodes were left out because the plan has too many.
    pub is_cut: bool,
}

/// A node: an operator of the CPU, or a pipeline of a GPU subtree.
#[derive(Debug, Clone)]
pub struct PlanNode {
    /// The name: of the operator, or of the pipeline in its subtree (`p0`).
    pub name: String,
    /// Whether it is a pipeline.
    pub is_pipeline: bool,
    /// Its facts, as EXPLAIN shows them.
    pub facts: Vec<PlanFact>,
    /// Number of rows that it returned in the last execution.
    pub rows: Option<u64>,
    /// For an operator the time that its partitions have computed, for a pipeline its run time.
    pub time: Option<Duration>,
    /// The report of the pipeline's last run on a device.
    pub run: Option<Box<RunReport>>,
}

/// A fact of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFact {
    /// The name of the fact.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// The meaning of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanEdgeKind {
    /// The rows are the input of the node.
    Rows,
    /// The rows are a build side that the node looks up.
    Build,
}

/// An edge from a node that returns rows to the node that reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanEdge {
    /// Index of the node that returns the rows.
    pub from: usize,
    /// Index of the node that reads them.
    pub to: usize,
    /// The meaning.
    pub kind: PlanEdgeKind,
}

/// The graph of a plan, with the figures of its execution so far.
pub fn plan_graph(plan: &Arc<dyn ExecutionPlan>) -> PlanGraph {
    let mut graph = PlanGraph::default();
    let mut root = plan;
    if let Some(placement) = plan.downcast_ref::<PlacementExec>() {
        graph.device = Some(placement.device());
        graph.reasons = placement.reasons().to_vec();
        graph.reasons.extend(placement.fallbacks());
        root = placement.input();
    }
    graph.add_plan(root, None);
    graph
}

fn plan_facts(facts: Facts) -> Vec<PlanFact> {
    let facts = facts.0.into_iter().map(|fact| PlanFact {
        name: fact.name.to_owned(),
        values: fact.values,
    });
    facts.collect()
}

impl PlanGraph {
    /// Adds a node with an edge to its reader. `None` if the graph is full.
    fn add(&mut self, node: PlanNode, reader: Option<(usize, PlanEdgeKind)>) -> Option<usize> {
        if self.nodes.len() == MOST_NODES {
            self.is_cut = true;
            return None;
        }
        let from = self.nodes.len();
        self.nodes.push(node);
        self.edges
            .extend(reader.map(|(to, kind)| PlanEdge { from, to, kind }));
        Some(from)
    }

    fn add_plan(&mut self, plan: &Arc<dyn ExecutionPlan>, reader: Option<(usize, PlanEdgeKind)>) {
        if let Some(subtree) = plan.downcast_ref::<GpuExec>() {
            return self.add_subtree(subtree.pipelines(), reader);
        }
        let facts = match plan.downcast_ref::<GpuStreamExec>() {
            Some(stream) => Some(stream.facts(true)),
            None => operator::facts(plan.as_ref()),
        };
        let facts = match facts {
            Some(facts) => plan_facts(facts),
            None => vec![PlanFact {
                name: "plan".to_owned(),
                values: vec![line(plan.as_ref())],
            }],
        };
        let metrics = plan.metrics();
        let metrics = metrics.as_ref();
        let node = PlanNode {
            name: plan.name().to_owned(),
            is_pipeline: false,
            facts,
            rows: metrics.and_then(MetricsSet::output_rows).map(|rows| rows as u64),
            time: (metrics.and_then(MetricsSet::elapsed_compute))
                .map(|nanoseconds| Duration::from_nanos(nanoseconds as u64)),
            run: None,
        };
        let Some(at) = self.add(node, reader) else { return };
        for child in plan.children() {
            self.add_plan(child, Some((at, PlanEdgeKind::Rows)));
        }
    }

    /// Adds the pipelines of a subtree: the root first, so that each is added after its readers.
    fn add_subtree(&mut self, pipelines: Vec<DescribedPipeline>, reader: Option<(usize, PlanEdgeKind)>) {
        let mut readers: HashMap<_, Vec<_>> = HashMap::new();
        if let Some(root) = pipelines.last() {
            readers.insert(root.id, reader.into_iter().collect());
        }
        for pipeline in pipelines.into_iter().rev() {
            let mut own = readers.remove(&pipeline.id).unwrap_or_default().into_iter();
            let run = pipeline.report.map(Box::new);
            let node = PlanNode {
                name: pipeline.id.to_string(),
                is_pipeline: true,
                facts: plan_facts(pipeline.facts),
                rows: run.as_ref().map(|run| returned(run)),
                time: run.as_ref().map(|run| run.total),
                run,
            };
            let Some(at) = self.add(node, own.next()) else {
                return;
            };
            self.edges
                .extend(own.map(|(to, kind)| PlanEdge { from: at, to, kind }));
            for edge in pipeline.edges {
                let kind = match edge {
                    Edge::Scan | Edge::Pipeline(_) => PlanEdgeKind::Rows,
                    Edge::Build(_) => PlanEdgeKind::Build,
                };
                if let Some(id) = edge.from() {
                    readers.entry(id).or_default().push((at, kind));
                }
            }
            for input in &pipeline.inputs {
                self.add_plan(input, Some((at, PlanEdgeKind::Rows)));
            }
        }
    }
}

/// Rows or groups that a pipeline left for its readers.
fn returned(run: &RunReport) -> u64 {
    match run.rows_returned {
        0 => run.groups.unwrap_or(run.rows_passed),
        returned => returned,
    }
}
