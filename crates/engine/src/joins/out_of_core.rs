//! Selects the state of a pipeline that can be computed partition after partition, and restricts its
//! pipelines to one partition ([`Partition`]): the one that computes the state, and those that probe a build
//! side, keep the rows of the partition.

use crate::graph::{
    OutOfCoreMemory, Partition, PipelineGraph, PipelineId, PipelineRef, PipelineSource, ROW_COLUMNS, in_slice,
};
use arrow::datatypes::DataType;
use galatea_codegen::{AlignedSide, Marking, PartitionPasses, RowOrder, SinkPlan};
use galatea_expression::{BuildPart, Expr, ExprKind};

/// Bytes of a column without a width of its own: the code of a string.
const CODE_BYTES: u64 = 4;

/// State of a pipeline that can be computed partition after partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionedState {
    /// The build side with that number, which rows look up.
    Lookup(usize),
    /// The build side of the join with matches that are the rows of the pipeline.
    Pairs,
    /// The groups that are the rows of the pipeline.
    Groups,
    /// The groups that the pipeline returns.
    Aggregate,
}

/// The pipelines of a Triton join (Lutz 2022, §4.4), which partitions its sides once: the first pass of each
/// side stores the rows by partition, the second one reads a partition.
#[derive(Debug, Clone)]
pub(crate) struct TritonPlan {
    /// The pipeline of the build side. In its second pass, its only build side consists of the stored rows.
    pub(crate) build: PartitionPasses,
    /// The pipeline that probes it. In its second pass, its last build side consists of the stored rows.
    pub(crate) probe: PartitionPasses,
}

impl TritonPlan {
    /// Bytes of a stored row of the build side, and of one of the probe side.
    pub(crate) fn row_bytes(&self) -> [u64; 2] {
        [&self.build, &self.probe].map(stored_row_bytes)
    }

    /// Number of stored columns of both sides.
    pub(crate) fn columns(&self) -> usize {
        stored_columns(&self.build) + stored_columns(&self.probe)
    }
}

/// Bytes of a row that the first of two passes stores.
pub(crate) fn stored_row_bytes(passes: &PartitionPasses) -> u64 {
    column_bytes(&passes.first.sink).max(1)
}

/// Number of columns that the first of two passes stores.
pub(crate) fn stored_columns(passes: &PartitionPasses) -> usize {
    passes.first.sink.keyed().map_or(0, |(_, columns)| columns.len())
}

impl PartitionedState {
    /// The pipelines that partition the sides of this join of a pipeline, in `parts` partitions with at most
    /// `most` rows of the build side each. `numbered`: whether stored rows of the probe side, and of the
    /// build side, have their row number as a column. `None` for sides that are not scans of tables, and if
    /// rows cannot be stored.
    pub(crate) fn triton(
        self,
        pipeline: PipelineRef<'_>,
        (parts, numbered): (u32, [bool; 2]),
        most: u64,
    ) -> Option<TritonPlan> {
        let mut graph = pipeline.graph().clone();
        if numbered != [false; 2] {
            self.restrict(&mut graph, pipeline.id(), &Partition::all(most, numbered));
        }
        let pipeline = graph.pipeline(pipeline.id());
        let (probe, side) = self.met(pipeline)?;
        let build = probe.build(side)?;
        if !scans(&build.source) || !scans(&probe.source) {
            return None;
        }
        // Partitioned rows have other keys in each partition, so groups by key would need arrays of all keys.
        if !matches!(
            build.plan.sink,
            SinkPlan::Build { .. } | SinkPlan::Multimap { .. }
        ) {
            return None;
        }
        // The probe side of a multimap join is not read in pieces, so rows with a NULL key are distributed.
        let spreads = self == Self::Pairs && spreads(&build.plan.sink, &build.source);
        let plan = build.plan.resolved().ok()?;
        let mut own = plan.in_hash_partitions(AlignedSide::Own, 0, (parts, spreads))?;
        own.second.sink.set_part(BuildPart::Rows(most));
        let plan = probe.plan.resolved().ok()?;
        let rows = probe.build_sides.len();
        let probe = plan.in_hash_partitions(AlignedSide::Other(side), rows, (parts, spreads))?;
        Some(TritonPlan { build: own, probe })
    }

    /// The pipeline that computes these groups, split in two: the first one stores its rows in `parts`
    /// partitions by the hash of their keys, and the second one computes the groups of a partition. Its only
    /// build side consists of the stored rows. `None` if its rows are not those of a table, or cannot be
    /// stored.
    pub(crate) fn groups_in_two(self, pipeline: PipelineRef<'_>, parts: u32) -> Option<PartitionPasses> {
        let grouped = self.grouped(pipeline).filter(|grouped| scans(&grouped.source))?;
        let plan = grouped.plan.resolved().ok()?;
        plan.in_hash_partitions(AlignedSide::Groups, 0, (parts, false))
    }

    /// Whether a join of a pipeline has to run in partitions, because its build side is predicted to exceed
    /// device memory. Few pipelines have such a build side, so this check precedes the search for the keys.
    pub(crate) fn are_predicted(pipeline: PipelineRef<'_>) -> bool {
        let exceeds = |join: &Self| join.exceeds_memory(pipeline);
        Self::all(pipeline).any(|join| exceeds(&join)) && Self::of(pipeline).iter().any(exceeds)
    }

    /// Whether a pipeline has state that can be computed in partitions.
    pub(crate) fn is_in(pipeline: PipelineRef<'_>) -> bool {
        !Self::of(pipeline).is_empty() || Self::of_groups(pipeline).is_some()
    }

    /// The joins of a pipeline, including those that cannot run in partitions.
    fn all(pipeline: PipelineRef<'_>) -> impl Iterator<Item = Self> {
        let lookups = (0..pipeline.build_sides.len()).map(Self::Lookup);
        lookups.chain([Self::Pairs])
    }

    /// The joins of a pipeline that can run in partitions: first those with a build side that is predicted to
    /// exceed device memory, and among these the ones with the most rows on the build side.
    pub(crate) fn of(pipeline: PipelineRef<'_>) -> Vec<Self> {
        // A partition would have an order of its own, and marks of its own matches.
        if let SinkPlan::Rows {
            order: Some(RowOrder::All(_)),
            ..
        }
        | SinkPlan::Mark { .. }
        | SinkPlan::Partition { .. } = &pipeline.plan.sink
        {
            return Vec::new();
        }
        let mut joins: Vec<Self> = Self::all(pipeline)
            .filter(|join| join.keys(pipeline).is_some())
            .collect();
        let rows = |join: &Self| {
            join.build(pipeline)
                .and_then(|build| build.rows)
                .unwrap_or(u64::MAX)
        };
        joins.sort_by_key(|join| std::cmp::Reverse((join.exceeds_memory(pipeline), rows(join))));
        joins
    }

    /// The groups of a pipeline that can be computed in partitions: those that are its rows, or those that it
    /// returns.
    pub(crate) fn of_groups(pipeline: PipelineRef<'_>) -> Option<Self> {
        let (state, returns) = match (&pipeline.source, &pipeline.plan.sink) {
            (PipelineSource::Groups(_), SinkPlan::Rows { order, .. }) => {
                (Self::Groups, !matches!(order, Some(RowOrder::All(_))))
            }
            (PipelineSource::Groups(_), SinkPlan::Aggregate { .. }) => (Self::Groups, true),
            (_, SinkPlan::Aggregate { kept, .. }) => (Self::Aggregate, !kept),
            _ => return None,
        };
        let keyed = || state.grouped(pipeline)?.plan.group_key();
        keyed().filter(|_| returns).map(|_| state)
    }

    /// Whether the sink of a pipeline has a slot for each match of this join, so that matches are counted
    /// before.
    pub(crate) fn has_slots(self, pipeline: PipelineRef<'_>) -> bool {
        let has_none = matches!(
            pipeline.plan.sink,
            SinkPlan::Rows { .. } | SinkPlan::Aggregate { .. }
        );
        self == Self::Pairs && !has_none
    }

    /// Whether it consists of groups that are returned or read as rows.
    pub(crate) fn is_of_groups(self) -> bool {
        matches!(self, Self::Groups | Self::Aggregate)
    }

    /// The pipeline that computes its groups.
    pub(crate) fn grouped(self, pipeline: PipelineRef<'_>) -> Option<PipelineRef<'_>> {
        match self {
            Self::Groups => pipeline.rows_from(),
            Self::Aggregate => Some(pipeline),
            Self::Lookup(_) | Self::Pairs => None,
        }
    }

    /// The key of its build side, and that of the rows that probe it; `None` if it cannot run in partitions.
    pub(crate) fn keys(self, pipeline: PipelineRef<'_>) -> Option<[&Expr; 2]> {
        let build = self.build(pipeline)?.get();
        if !matches!(
            build.plan.sink,
            SinkPlan::Build { .. } | SinkPlan::BuildGroups { .. } | SinkPlan::Multimap { .. }
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

    /// Whether rows of equal keys on the build side, and on the probe side, may be in several partitions of a
    /// multimap join. Slices depend on the order of a table. A preserved row has a match if it has one in any
    /// slice of the other side, and is identified there by its number in its table.
    pub(crate) fn slices(self, pipeline: PipelineRef<'_>) -> [bool; 2] {
        let Some((probe, side)) = self.probe(pipeline) else {
            return [false; 2];
        };
        let Some(build) = probe.build(side) else {
            return [false; 2];
        };
        let [probes, builds] = [probe, build].map(|side| scans(&side.source));
        let [keeps_probe, keeps_build] = self.preserved(pipeline);
        [
            builds && (probes || !keeps_probe),
            probes && (builds || !keeps_build),
        ]
    }

    /// Whether a multimap join preserves rows of the probe side, and of the build side: it returns a row once
    /// that has no match, or that has one.
    pub(crate) fn preserved(self, pipeline: PipelineRef<'_>) -> [bool; 2] {
        let (Some((probe, _)), Some(rows)) = (self.probe(pipeline), pipeline.rows_from()) else {
            return [false; 2];
        };
        let keeps_all = matches!(probe.plan.sink, SinkPlan::Probe { keeps_all: true, .. });
        match rows.plan.sink {
            SinkPlan::Mark {
                marking: Marking::Outer { probe, build, .. },
                ..
            } => [probe || keeps_all, build],
            SinkPlan::Mark { .. } => [true, false],
            _ => [keeps_all, false],
        }
    }

    /// Whether a multimap join has a bit for each match: whether it fulfils the condition of an outer join.
    pub(crate) fn marks_matches(self, pipeline: PipelineRef<'_>) -> bool {
        let marking = |rows: PipelineRef<'_>| match rows.plan.sink {
            SinkPlan::Mark { marking, .. } => Some(marking),
            _ => None,
        };
        let marking = self.probe(pipeline).and(pipeline.rows_from()).and_then(marking);
        matches!(
            marking,
            Some(Marking::Outer {
                conditional: true,
                ..
            })
        )
    }

    /// The pipeline that probes the build side, and the number of the build side there.
    pub(crate) fn met(self, pipeline: PipelineRef<'_>) -> Option<(PipelineRef<'_>, usize)> {
        match self {
            Self::Lookup(side) => Some((pipeline, side)),
            Self::Pairs => self.probe(pipeline),
            Self::Groups | Self::Aggregate => None,
        }
    }

    /// The graph with an empty build side.
    pub(crate) fn without(self, pipeline: PipelineRef<'_>) -> PipelineGraph {
        let mut graph = pipeline.graph().clone();
        self.restrict(&mut graph, pipeline.id(), &Partition::none());
        graph
    }

    /// Restricts the graph to the rows of a partition.
    pub(crate) fn restrict(self, graph: &mut PipelineGraph, id: PipelineId, partition: &Partition) {
        if let Some(groups) = self.grouped(graph.pipeline(id)) {
            let (groups, key) = (groups.id(), groups.plan.group_key());
            let key = key.map(|key| partition.probes(&key, false));
            let groups = graph.pipeline_mut(groups);
            groups.plan.filters.extend(key);
            groups.out_of_core = OutOfCoreMemory::default();
        }
        if let Some((probe, side)) = self.met(graph.pipeline(id)) {
            let probe = probe.id();
            restrict(graph, (probe, side), partition);
        }
    }
}

/// Whether these rows are scanned: those of a table, of files or of CPU operators.
fn scans(source: &PipelineSource) -> bool {
    use PipelineSource::{Files, Plan, Stored};
    matches!(source, Stored(_) | Files { .. } | Plan(_))
}

/// Restricts that pipeline, and its build side with that number, to the rows of a partition.
fn restrict(graph: &mut PipelineGraph, (probe, side): (PipelineId, usize), partition: &Partition) {
    let Some(build) = graph.pipeline(probe).build(side) else {
        return;
    };
    let (build, sink) = (build.id(), build.plan.sink.clone());
    restrict_build(graph, build, partition);
    let numbers = |side: usize| (ROW_COLUMNS[side], Expr::table_row());
    if let ([_, true], SinkPlan::Multimap { columns, .. }) =
        (partition.numbered, &mut graph.pipeline_mut(build).plan.sink)
    {
        columns.push(numbers(1));
    }
    let probe = graph.pipeline_mut(probe);
    if let (
        [true, _],
        SinkPlan::Probe {
            columns, keeps_all, ..
        },
    ) = (partition.numbered, &mut probe.plan.sink)
    {
        columns.push(numbers(0));
        // The merged matches determine which rows are returned without one.
        *keeps_all = false;
    }
    if let Some(key) = probe.plan.key_of(AlignedSide::Other(side)).cloned() {
        probe.key_bounds.extend(partition.pruning(&key, true));
        if partition.is_whole() {
            return;
        }
        let spreads = spreads(&sink, &probe.source);
        // Before the lookups in the build side, and after the filters that the key may rely on.
        let at = probe.plan.filters_before(side);
        probe.plan.filters.insert(at, partition.probes(&key, spreads));
        let slice = partition.slices.probe.as_ref().map(in_slice);
        probe.plan.filters.splice(at..at, slice);
    }
}

/// Restricts the pipeline of a build side to the rows of a partition, and with it the groups by key that its
/// own rows look up by the same key.
fn restrict_build(graph: &mut PipelineGraph, id: PipelineId, partition: &Partition) {
    let build = graph.pipeline_mut(id);
    let Some(key) = build.plan.key_of(AlignedSide::Own).cloned() else {
        return;
    };
    let spreads = spreads(&build.plan.sink, &build.source);
    build.plan.sink.set_part(partition.part());
    // A partition has less state than all rows.
    build.out_of_core = OutOfCoreMemory::default();
    build.key_bounds.extend(partition.pruning(&key, false));
    if partition.is_whole() {
        return;
    }
    build.plan.filters.push(partition.builds(&key, spreads));
    build
        .plan
        .filters
        .extend(partition.slices.build.as_ref().map(in_slice));
    if let Some((groups, key)) = key_in_groups(graph.pipeline(id), &key) {
        let groups = groups.id();
        let groups = graph.pipeline_mut(groups);
        groups.plan.filters.push(partition.builds(&key, spreads));
        groups.out_of_core = OutOfCoreMemory::default();
    }
    if partition.keys().is_none() {
        return;
    }
    let build = graph.pipeline(id);
    let by_key = |side: &usize| build.plan.key_of(AlignedSide::Other(*side)) == Some(&key);
    let sides = (0..build.build_sides.len()).filter(by_key);
    let groups = |side| {
        let below = build.build(side)?;
        matches!(below.plan.sink, SinkPlan::BuildGroups { .. }).then(|| below.id())
    };
    let groups: Vec<PipelineId> = sides.filter_map(groups).collect();
    for id in groups {
        restrict_build(graph, id, partition);
    }
}

/// If the rows of a build side are groups, and its `key` consists of group keys: the pipeline of the groups,
/// and the key as an expression over the rows of that pipeline.
pub(crate) fn key_in_groups<'g>(build: PipelineRef<'g>, key: &Expr) -> Option<(PipelineRef<'g>, Expr)> {
    if !matches!(build.source, PipelineSource::Groups(_)) {
        return None;
    }
    let (side, groups) = (build.row_sides.start, build.rows_from()?);
    let (keys, _) = groups.get().plan.sink.grouped()?;
    let in_groups = |e: &Expr| match e.kind() {
        ExprKind::Lookup {
            build_side, column, ..
        } if *build_side == side => keys.get(*column).cloned(),
        _ => None,
    };
    let consists = consists_of(key, &|e| in_groups(e).is_some());
    consists.then(|| (groups, key.replaced(&in_groups)))
}

/// Whether all values of rows that an expression reads are `given`.
fn consists_of(expression: &Expr, given: &dyn Fn(&Expr) -> bool) -> bool {
    use ExprKind::{Absent, Column, LateMaterialised, Lookup, Member, RowNumber, TableRow};
    match expression.kind() {
        _ if given(expression) => true,
        Absent { .. }
        | Column(_)
        | LateMaterialised(_)
        | Lookup { .. }
        | Member { .. }
        | RowNumber
        | TableRow => false,
        _ => (expression.children().into_iter()).all(|child| consists_of(child, given)),
    }
}

/// Whether NULL keys, which have no match, may be in any partition, for the sink of a build side and rows of
/// one of the sides. Rows of other pipelines have other numbers in each run, so their NULL keys are in one
/// partition.
pub(crate) fn spreads(build: &SinkPlan, rows: &PipelineSource) -> bool {
    !matches!(build, SinkPlan::Multimap { null_keys: true, .. }) && scans(rows)
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

/// Number of rows of a build side in a partition of at most `bytes` bytes, `row_bytes` each; at least one. It
/// is a power of two, so hash tables need no additional slots.
pub(crate) fn rows_in(bytes: u64, row_bytes: u64) -> u64 {
    1 << (bytes / row_bytes).max(1).ilog2()
}

/// Bytes of the arrays of a build side for each key. Groups have a word for their number of rows, and at most
/// two for each aggregate.
pub(crate) fn key_bytes(sink: &SinkPlan) -> u64 {
    match sink {
        SinkPlan::BuildGroups { aggregates, .. } => 8 * (1 + 2 * aggregates.len() as u64),
        // A bit for the presence of a row, rounded up.
        _ => 1 + column_bytes(sink),
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

/// Bytes of a value, from the width of its type.
pub(crate) fn value_bytes(data_type: &DataType) -> u64 {
    data_type
        .primitive_width()
        .map_or(CODE_BYTES, |bytes| bytes as u64)
}

/// Bytes of the columns of a row, from the widths of their types.
fn column_bytes(sink: &SinkPlan) -> u64 {
    let width = |(_, column): &(usize, Expr)| {
        // A bit for NULL, rounded up.
        1 + value_bytes(column.data_type())
    };
    sink.keyed()
        .map_or(0, |(_, columns)| columns.iter().map(width).sum())
}
