//! The pipelines of a GPU subtree, and the edges between them.
//!
//! ```text
//! p0  orders ── filter ── build side by o_orderkey
//!                                        │
//! p1  lineitem ── filter ── lookup in p0 ┴─ groups        the pipeline of the subtree's own rows
//! ```
//!
//! Pipelines are numbered in the order in which they run: first those that build the build sides and the rows
//! of a pipeline, then the pipeline itself. The last one, the root, returns the rows of the subtree. EXPLAIN,
//! reports and logs refer to pipelines by these numbers.

use super::pipeline::{Build, Pipeline};
use super::{InputPlan, SharedRows};
pub use crate::report::PipelineId;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use galatea_expression::Rebind;
use std::ops::{Deref, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

/// The files that a plan reads; `None` if its rows must not be shared.
type FilesOf<'a> = dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Vec<PathBuf>> + 'a;

/// An edge that leads to a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The pipeline reads a table, or rows of CPU operators.
    Scan,
    /// It reads the rows that this pipeline leaves on the device.
    Pipeline(PipelineId),
    /// Its rows look up a build side that this pipeline builds.
    Build(PipelineId),
}

impl Edge {
    /// The pipeline where the edge begins; `None` for a scan.
    pub fn from(self) -> Option<PipelineId> {
        match self {
            Self::Scan => None,
            Self::Pipeline(id) | Self::Build(id) => Some(id),
        }
    }
}

/// The pipelines of a subtree, in execution order. Several pipelines may read one.
#[derive(Debug, Clone)]
pub struct PipelineGraph {
    /// By number; the root is the last.
    pub(super) pipelines: Vec<Pipeline>,
}

impl PipelineGraph {
    /// A graph with that root. `builds` has an item for each of its build sides: the graph that builds it, or
    /// `None`.
    pub(crate) fn new(mut root: Pipeline, builds: impl IntoIterator<Item = Option<Self>>) -> Self {
        let mut pipelines = Vec::new();
        for (side, build) in root.build_sides.iter_mut().zip(builds) {
            side.build = build.map(|graph| {
                let first = pipelines.len();
                pipelines.extend(graph.pipelines.into_iter().map(|pipeline| after(pipeline, first)));
                let pipeline = PipelineId::new(pipelines.len() - 1);
                Build {
                    pipeline,
                    shape: None,
                }
            });
        }
        pipelines.push(root);
        Self { pipelines }
    }

    /// The number of the root.
    pub fn root_id(&self) -> PipelineId {
        PipelineId::new(self.pipelines.len() - 1)
    }

    /// The pipeline that returns the rows.
    pub fn root(&self) -> PipelineRef<'_> {
        self.pipeline(self.root_id())
    }

    pub(crate) fn root_mut(&mut self) -> &mut Pipeline {
        self.pipeline_mut(self.root_id())
    }

    /// A pipeline by its number.
    pub fn pipeline(&self, id: PipelineId) -> PipelineRef<'_> {
        PipelineRef { graph: self, id }
    }

    pub(crate) fn pipeline_mut(&mut self, id: PipelineId) -> &mut Pipeline {
        &mut self.pipelines[id.number()]
    }

    /// All pipelines, in execution order.
    pub fn pipelines(&self) -> impl DoubleEndedIterator<Item = PipelineRef<'_>> {
        (0..self.pipelines.len()).map(|number| self.pipeline(PipelineId::new(number)))
    }

    /// Removes the pipelines without a path to the root, and renumbers the others.
    pub(crate) fn connected(self) -> Self {
        let mut numbers = vec![None; self.pipelines.len()];
        self.root()
            .each_below(&mut |pipeline| numbers[pipeline.id.number()] = Some(0));
        for (next, number) in numbers.iter_mut().flatten().enumerate() {
            *number = next;
        }
        let renumbered = |mut pipeline: Pipeline| {
            for build in pipeline.builds_mut() {
                if let Some(number) = numbers[build.pipeline.number()] {
                    build.pipeline = PipelineId::new(number);
                }
            }
            pipeline
        };
        let kept = self.pipelines.into_iter().zip(&numbers);
        let kept = kept.filter_map(|(pipeline, number)| number.map(|_| renumbered(pipeline)));
        Self {
            pipelines: kept.collect(),
        }
    }

    /// Copies of the graph share the rows that CPU operators compute, if `files` returns the files of the
    /// plan.
    pub(crate) fn share_rows(&mut self, files: &FilesOf<'_>) {
        let sides = self
            .pipelines
            .iter_mut()
            .flat_map(|pipeline| &mut pipeline.build_sides);
        for side in sides.filter(|side| side.build.is_none()) {
            if let Some(files) = files(side.plan.plan()) {
                side.shared = SharedRows::of(files);
            }
        }
    }

    /// Replaces DataFusion's expressions in it.
    pub(crate) fn rebind(&mut self, replace: &Rebind<'_>) -> Result<()> {
        self.pipelines
            .iter_mut()
            .try_for_each(|pipeline| pipeline.rebind(replace))
    }

    /// The plans of CPU operators that feed its pipelines, in their order: for each pipeline that of its
    /// rows, then those of its build sides.
    pub fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        let inputs = self.pipelines.iter().flat_map(Pipeline::inputs);
        inputs.map(InputPlan::shown).collect()
    }

    /// The inputs behind [`Self::children`], in the same order, mutable.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut InputPlan> {
        self.pipelines.iter_mut().flat_map(Pipeline::inputs_mut).collect()
    }
}

/// The pipeline with the numbers of its build sides raised by `first`.
fn after(mut pipeline: Pipeline, first: usize) -> Pipeline {
    for build in pipeline.builds_mut() {
        build.pipeline = PipelineId::new(first + build.pipeline.number());
    }
    pipeline
}

/// A pipeline in its graph.
#[derive(Debug, Clone, Copy)]
pub struct PipelineRef<'g> {
    graph: &'g PipelineGraph,
    id: PipelineId,
}

impl Deref for PipelineRef<'_> {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        self.get()
    }
}

impl<'g> PipelineRef<'g> {
    /// The pipeline, as long as the graph lives.
    pub fn get(self) -> &'g Pipeline {
        &self.graph.pipelines[self.id.number()]
    }

    /// Its number.
    pub fn id(self) -> PipelineId {
        self.id
    }

    /// The graph.
    pub fn graph(self) -> &'g PipelineGraph {
        self.graph
    }

    /// Its edges: the scan if it has one, then those of its build sides in their order.
    pub fn edges(self) -> impl Iterator<Item = Edge> {
        let pipeline = self.get();
        let scan = pipeline.row_sides.is_empty().then_some(Edge::Scan);
        let made = |(number, build): (usize, Build)| match pipeline.row_sides.contains(&number) {
            true => Edge::Pipeline(build.pipeline),
            false => Edge::Build(build.pipeline),
        };
        let sides = pipeline.build_sides.iter().enumerate();
        let sides = sides.filter_map(|(number, side)| Some((number, side.build?)));
        scan.into_iter().chain(sides.map(made))
    }

    /// The pipelines that build its rows and its build sides.
    pub fn builds(self) -> impl Iterator<Item = PipelineRef<'g>> {
        let ids = self.edges().filter_map(Edge::from);
        ids.map(move |id| self.graph.pipeline(id))
    }

    /// The pipeline that builds the build side of that number, if one does.
    pub fn build(self, side: usize) -> Option<PipelineRef<'g>> {
        let build = self.get().build_sides.get(side)?.build?;
        Some(self.graph.pipeline(build.pipeline))
    }

    /// The pipeline that builds its rows; for a union the first one.
    pub fn rows_from(self) -> Option<PipelineRef<'g>> {
        let first = self.get().row_sides.clone().next()?;
        self.build(first)
    }

    /// The numbers of the pipelines that run for it, and its own.
    pub(crate) fn with_below(self) -> RangeInclusive<PipelineId> {
        let mut first = self.id;
        self.each_below(&mut |pipeline| first = first.min(pipeline.id));
        first..=self.id
    }

    /// Visits it and the pipelines with a path to it.
    pub(crate) fn each_below(self, visit: &mut dyn FnMut(PipelineRef<'g>)) {
        visit(self);
        self.builds().for_each(|build| build.each_below(visit));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BuildSide, PipelineSource};
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::empty::EmptyExec;
    use galatea_codegen::PipelinePlan;
    use galatea_expression::Expr;

    /// A graph with a root that has one build side for each item, built by that graph. The root reads the
    /// last `rows` build sides as its rows.
    fn graph(builds: Vec<Option<PipelineGraph>>, rows: usize) -> PipelineGraph {
        let schema = Arc::new(Schema::empty());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let side = || BuildSide::new(&plan, &lit(1), Expr::row_number(), true);
        let source = match rows {
            0 => PipelineSource::Plan(InputPlan::from(&plan)),
            _ => PipelineSource::Union(Arc::clone(&plan)),
        };
        let root = Pipeline {
            build_sides: builds.iter().map(|_| side()).collect(),
            row_sides: builds.len() - rows..builds.len(),
            ..Pipeline::new(source, schema, PipelinePlan::counts(Vec::new(), None))
        };
        PipelineGraph::new(root, builds)
    }

    fn leaf() -> Option<PipelineGraph> {
        Some(graph(Vec::new(), 0))
    }

    fn edges(graph: &PipelineGraph) -> Vec<Vec<Edge>> {
        graph
            .pipelines()
            .map(|pipeline| pipeline.edges().collect())
            .collect()
    }

    #[test]
    fn pipelines_are_numbered_in_execution_order() {
        let [p0, p1, p2] = [0, 1, 2].map(PipelineId::new);
        let below = graph(vec![leaf()], 1);
        let all = graph(vec![leaf(), None, Some(below)], 0);
        let expected = [
            vec![Edge::Scan],
            vec![Edge::Scan],
            vec![Edge::Pipeline(p1)],
            vec![Edge::Scan, Edge::Build(p0), Edge::Build(p2)],
        ];
        assert_eq!(edges(&all), expected);
        assert_eq!(all.root().with_below(), p0..=all.root_id());
        assert_eq!(all.pipeline(p2).with_below(), p1..=p2);
        assert_eq!(all.pipeline(p2).rows_from().map(PipelineRef::id), Some(p1));
        assert!(all.root().rows_from().is_none() && all.root().build(1).is_none());
        // The sources of three pipelines, and the build side without a pipeline.
        assert_eq!(all.children().len(), 4);
    }

    #[test]
    fn unreachable_pipelines_are_removed() {
        let below = graph(vec![leaf(), leaf()], 2);
        let mut all = graph(vec![leaf(), Some(below), leaf()], 0);
        all.root_mut().build_sides[0].build = None;
        let all = all.connected();
        let [p0, p1, p2, p3] = [0, 1, 2, 3].map(PipelineId::new);
        let expected = [
            vec![Edge::Scan],
            vec![Edge::Scan],
            vec![Edge::Pipeline(p0), Edge::Pipeline(p1)],
            vec![Edge::Scan],
            vec![Edge::Scan, Edge::Build(p2), Edge::Build(p3)],
        ];
        assert_eq!(edges(&all), expected);
        let again = all.clone().connected();
        assert_eq!(edges(&again), expected);
    }
}
