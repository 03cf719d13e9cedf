//! Selects the join of a pipeline that can run partition after partition, and restricts its pipelines to one
//! partition: that of the build side, and those that probe it, keep the rows with key hashes within a range.

use crate::graph::{PipelineGraph, PipelineId, PipelineRef, PipelineSource};
use galatea_codegen::{AlignedSide, PartitionPasses, PipelinePlan, RowOrder, SinkPlan};
use galatea_expression::{BUCKETS, Expr};
use std::ops::Range;

/// Bits of a key's hash below its partition number.
const SHIFT: u32 = u32::BITS - BUCKETS.ilog2();

/// Bytes of a column without a width of its own: the code of a string.
const CODE_BYTES: u64 = 4;

/// A join of a pipeline that can build and probe its build side partition after partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionedJoin {
    /// The lookup in the build side with that number.
    Lookup(usize),
    /// The join with matches that are the rows of the pipeline.
    Pairs,
}

/// The pipelines of a join that partition its sides once: the first pass of each side stores the rows by
/// partition, the second one reads a partition.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// The pipeline of the build side. In its second pass, its only build side consists of the stored rows.
    pub(crate) build: PartitionPasses,
    /// The pipeline that probes it. In its second pass, its last build side consists of the stored rows.
    pub(crate) probe: PartitionPasses,
}

impl Exchange {
    /// Bytes of a stored row of the build side, and of one of the probe side.
    pub(crate) fn row_bytes(&self) -> [u64; 2] {
        [&self.build, &self.probe].map(|passes| column_bytes(&passes.first.sink).max(1))
    }
}

impl PartitionedJoin {
    /// The pipelines that partition the sides of this join of a pipeline, in `parts` partitions with at most
    /// `most` rows of the build side each. `None` for multimap joins, for sides that are not scans of tables,
    /// and if rows cannot be stored.
    pub(crate) fn exchange(self, pipeline: PipelineRef<'_>, parts: u32, most: u64) -> Option<Exchange> {
        let Self::Lookup(side) = self else { return None };
        let build = self.build(pipeline)?;
        let scans = |source: &PipelineSource| {
            use PipelineSource::{Files, Plan, Stored};
            matches!(source, Stored(_) | Files { .. } | Plan(_))
        };
        if !scans(&build.source) || !scans(&pipeline.source) {
            return None;
        }
        let plan = build.plan.resolved().ok()?;
        let mut own = plan.in_hash_partitions(AlignedSide::Own, 0, parts)?;
        if let SinkPlan::Build { most: rows, .. } = &mut own.second.sink {
            *rows = Some(most);
        }
        let plan = pipeline.plan.resolved().ok()?;
        let rows = pipeline.build_sides.len();
        let probe = plan.in_hash_partitions(AlignedSide::Other(side), rows, parts)?;
        Some(Exchange { build: own, probe })
    }

    /// Whether a join of a pipeline has to run in partitions, because its build side is predicted to exceed
    /// device memory. Few pipelines have such a build side, so this check precedes the search for the keys.
    pub(crate) fn are_predicted(pipeline: PipelineRef<'_>) -> bool {
        let exceeds = |join: &Self| join.exceeds_memory(pipeline);
        Self::all(pipeline).any(|join| exceeds(&join)) && Self::of(pipeline).iter().any(exceeds)
    }

    /// The joins of a pipeline, including those that cannot run in partitions.
    fn all(pipeline: PipelineRef<'_>) -> impl Iterator<Item = Self> {
        let lookups = (0..pipeline.build_sides.len()).map(Self::Lookup);
        lookups.chain([Self::Pairs])
    }

    /// The joins of a pipeline that can run in partitions: first those with a build side that is predicted to
    /// exceed device memory, and among these the ones with the most rows on the build side.
    pub(crate) fn of(pipeline: PipelineRef<'_>) -> Vec<Self> {
        let returns = match &pipeline.plan.sink {
            // A partition would have an order of its own, and marks of its own matches.
            SinkPlan::Rows {
                order: Some(RowOrder::All(_)),
                ..
            }
            | SinkPlan::Mark { .. }
            | SinkPlan::Partition { .. } => return Vec::new(),
            SinkPlan::Rows { .. } | SinkPlan::Aggregate { .. } => true,
            // A sink with one slot for each scanned row has none for matches that are not known yet.
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

    /// The key of its build side, and that of the rows that probe it; `None` if it cannot run in partitions.
    pub(crate) fn keys(self, pipeline: PipelineRef<'_>) -> Option<[&Expr; 2]> {
        let build = self.build(pipeline)?.get();
        if !matches!(
            build.plan.sink,
            SinkPlan::Build { .. } | SinkPlan::Multimap { .. }
        ) {
            return None;
        }
        // The probe sink refers to positions in this build side, so it has to be a single one.
        if let (Self::Lookup(side), SinkPlan::Probe { build_side, .. }) = (self, &pipeline.plan.sink)
            && *build_side == side
        {
            return None;
        }
        let (probe, side) = self.met(pipeline)?;
        let own = build.plan.key_of(AlignedSide::Own)?;
        let met = probe.get().plan.key_of(AlignedSide::Other(side))?;
        // If all rows have the same key, only one partition exists.
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
            .is_some_and(|(probe, side)| probe.build_sides[side].exceeds_memory)
    }

    /// For a multimap join, the pipeline of the probe side, and the number of the build side that it probes.
    pub(crate) fn probe(self, pipeline: PipelineRef<'_>) -> Option<(PipelineRef<'_>, usize)> {
        if self != Self::Pairs || !matches!(pipeline.source, PipelineSource::Pairs(_)) {
            return None;
        }
        let rows = pipeline.rows_from()?;
        match &rows.get().plan.sink {
            SinkPlan::Probe { build_side, .. } => Some((rows, *build_side)),
            SinkPlan::Mark { .. } => self.probe(rows),
            _ => None,
        }
    }

    /// The pipeline that probes the build side, and the number of the build side there.
    fn met(self, pipeline: PipelineRef<'_>) -> Option<(PipelineRef<'_>, usize)> {
        match self {
            Self::Lookup(side) => Some((pipeline, side)),
            Self::Pairs => self.probe(pipeline),
        }
    }

    /// The graph with an empty build side.
    pub(crate) fn without(self, pipeline: PipelineRef<'_>) -> PipelineGraph {
        let mut graph = pipeline.graph().clone();
        self.restrict(&mut graph, pipeline.id(), &(0..0), 1);
        graph
    }

    /// Restricts the graph to the rows of a partition: those with key hashes in that range. The build side
    /// has at most `most` rows of it.
    pub(crate) fn restrict(self, graph: &mut PipelineGraph, id: PipelineId, parts: &Range<u32>, most: u64) {
        if let Some((probe, side)) = self.met(graph.pipeline(id)) {
            let probe = probe.id();
            restrict(graph, (probe, side), parts, most);
        }
    }
}

/// Restricts that pipeline, and its build side with that number, to the rows of a partition.
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
    let key = plan.key_of(AlignedSide::Own).map(&within);
    plan.filters.extend(key);
    if let SinkPlan::Build { most: rows, .. } | SinkPlan::Multimap { most: rows, .. } = &mut plan.sink {
        *rows = Some(most);
    }
    let plan = &mut graph.pipeline_mut(probe).plan;
    let key = plan.key_of(AlignedSide::Other(side)).map(&within);
    // Before the lookups in the build side, and after the filters that the key may rely on.
    let at = plan.filters_before(side);
    key.into_iter().for_each(|key| plan.filters.insert(at, key));
}

/// Whether NULL keys, which have no match, may be in any partition, for the sink of a build side.
pub(crate) fn spreads(build: &SinkPlan) -> bool {
    !matches!(build, SinkPlan::Multimap { null_keys: true, .. })
}

/// The graph with a pipeline that counts the rows in each partition of the hashes of a key, for the rows that
/// pass these filters.
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

/// Bytes of a row of a build side, or of a probe side, from the types: including its slot in a hash table and
/// its entries in a multimap.
pub(crate) fn row_bytes(sink: &SinkPlan) -> u64 {
    let columns = column_bytes(sink);
    match sink {
        // Two slots for each row, with a key and a slot for every column.
        SinkPlan::Build { .. } => 2 * (8 + columns),
        // Two slots for each row, with a key and the start of a list; then the row's slot, rank and position
        // there.
        SinkPlan::Multimap { .. } => 2 * (8 + 4) + LIST_BYTES + columns,
        // The start of the list, its length, and the number of matches before.
        _ => 16 + columns,
    }
}

/// Lower bound of the bytes of a row of a build side, for dense keys: its columns in arrays by key, and its
/// entry in a list. Keys alone take one bit.
pub(crate) fn least_row_bytes(sink: &SinkPlan) -> u64 {
    match sink {
        SinkPlan::Build { .. } => column_bytes(sink),
        SinkPlan::Multimap { .. } => LIST_BYTES + column_bytes(sink),
        _ => 0,
    }
}

/// Bytes of the slot, the rank and the list entry of a row.
const LIST_BYTES: u64 = 12;

/// Bytes of the columns of a row, from the widths of their types.
fn column_bytes(sink: &SinkPlan) -> u64 {
    let width = |(_, column): &(usize, Expr)| {
        let width = column.data_type().primitive_width();
        // A bit for NULL, rounded up.
        1 + width.map_or(CODE_BYTES, |bytes| bytes as u64)
    };
    sink.keyed()
        .map_or(0, |(_, columns)| columns.iter().map(width).sum())
}
