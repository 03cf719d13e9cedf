//! Pipelines with equal results become one pipeline, which several others read.
//!
//! ```text
//! WITH r AS (SELECT k, sum(v) FROM t GROUP BY k) SELECT ... FROM r a JOIN r b ON ...
//!
//! before   p0 t ── groups    p1 groups of p0 ── build side    p2 t ── groups    p3 groups of p2 ── lookup in p1
//! after    p0 t ── groups    p1 groups of p0 ── build side    p2 groups of p0 ── lookup in p1
//! ```
//!
//! DataFusion repeats a common table expression at each reference, and grouping sets read the groups of finer
//! sets. Two pipelines are equal if they have the same source, the same plan and equal build sides.
//! The pipeline of a multimap join's matches takes ownership of the join's parts, so pipelines of parts keep
//! one reader each. They are compared nevertheless, because their readers can be equal.
//!
//! A run in partitions restricts the pipelines below it to the keys of a partition, which other readers must
//! not notice. Such a run uses the graph as it was ([`PipelineGraph::unshared`]).

use super::pipeline::{BuildSide, Pipeline, PipelineSource};
use super::{PipelineGraph, PipelineId};
use datafusion::physical_plan::ExecutionPlan;
use galatea_codegen::SinkPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether two plans return the same rows.
pub(crate) type SameRows<'a> = dyn Fn(&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) -> bool + 'a;

impl PipelineGraph {
    /// The graph with one pipeline for each result; `same_rows` compares plans of CPU operators and scans.
    pub(crate) fn sharing(mut self, same_rows: &SameRows<'_>) -> Self {
        // By number of a pipeline: the first one with an equal result.
        let mut first: Vec<usize> = Vec::new();
        for (number, pipeline) in self.pipelines.iter().enumerate() {
            let same = |other: &usize| {
                first[*other] == *other && equal(&self.pipelines[*other], pipeline, &first, same_rows)
            };
            let found = (0..number).find(same);
            first.push(found.unwrap_or(number));
        }
        let may_share: Vec<bool> = self.pipelines.iter().map(may_share).collect();
        for build in self.pipelines.iter_mut().flat_map(Pipeline::builds_mut) {
            let same = first[build.pipeline.number()];
            if may_share[same] {
                build.pipeline = PipelineId::new(same);
            }
        }
        self.connected()
    }

    /// The numbers of readers of the pipelines that have several.
    pub(crate) fn shared(&self) -> BTreeMap<PipelineId, usize> {
        let mut readers = BTreeMap::new();
        let sides = self.pipelines.iter().flat_map(|pipeline| &pipeline.build_sides);
        for build in sides.filter_map(|side| side.build) {
            *readers.entry(build.pipeline).or_default() += 1;
        }
        readers.retain(|_, readers| *readers > 1);
        readers
    }

    /// The graph with a copy of each shared pipeline for each reader, and the pipelines of this graph that
    /// they are copies of, by number.
    pub(crate) fn unshared(&self) -> (Self, Vec<PipelineId>) {
        let (mut pipelines, mut origins) = (Vec::new(), Vec::new());
        self.copy_below(self.root_id(), &mut pipelines, &mut origins);
        (Self { pipelines }, origins)
    }

    fn copy_below(
        &self,
        id: PipelineId,
        pipelines: &mut Vec<Pipeline>,
        origins: &mut Vec<PipelineId>,
    ) -> PipelineId {
        let mut own = self.pipelines[id.number()].clone();
        for build in own.builds_mut() {
            build.pipeline = self.copy_below(build.pipeline, pipelines, origins);
        }
        pipelines.push(own);
        origins.push(id);
        PipelineId::new(pipelines.len() - 1)
    }
}

/// Whether several pipelines may read a result.
fn may_share(pipeline: &Pipeline) -> bool {
    match &pipeline.plan.sink {
        SinkPlan::Aggregate { kept, .. } => *kept,
        SinkPlan::Build { .. }
        | SinkPlan::BuildGroups { .. }
        | SinkPlan::Windows(_)
        | SinkPlan::Store { .. } => true,
        SinkPlan::Rows { .. }
        | SinkPlan::Multimap { .. }
        | SinkPlan::Probe { .. }
        | SinkPlan::Mark { .. }
        | SinkPlan::Partition { .. } => false,
    }
}

/// Whether two pipelines have equal results. `first`: by number, the first pipeline with an equal result.
fn equal(a: &Pipeline, b: &Pipeline, first: &[usize], same_rows: &SameRows<'_>) -> bool {
    let sides = || a.build_sides.iter().zip(&b.build_sides);
    a.build_sides.len() == b.build_sides.len()
        && a.row_sides == b.row_sides
        && a.fetch == b.fetch
        && a.plan.filters == b.plan.filters
        && a.plan.sink == b.plan.sink
        && sides().all(|(a, b)| equal_sides(a, b, first, same_rows))
        && same_source(&a.source, &b.source, same_rows)
}

fn equal_sides(a: &BuildSide, b: &BuildSide, first: &[usize], same_rows: &SameRows<'_>) -> bool {
    let same = match (a.build, b.build) {
        (Some(a), Some(b)) => first[a.pipeline.number()] == first[b.pipeline.number()],
        (None, None) => a.key.to_string() == b.key.to_string() && same_rows(a.plan.plan(), b.plan.plan()),
        _ => false,
    };
    same && a.wanted == b.wanted && a.unique == b.unique && a.exceeds_memory == b.exceeds_memory
}

fn same_source(a: &PipelineSource, b: &PipelineSource, same_rows: &SameRows<'_>) -> bool {
    match (a, b) {
        (PipelineSource::Files { scan: a, .. }, PipelineSource::Files { scan: b, .. }) => {
            let [a, b] = [a, b].map(|scan| Arc::clone(scan) as Arc<dyn ExecutionPlan>);
            same_rows(&a, &b)
        }
        (PipelineSource::Stored(a), PipelineSource::Stored(b)) => a.identity() == b.identity(),
        (PipelineSource::Plan(a), PipelineSource::Plan(b)) => same_rows(a.plan(), b.plan()),
        // The build sides that hold the rows are equal.
        (PipelineSource::Groups(_), PipelineSource::Groups(_))
        | (PipelineSource::Pairs(_), PipelineSource::Pairs(_))
        | (PipelineSource::Windows(_), PipelineSource::Windows(_))
        | (PipelineSource::Union(_), PipelineSource::Union(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Build, Edge, InputPlan};
    use super::*;
    use arrow::datatypes::{DataType, Schema};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_plan::empty::EmptyExec;
    use galatea_codegen::PipelinePlan;
    use galatea_expression::Expr;

    /// A pipeline that looks up the results of others, with this number of rows as a limit.
    fn pipeline(sink: SinkPlan, builds: &[usize], fetch: Option<usize>) -> Pipeline {
        let schema = Arc::new(Schema::empty());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let side = |build: &usize| BuildSide {
            build: Some(Build {
                pipeline: PipelineId::new(*build),
                shape: None,
            }),
            ..BuildSide::new(&plan, &lit(1), Expr::row_number(), true)
        };
        let source = PipelineSource::Plan(InputPlan::from(&plan));
        let plan = PipelinePlan {
            filters: Vec::new(),
            sink,
            output: Arc::clone(&schema),
        };
        Pipeline {
            build_sides: builds.iter().map(side).collect(),
            fetch,
            ..Pipeline::new(source, schema, plan)
        }
    }

    fn groups() -> SinkPlan {
        SinkPlan::Aggregate {
            keys: vec![Expr::row_number()],
            aggregates: Vec::new(),
            kept: true,
        }
    }

    fn multimap() -> SinkPlan {
        SinkPlan::Multimap {
            key: Expr::row_number(),
            columns: Vec::new(),
            null_keys: false,
            keeps_all: false,
            part: None,
        }
    }

    fn rows() -> SinkPlan {
        SinkPlan::Rows {
            outputs: vec![Expr::column(0, DataType::Int32, false)],
            order: None,
        }
    }

    fn builds(graph: &PipelineGraph) -> Vec<Vec<usize>> {
        let builds = graph.pipelines().map(|pipeline| {
            let from = pipeline.edges().filter_map(Edge::from);
            from.map(PipelineId::number).collect()
        });
        builds.collect()
    }

    #[test]
    fn equal_pipelines_become_one_with_several_readers() {
        let pipelines = vec![
            pipeline(multimap(), &[], None),
            pipeline(groups(), &[0], None),
            pipeline(multimap(), &[], None),
            pipeline(groups(), &[2], None),
            pipeline(groups(), &[2], Some(1)),
            pipeline(rows(), &[1, 3, 4, 3], None),
        ];
        let graph = PipelineGraph { pipelines };
        let shared = graph.clone().sharing(&|_, _| true);
        // The third pipeline of groups has another limit, so it keeps a multimap of its own.
        let expected = vec![vec![], vec![0], vec![], vec![2], vec![1, 1, 3, 1]];
        assert_eq!(builds(&shared), expected);
        let readers: Vec<_> = shared.shared().into_iter().collect();
        assert_eq!(readers, [(PipelineId::new(1), 3)]);
        let (copies, origins) = shared.unshared();
        assert_eq!(copies.root().id().number(), 8);
        assert!(copies.shared().is_empty());
        assert_eq!(
            origins.iter().map(|id| id.number()).collect::<Vec<_>>(),
            [0, 1, 0, 1, 2, 3, 0, 1, 4]
        );
        // Sources of other rows.
        let apart = graph.sharing(&|_, _| false);
        assert_eq!(apart.pipelines().count(), 6);
    }

    #[test]
    fn columns_of_groups_distinguish_pipelines() {
        let other = SinkPlan::Aggregate {
            keys: vec![Expr::column(0, DataType::Int32, true)],
            aggregates: Vec::new(),
            kept: true,
        };
        let pipelines = vec![
            pipeline(groups(), &[], None),
            pipeline(other, &[], None),
            pipeline(rows(), &[0, 1], None),
        ];
        let graph = PipelineGraph { pipelines }.sharing(&|_, _| true);
        assert_eq!(builds(&graph), vec![vec![], vec![], vec![0, 1]]);
    }
}
