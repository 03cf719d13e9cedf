//! Which join of a pipeline may run part after part, and its pipelines over one part: that of the build side
//! and those that meet it keep the rows whose key has a hash within a range.

use crate::graph::{PipelineGraph, PipelineId, PipelineRef, PipelineSource};
use galatea_codegen::{Meeting, PipelinePlan, RowOrder, SinkPlan};
use galatea_expression::{BUCKETS, Expr};
use std::ops::Range;

/// Bits of a key's hash below the number of its part.
const SHIFT: u32 = u32::BITS - BUCKETS.ilog2();

/// Bytes of a column without a width of its own: the code of a text.
const CODE_BYTES: u64 = 4;

/// A join of a pipeline that can build and probe its build side part after part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartedJoin {
    /// With the build side of that number, which the rows of the pipeline look up.
    Lookup(usize),
    /// The one whose pairs are the rows of the pipeline.
    Pairs,
}

impl PartedJoin {
    /// Whether a join of a pipeline is to run in parts, because its build side is predicted to exceed device
    /// memory. Few pipelines have such a build side, so this comes before a search for the keys.
    pub(crate) fn are_predicted(pipeline: PipelineRef<'_>) -> bool {
        let exceeds = |join: &Self| join.exceeds_memory(pipeline);
        Self::all(pipeline).any(|join| exceeds(&join)) && Self::of(pipeline).iter().any(exceeds)
    }

    /// The joins of a pipeline, whether they may run in parts or not.
    fn all(pipeline: PipelineRef<'_>) -> impl Iterator<Item = Self> {
        let lookups = (0..pipeline.dimensions.len()).map(Self::Lookup);
        lookups.chain([Self::Pairs])
    }

    /// The joins of a pipeline that may run in parts: first those whose build side is predicted to exceed
    /// device memory, and among these the ones with the most rows on the build side.
    pub(crate) fn of(pipeline: PipelineRef<'_>) -> Vec<Self> {
        let returns = match &pipeline.plan.sink {
            // A part has an order of its own, and marks of its own pairs.
            SinkPlan::Materialise {
                order: Some(RowOrder::All(_)),
                ..
            }
            | SinkPlan::Mark { .. }
            | SinkPlan::Partition { .. } => return Vec::new(),
            SinkPlan::Materialise { .. } | SinkPlan::Aggregate { .. } => true,
            // What has a place for each row that is scanned has none for pairs that are not known yet.
            _ => false,
        };
        let mut joins: Vec<Self> = Self::all(pipeline)
            .filter(|join| (returns || *join != Self::Pairs) && join.keys(pipeline).is_some())
            .collect();
        let rows = |join: &Self| {
            join.build(pipeline)
                .and_then(|build| build.rows)
                .unwrap_or(u64::MAX)
        };
        joins.sort_by_key(|join| std::cmp::Reverse((join.exceeds_memory(pipeline), rows(join))));
        joins
    }

    /// The key of its build side, and that of the rows that look it up; `None` if it cannot run in parts.
    pub(crate) fn keys(self, pipeline: PipelineRef<'_>) -> Option<[&Expr; 2]> {
        let build = self.build(pipeline)?.get();
        if !matches!(build.plan.sink, SinkPlan::Build { .. } | SinkPlan::Lists { .. }) {
            return None;
        }
        // The list of each row is a place in this build side, of which there has to be one then.
        if let (Self::Lookup(side), SinkPlan::Probe { dimension, .. }) = (self, &pipeline.plan.sink)
            && *dimension == side
        {
            return None;
        }
        let (probe, side) = self.met(pipeline)?;
        let own = build.plan.key_of(Meeting::Own)?;
        let met = probe.get().plan.key_of(Meeting::Other(side))?;
        // Where all rows have one key there is one part.
        (!own.parts().is_empty()).then_some([own, met])
    }

    /// The pipeline of its build side.
    pub(crate) fn build(self, pipeline: PipelineRef<'_>) -> Option<PipelineRef<'_>> {
        let (probe, side) = self.met(pipeline)?;
        probe.build(side)
    }

    /// Whether its build side is predicted to exceed device memory.
    pub(crate) fn exceeds_memory(self, pipeline: PipelineRef<'_>) -> bool {
        self.met(pipeline)
            .is_some_and(|(probe, side)| probe.dimensions[side].exceeds_memory)
    }

    /// Of pairs the pipeline of the probe side, and the number of the build side that it looks up.
    pub(crate) fn probe(self, pipeline: PipelineRef<'_>) -> Option<(PipelineRef<'_>, usize)> {
        if self != Self::Pairs || !matches!(pipeline.source, PipelineSource::Pairs(_)) {
            return None;
        }
        let rows = pipeline.rows_from()?;
        match &rows.get().plan.sink {
            SinkPlan::Probe { dimension, .. } => Some((rows, *dimension)),
            SinkPlan::Mark { .. } => self.probe(rows),
            _ => None,
        }
    }

    /// The pipeline whose rows look up the build side, and the number that this has there.
    fn met(self, pipeline: PipelineRef<'_>) -> Option<(PipelineRef<'_>, usize)> {
        match self {
            Self::Lookup(side) => Some((pipeline, side)),
            Self::Pairs => self.probe(pipeline),
        }
    }

    /// The graph with a build side that has no rows.
    pub(crate) fn without(self, pipeline: PipelineRef<'_>) -> PipelineGraph {
        let mut graph = pipeline.graph().clone();
        self.restrict(&mut graph, pipeline.id(), &(0..0), 1);
        graph
    }

    /// Leaves the rows of a part in the graph: those whose keys have a hash in that range of parts. The build
    /// side has `most` rows of it at most.
    pub(crate) fn restrict(self, graph: &mut PipelineGraph, id: PipelineId, parts: &Range<u32>, most: u64) {
        if let Some((probe, side)) = self.met(graph.pipeline(id)) {
            let probe = probe.id();
            restrict(graph, (probe, side), parts, most);
        }
    }
}

/// Leaves the rows of a part in that pipeline, and in its build side of that number.
fn restrict(graph: &mut PipelineGraph, (probe, side): (PipelineId, usize), parts: &Range<u32>, most: u64) {
    let end = i64::from(parts.end) << SHIFT;
    let (least, greatest) = match parts.is_empty() {
        true => (1, 0),
        false => (i64::from(parts.start) << SHIFT, end - 1),
    };
    let Some(build) = graph.pipeline(probe).build(side) else {
        return;
    };
    let (build, spreads) = (build.id(), spreads(&build.plan.sink));
    let within = |key: &Expr| Expr::key_hash(key, spreads).within(least, greatest);
    let plan = &mut graph.pipeline_mut(build).plan;
    let key = plan.key_of(Meeting::Own).map(&within);
    plan.filters.extend(key);
    if let SinkPlan::Build { most: rows, .. } | SinkPlan::Lists { most: rows, .. } = &mut plan.sink {
        *rows = Some(most);
    }
    let plan = &mut graph.pipeline_mut(probe).plan;
    let key = plan.key_of(Meeting::Other(side)).map(&within);
    // Before what is looked up in the build side, and behind what the key may rely on.
    let at = plan.filters_before(side);
    key.into_iter().for_each(|key| plan.filters.insert(at, key));
}

/// Whether keys with NULL, which have no partner, may be in any part, for the sink of a build side.
pub(crate) fn spreads(build: &SinkPlan) -> bool {
    !matches!(build, SinkPlan::Lists { null_keys: true, .. })
}

/// The graph whose pipeline counts the rows in each part of the hashes of a key, of those that pass these
/// filters.
pub(crate) fn counting(
    pipeline: PipelineRef<'_>,
    filters: &[Expr],
    key: &Expr,
    spreads: bool,
) -> PipelineGraph {
    let number = Expr::key_hash(key, spreads).bucket(0, SHIFT);
    let mut graph = pipeline.graph().clone();
    let counts = graph.pipeline_mut(pipeline.id());
    counts.plan = PipelinePlan::counts(filters.to_vec(), Some(number));
    counts.fetch = None;
    graph
}

/// Bytes of a row of a build side, or of a probe side, as far as types tell: with its place in a table of
/// keys and in lists.
pub(crate) fn row_bytes(sink: &SinkPlan) -> u64 {
    let columns = column_bytes(sink);
    match sink {
        // Two slots a row, each of a key and of a place for every column.
        SinkPlan::Build { .. } => 2 * (8 + columns),
        // Two slots a row, each of a key and the start of a list; then the row's slot, rank and place there.
        SinkPlan::Lists { .. } => 2 * (8 + 4) + LIST_BYTES + columns,
        // The start of the list, its length, and the pairs before.
        _ => 16 + columns,
    }
}

/// Bytes that a row of a build side takes at least, where keys are next to each other: its columns in arrays
/// by key, and its place in a list. Keys alone take a bit.
pub(crate) fn least_row_bytes(sink: &SinkPlan) -> u64 {
    match sink {
        SinkPlan::Build { .. } => column_bytes(sink),
        SinkPlan::Lists { .. } => LIST_BYTES + column_bytes(sink),
        _ => 0,
    }
}

/// Bytes of the slot, the rank and the place of a row in a list.
const LIST_BYTES: u64 = 12;

/// Bytes of the columns of a row, as far as types give their width.
fn column_bytes(sink: &SinkPlan) -> u64 {
    let width = |(_, column): &(usize, Expr)| {
        let width = column.data_type().primitive_width();
        // A bit that says whether it is NULL, rounded up.
        1 + width.map_or(CODE_BYTES, |bytes| bytes as u64)
    };
    sink.keyed()
        .map_or(0, |(_, columns)| columns.iter().map(width).sum())
}
