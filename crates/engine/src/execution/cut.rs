//! The partitions of state that is computed out of core: build sides and groups.
//!
//! A partition is a range of buckets of the key. Buckets are ranges of hashes, or ranges of the key itself
//! (`key_partitions.rs`). For hashes, rows of a build side are counted first, and groups are estimated.

use super::error::Failure;
use super::executor::{Executor, MAX_PAIRS};
use super::hash_ranges::{BucketRows, EqualRanges, HashRange, RangedSide};
use super::key_partitions::KeyPartitions;
use crate::aggregate::partitions::{counting_groups, estimated_groups, groups_in, slot_bytes};
use crate::config::JoinAlgorithm;
use crate::device::RunError;
use crate::graph::{Buckets, Partition, PipelineGraph, PipelineId, PipelineRef, Slices};
use crate::joins::out_of_core::{PartitionedState, key_bytes, key_in_groups, row_bytes, rows_in, spreads};
use arrow::array::AsArray;
use arrow::compute::sum;
use arrow::datatypes::{Int32Type, Int64Type};
use galatea_codegen::SinkPlan;
use galatea_expression::BUCKETS;
use std::iter::zip;

/// State that is computed one partition at a time.
pub(super) struct Cut {
    pub(super) state: PartitionedState,
    /// The numbers of its build sides among those of the pipeline: first the build side of the join, or the
    /// rows of the pipeline (pairs or groups); then other build sides that rows look up by the same key.
    /// Empty for groups that the pipeline returns.
    pub(super) sides: Vec<usize>,
    pub(super) partitions: Partitions,
}

/// The partitions of a [`Cut`].
pub(super) enum Partitions {
    Hashes(HashPartitions),
    Keys(KeyPartitions),
}

/// Partitions by the hash of the key.
pub(super) struct HashPartitions {
    /// The partitions.
    pub(super) ranges: Vec<HashRange>,
    /// The equal ranges of hashes of a Triton join; `None` if it would need too many.
    pub(super) equal: Option<EqualRanges>,
    /// Maximum number of build rows in a partition; of groups: the expected number.
    pub(super) most: u64,
    /// Number of build rows, or of rows in groups.
    pub(super) rows: u64,
    /// Maximum number of rows that the pipeline scans in a partition, if these are pairs or groups.
    scanned: u64,
    /// Whether matches of rows of the probe side, and of the build side, are merged over slices of the other
    /// side.
    numbered: [bool; 2],
}

impl HashPartitions {
    /// Number of partitions that are slices of a bucket.
    fn slices(&self) -> usize {
        self.ranges.iter().filter(|range| range.is_sliced()).count()
    }
}

impl Cut {
    /// Number of partitions.
    pub(super) fn number(&self) -> usize {
        match &self.partitions {
            Partitions::Hashes(hashes) => hashes.ranges.len(),
            Partitions::Keys(keys) => keys.number as usize,
        }
    }

    /// Whether the build side of a join fits a hash table of all of its rows, while arrays by key would not
    /// fit.
    pub(super) fn is_whole(&self) -> bool {
        let is_join = matches!(self.state, PartitionedState::Lookup(_));
        is_join && self.number() == 1 && matches!(self.partitions, Partitions::Hashes(_))
    }

    /// The number of its first build side. Groups that are returned have none.
    pub(super) fn side(&self) -> usize {
        self.sides[0]
    }

    /// Maximum number of rows that the pipeline scans in a partition, if these are pairs or groups. Pairs
    /// include rows without a match.
    pub(super) fn scanned(&self) -> u64 {
        match &self.partitions {
            Partitions::Hashes(hashes) => hashes.scanned,
            Partitions::Keys(_) => 0,
        }
    }

    /// Maximum number of rows that the pipeline scans in all partitions, if these are pairs or groups.
    pub(super) fn scanned_by_all(&self) -> u64 {
        self.scanned().saturating_mul(self.number() as u64)
    }

    /// Whether matches of rows of the probe side, and of the build side, are merged over slices of the other
    /// side, when both sides are read once per partition.
    pub(super) fn numbered(&self) -> [bool; 2] {
        match &self.partitions {
            Partitions::Hashes(hashes) => hashes.numbered,
            Partitions::Keys(_) => [false; 2],
        }
    }

    /// Whether no later slice of the other side follows the partition with this number, for its rows of the
    /// probe side and of the build side.
    pub(super) fn last_slices(&self, number: usize) -> [bool; 2] {
        match &self.partitions {
            Partitions::Hashes(hashes) => hashes.ranges[number].last,
            Partitions::Keys(_) => [true; 2],
        }
    }

    /// Restricts the graph of a pipeline to the partition with this number.
    pub(super) fn restrict(&self, graph: &mut PipelineGraph, id: PipelineId, number: usize) {
        let partition = match &self.partitions {
            Partitions::Hashes(hashes) => Partition {
                buckets: Buckets::Hashes,
                range: hashes.ranges[number].buckets.clone(),
                most: hashes.most,
                slices: hashes.ranges[number].slices.clone(),
                numbered: hashes.numbered,
            },
            Partitions::Keys(keys) => {
                let (number, is_last) = (number as u32, number + 1 == keys.number as usize);
                Partition {
                    buckets: Buckets::Keys {
                        least: keys.least,
                        shift: keys.shift,
                    },
                    range: number..if is_last { BUCKETS } else { number + 1 },
                    most: 1 << keys.shift,
                    slices: Slices::default(),
                    numbered: [false; 2],
                }
            }
        };
        match self.state {
            PartitionedState::Pairs | PartitionedState::Groups | PartitionedState::Aggregate => {
                self.state.restrict(graph, id, &partition);
            }
            PartitionedState::Lookup(_) => {
                let joins = self.sides.iter().map(|side| PartitionedState::Lookup(*side));
                joins.for_each(|join| join.restrict(graph, id, &partition));
            }
        }
    }

    /// The number of partitions and the build sides, for EXPLAIN ANALYZE.
    pub(super) fn of_sides(&self) -> String {
        if self.state == PartitionedState::Aggregate {
            return format!("{} of the groups", self.number());
        }
        let sides: Vec<String> = self.sides.iter().map(|side| format!("d{side}")).collect();
        format!("{} of {}", self.number(), sides.join(" and "))
    }

    /// The size of a partition, for EXPLAIN ANALYZE.
    pub(super) fn sizes(&self) -> String {
        match &self.partitions {
            Partitions::Hashes(hashes) if self.state.is_of_groups() => {
                format!("{} rows, about {} groups at a time", hashes.rows, hashes.most)
            }
            Partitions::Hashes(hashes) => format!(
                "{} rows on the build side, {} at a time{}",
                hashes.rows,
                hashes.most,
                match hashes.slices() {
                    0 => String::new(),
                    slices => format!(", {slices} of them slices of rows with equal keys"),
                }
            ),
            Partitions::Keys(keys) => {
                format!("{} keys at a time, in the order of the key", 1u64 << keys.shift)
            }
        }
    }
}

impl Executor<'_> {
    /// The joins with a build side of more than `bytes` bytes, cut into partitions of at most that size. If
    /// there is no such join, the groups, or the join with the largest build side. `again`: an attempt with
    /// partitions has failed, so groups are partitioned even if a join is, too.
    pub(super) async fn cuts(
        &self,
        pipeline: PipelineRef<'_>,
        joins: &[PartitionedState],
        (bytes, again): (u64, bool),
    ) -> Result<Vec<Cut>, Failure> {
        let (mut cuts, mut refused) = (Vec::new(), None);
        for join in joins {
            // Another join may have the same key, and its partitions contain this build side.
            let is_cut =
                |cut: &Cut| matches!(join, PartitionedState::Lookup(side) if cut.sides.contains(side));
            if cuts.iter().any(is_cut) {
                continue;
            }
            match self.cut(pipeline, *join, bytes).await {
                Ok(cut) => cuts.push(cut),
                // Another build side may be the one that is too large.
                Err(failure) if failure.wants_memory() => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        let is_large = |cut: &Cut| cut.number() > 1;
        let groups = PartitionedState::of_groups(pipeline);
        if let Some(groups) = groups.filter(|_| again || !cuts.iter().any(is_large)) {
            match self.by_groups(pipeline, groups, bytes).await {
                Ok(cut) => cuts.push(cut),
                Err(failure) if failure.wants_memory() => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        if cuts.iter().any(is_large) {
            cuts.retain(|cut| is_large(cut) || cut.is_whole());
        }
        // The partitions of the first one change last. These are groups, because rows of all partitions of
        // the joins fill their table. Ranges of a key change fastest: a range reads only its own chunks, but
        // a range of hashes reads the whole build side.
        let is_pruned = |cut: &Cut| matches!(cut.partitions, Partitions::Keys(_));
        cuts.sort_by_key(|cut| (!cut.state.is_of_groups(), is_pruned(cut)));
        match refused {
            Some(failure) if cuts.is_empty() => Err(failure),
            _ => Ok(cuts),
        }
    }

    /// Partitions groups by the hash of their keys.
    async fn by_groups(
        &self,
        pipeline: PipelineRef<'_>,
        state: PartitionedState,
        bytes: u64,
    ) -> Result<Cut, Failure> {
        let grouped = state.grouped(pipeline);
        let Some((grouped, key)) = grouped.and_then(|grouped| Some((grouped, grouped.plan.group_key()?)))
        else {
            unreachable!("groups that are computed in partitions have keys");
        };
        let counting = counting_groups(grouped, &key);
        let batches = self
            .counted(counting.pipeline(grouped.id()), &grouped.counts)
            .await?;
        let (mut rows, mut least) = (0, Vec::new());
        for batch in &batches {
            let buckets = batch.column(0).as_primitive::<Int32Type>().values();
            rows += sum(batch.column(1).as_primitive::<Int64Type>()).unwrap_or(0) as u64;
            let hashes = batch.column(2).as_primitive::<Int64Type>().values();
            least.extend(zip(buckets, hashes).map(|(bucket, least)| (*bucket as u32, *least)));
        }
        let groups = estimated_groups(least.into_iter()).min(rows);
        let most = groups_in(&grouped.plan.sink, bytes);
        let number = groups.div_ceil(most).max(1);
        if number > u64::from(BUCKETS) {
            return Err(self.too_many(groups, bytes, slot_bytes(&grouped.plan.sink)));
        }
        let first = |number_of: u64| (number_of * u64::from(BUCKETS) / number) as u32;
        Ok(Cut {
            state,
            sides: match state {
                PartitionedState::Groups => vec![pipeline.row_sides.start],
                _ => Vec::new(),
            },
            partitions: Partitions::Hashes(HashPartitions {
                ranges: (0..number)
                    .map(|part| HashRange::whole(first(part)..first(part + 1)))
                    .collect(),
                equal: None,
                most: groups.div_ceil(number),
                rows,
                scanned: rows,
                numbered: [false; 2],
            }),
        })
    }

    /// Partitions a join by the key if rows are in its order, else by its hash.
    async fn cut(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedState,
        bytes: u64,
    ) -> Result<Cut, Failure> {
        let Some((sides, keys)) = self.by_keys(pipeline, join, bytes).await? else {
            return self.by_hashes(pipeline, join, bytes).await;
        };
        let keys = Cut {
            state: join,
            sides,
            partitions: Partitions::Keys(keys),
        };
        let build = join.build(pipeline);
        if build.is_none_or(|build| matches!(build.plan.sink, SinkPlan::BuildGroups { .. })) {
            return Ok(keys);
        }
        let is_triton = self.config.join_algorithm == JoinAlgorithm::Triton;
        let is_filtered = build.is_some_and(|build| !build.plan.filters.is_empty());
        // Rows that probe in another order than the key are read once per partition, unless each side is
        // partitioned once.
        let is_ordered = self.probes_in_order(pipeline, join).await?;
        if is_ordered && !is_filtered && !is_triton {
            return Ok(keys);
        }
        let hashes = match self.by_hashes(pipeline, join, bytes).await {
            Err(failure) if failure.wants_memory() => return Ok(keys),
            hashes => hashes?,
        };
        let fits = hashes.number() == 1;
        let partitions_once = || !is_ordered && self.triton_plan(pipeline, &hashes, bytes).is_some();
        Ok(match is_triton || fits || partitions_once() {
            true => hashes,
            false => keys,
        })
    }

    /// Partitions by the hash of the key: each consists of the maximum number of consecutive buckets, of
    /// 4096, that fit together.
    async fn by_hashes(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedState,
        bytes: u64,
    ) -> Result<Cut, Failure> {
        let (Some(build), Some([own, met])) = (join.build(pipeline), join.keys(pipeline)) else {
            unreachable!("a join that runs in parts has keys");
        };
        if matches!(build.plan.sink, SinkPlan::BuildGroups { .. }) {
            // Arrays by key have an entry for each key of the range.
            return Err(self.too_many(build.rows.unwrap_or(0), bytes, key_bytes(&build.plan.sink)));
        }
        let sink = &build.plan.sink;
        let own_key = (own, spreads(sink, &build.source));
        let mut build_rows = self
            .rows_by_hash(build, &build.plan.filters, own_key, &pipeline.counts)
            .await?;
        let probe_rows = match join.probe(pipeline) {
            None => Vec::new(),
            Some((probe, side)) => {
                // Without the filters that use the build side: these can only reduce the rows.
                let filters = &probe.plan.filters[..probe.plan.filters_before(side)];
                // The build side does not exist yet, either.
                let nothing = PartitionedState::Lookup(side).without(probe);
                let probe = nothing.pipeline(probe.id());
                let key = (met, spreads(sink, &probe.source));
                self.rows_by_hash(probe, filters, key, &pipeline.counts).await?
            }
        };
        let most = rows_in(bytes, row_bytes(&build.plan.sink));
        let most = match key_in_groups(build, own) {
            Some((groups, _)) => most.min(rows_in(groups_in(&groups.plan.sink, bytes), 1)),
            None => most,
        };
        let rows: u64 = build_rows.iter().sum();
        let takes_slot_per_key = match build.plan.sink {
            // A repeated key is refused.
            SinkPlan::Build { unique: true, .. } => rows / u64::from(BUCKETS) <= most,
            SinkPlan::Build { .. } => true,
            _ => false,
        };
        if takes_slot_per_key && key_in_groups(build, own).is_none() {
            // A bucket of more rows has equal keys. If it does not, its table of keys is full, and the run
            // fails.
            build_rows.iter_mut().for_each(|rows| *rows = (*rows).min(most));
        }
        let probe_most = join
            .probe(pipeline)
            .map_or(u64::MAX, |(probe, _)| bytes / row_bytes(&probe.plan.sink));
        let sides = BucketRows {
            rows: [&build_rows, &probe_rows],
            most: [most, probe_most],
            may_slice: join.slices(pipeline),
            pairs: match join.marks_matches(pipeline) {
                true => bytes.saturating_mul(8),
                false => u64::MAX,
            },
        };
        let too_many = |rows| self.too_many(rows, bytes, row_bytes(&build.plan.sink));
        let (ranges, pairs) = sides.ranges().map_err(too_many)?;
        let [keeps_probe, keeps_build] = join.preserved(pipeline);
        // In an outer join with conditions, each match has a bit, and a heavy key has too many matches.
        let may_divide = join == PartitionedState::Pairs && !join.marks_matches(pipeline);
        let build_side = RangedSide {
            rows: &build_rows,
            // Both sides of a multimap join are on the device, with rows of the next partition.
            most: match join {
                PartitionedState::Pairs => most / 2,
                _ => most,
            },
            may_divide,
            is_preserved: keeps_build,
        };
        let probe_side = RangedSide {
            rows: &probe_rows,
            most: match join {
                PartitionedState::Pairs => probe_most / 2,
                _ => u64::MAX,
            },
            may_divide,
            is_preserved: keeps_probe,
        };
        let are_sliced = |of: fn(&Slices) -> bool| ranges.iter().any(|range| of(&range.slices));
        let numbered = [
            keeps_probe && are_sliced(|slices| slices.build.is_some()),
            keeps_build && are_sliced(|slices| slices.probe.is_some()),
        ];
        Ok(Cut {
            state: join,
            sides: vec![match join {
                PartitionedState::Lookup(side) => side,
                _ => pipeline.row_sides.start,
            }],
            partitions: Partitions::Hashes(HashPartitions {
                equal: EqualRanges::of(build_side, probe_side),
                ranges,
                most,
                rows,
                scanned: pairs.min(MAX_PAIRS),
                numbered,
            }),
        })
    }

    /// The failure of a partition that has too many rows.
    fn too_many(&self, rows: u64, bytes: u64, row_bytes: u64) -> Failure {
        let limit = self.memory_limit();
        Failure::Run(RunError::Memory {
            what: "rows of one partition, most of them with equal keys,",
            needed: rows.saturating_mul(row_bytes),
            available: bytes,
            limit,
            query: Box::default(),
            lower: None,
        })
    }
}
