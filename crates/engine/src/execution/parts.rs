//! Joins with a build side that does not fit device memory run one partition at a time.
//!
//! If that is predicted to be faster and rows can be stored, both sides are partitioned first
//! (`exchange.rs`). The other runs read both sides once per partition:
//!
//! ```text
//! build side    rows by the hash of their key, counted ── ranges of hashes with rows that fit
//!
//! for each range:   build side    the rows within ── table ──┐
//!                   rows          those within ── probe it ──┴── the sink, which is carried from partition to partition
//! ```
//!
//! Rows of equal keys are in one partition, so every kind of join is correct: a row without a match in its
//! partition has no match at all. Both sides are read once per partition, from their location: columns stream
//! from host memory, and results of other pipelines on the device are working regions, which move to the host
//! and back. So does the sink between two partitions, while the next build side is computed. The key tables
//! of all partitions have one size, so all partitions use one kernel. Rows that are returned need no sink
//! that is carried over: they are returned partition by partition.
//!
//! If a pipeline has two such joins, each partition of the larger build side is combined with each partition
//! of the other one, which is computed again each time.
//!
//! If the rows of a single key exceed the memory of a partition, the run fails for lack of memory and the
//! subtree runs on the CPU.

use super::attempt::Shrinking;
use super::error::Failure;
use super::executor::{Executor, MAX_PAIRS, Work, chunks, pairs_view};
use super::part_runs::PartRuns;
use super::pipeline_run::Output;
use crate::config::Exchange as ExchangeChoice;
use crate::device::RunError;
use crate::graph::{Pipeline, PipelineGraph, PipelineRef};
use crate::joins::build_table::SideRows;
use crate::joins::out_of_core::{Exchange, PartitionedJoin, counting, row_bytes, spreads};
use crate::report::RunReport;
use crate::results::queue::ResultQueue;
use arrow::array::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use galatea_base::policy::policy;
use galatea_base::reason::size;
use galatea_expression::{BUCKETS, Expr};
use galatea_store::TableView;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

policy! {
    /// Joins that run one partition at a time.
    pub(super) struct PartPolicy {
        /// Divisor of device memory: the build side and the probe side of a partition may each use the
        /// quotient.
        memory: u64 = 4,
        /// Divisor of that memory after an attempt that failed for lack of memory.
        less: u64 = 4,
        /// Maximum number of partitioned attempts.
        tries: u32 = 3,
        /// Maximum number of partitioned joins of a pipeline: those with the largest build sides.
        joins: usize = 2,
        /// Seconds of a run besides transfers: admission, arguments, launches, reading of counters
        /// (`bench/results/2026-11-27-nvidia-h100/exchange.txt`).
        run: f64 = 2.4e-3,
        /// Bytes of a packed row over the link, relative to those of a stored one. Stored rows are not
        /// packed.
        packed: f64 = 0.2,
    }
}

pub(super) const POLICY: PartPolicy = PartPolicy::DEFAULT;

/// Maximum number of partitions that a kernel writes (`partition.cuh`).
const MAX_PARTITIONS: u32 = 256;

/// Parameters of a run with partitioned joins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// The memory that the build side of a partition may use.
    pub(super) memory: Shrinking,
    /// Number of times that the partitions were restarted with more memory for strings.
    pub(super) begun_again: u32,
    /// Whether partitioning was predicted, and no run over all rows has failed.
    pub(super) predicted: bool,
}

/// A join that runs one partition at a time.
pub(super) struct Cut {
    pub(super) join: PartitionedJoin,
    /// The number of its build side, or of its pairs, among the build sides of the pipeline.
    pub(super) side: usize,
    /// The partitions, each a range of hash buckets.
    ranges: Vec<Range<u32>>,
    /// The least number of equal ranges of hashes that fit, a power of two; `None` if there are too many.
    equal: Option<u32>,
    /// Maximum number of build rows in a partition.
    most: u64,
    /// Number of build rows.
    rows: u64,
    /// Maximum number of pairs, including rows without a match.
    pairs: u64,
}

/// The least number of equal ranges of buckets with at most `most` rows each, a power of two up to
/// [`MAX_PARTITIONS`].
fn equal_ranges(rows: &[u64], most: u64) -> Option<u32> {
    let fits = |number: u32| {
        let mut ranges = rows.chunks(rows.len().div_ceil(number as usize).max(1));
        ranges.all(|range| range.iter().sum::<u64>() <= most)
    };
    (1..=MAX_PARTITIONS.ilog2())
        .map(|bits| 1 << bits)
        .find(|number| fits(*number))
}

/// The graph without the order of this pipeline's rows.
fn unsorted(pipeline: PipelineRef<'_>) -> PipelineGraph {
    let mut graph = pipeline.graph().clone();
    graph.pipeline_mut(pipeline.id()).unsort();
    graph
}

/// The partition of each join in the combination with this number. Partitions of the last join change
/// fastest.
fn combination(cuts: &[Cut], number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut parts = vec![0; cuts.len()];
    for (cut, part) in cuts.iter().zip(&mut parts).rev() {
        *part = rest % cut.ranges.len();
        rest /= cut.ranges.len();
    }
    parts
}

impl Executor<'_> {
    /// Runs a pipeline with partitioned joins.
    pub(super) async fn in_parts(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        parts: Parts,
    ) -> Result<(Output, RunReport), Failure> {
        let mut joins = PartitionedJoin::of(pipeline);
        joins.truncate(POLICY.joins);
        // Drops the views that the failed attempt loaded, and the reports of its pipelines.
        let (id, below) = (pipeline.id(), pipeline.with_below());
        (self.ready.lock().views).retain(|pipeline, _| !below.contains(pipeline));
        (self.builds.lock()).retain(|build| build.pipeline == id || !below.contains(&build.pipeline));
        let cuts = self.cuts(pipeline, &joins, parts.memory.bytes).await?;
        // An operator above restores the order.
        let unsorted = pipeline.top().map(|_| unsorted(pipeline));
        let pipeline = unsorted
            .as_ref()
            .map_or(pipeline, |graph| graph.pipeline(pipeline.id()));
        if let [cut] = &*cuts
            && let Some(done) = self.by_exchange(pipeline, keep, cut, parts).await?
        {
            return Ok(done);
        }
        self.by_parts(pipeline, keep, &cuts, parts.begun_again).await
    }

    /// Partitions both sides of a join once, and runs the pipeline over the partitions. Returns `None` if both
    /// sides are to be read once per partition instead: by the setting, by predicted times, or because rows
    /// cannot be stored or do not fit.
    async fn by_exchange(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cut: &Cut,
        parts: Parts,
    ) -> Result<Option<(Output, RunReport)>, Failure> {
        let Some(number) = cut.equal.filter(|_| self.config.exchange != ExchangeChoice::Off) else {
            return Ok(None);
        };
        let Some(exchange) = cut.join.exchange(pipeline, number, cut.most) else {
            return Ok(None);
        };
        let is_faster = || self.exchange_is_faster(pipeline, cut, number, &exchange, parts.memory.bytes);
        if self.config.exchange == ExchangeChoice::Auto && !is_faster() {
            return Ok(None);
        }
        let started = Instant::now();
        let before = self.spilled();
        let sides = match self.exchange(pipeline, cut, &exchange, parts.memory.bytes).await {
            Ok(sides) => sides,
            // Reading the sides again needs no memory for partitioned rows, nor columns that can be stored.
            Err(Failure::Run(RunError::Unsupported(_))) => return Ok(None),
            Err(failure) if failure.wants_memory() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let join = (cut, &exchange);
        let (output, mut report) = self
            .join_exchanged(pipeline, keep, join, sides, parts.begun_again)
            .await?;
        report.total = started.elapsed();
        report.partitions = Some(format!(
            "{number} of d{}, sides partitioned once: {} rows on the build side, at most {} per partition; {} spilled",
            cut.side,
            cut.rows,
            cut.most,
            size(self.spilled().saturating_sub(before))
        ));
        Ok(Some((output, report)))
    }

    /// Whether partitioning both sides of a join once, in `number` partitions and in batches of `memory`
    /// bytes, is predicted to take less time than reading them once per partition.
    fn exchange_is_faster(
        &self,
        pipeline: PipelineRef<'_>,
        cut: &Cut,
        number: u32,
        exchange: &Exchange,
        memory: u64,
    ) -> bool {
        let Some(device) = self.session.engine().opened(self.config) else {
            return false;
        };
        let rows = [cut.rows, pipeline.rows.unwrap_or(cut.rows)];
        let bytes = std::iter::zip(rows, exchange.row_bytes()).map(|(rows, row)| rows.saturating_mul(row));
        let bytes: Vec<u64> = bytes.collect();
        let batches: u64 = bytes.iter().map(|bytes| bytes.div_ceil(memory.max(1))).sum();
        let stored = bytes.iter().sum::<u64>() as f64 / device.link_rate();
        let read = POLICY.packed * stored;
        let reads = cut.ranges.len() as f64;
        let per_partition = reads * (read + 2.0 * POLICY.run);
        // Stored rows are spilled and read back.
        let once = read + 2.0 * stored + (1.0 + f64::from(number)) * batches as f64 * POLICY.run;
        once < per_partition
    }

    /// Number of bytes of working memory that the device has spilled so far.
    fn spilled(&self) -> u64 {
        let device = self.session.engine().opened(self.config);
        device.map_or(0, |device| {
            let counts = device.memory().spilled();
            counts.to_memory + counts.to_files
        })
    }

    /// The joins with a build side of more than `bytes` bytes, cut into partitions of at most that size. If
    /// there is no such join, the one with the largest build side.
    async fn cuts(
        &self,
        pipeline: PipelineRef<'_>,
        joins: &[PartitionedJoin],
        bytes: u64,
    ) -> Result<Vec<Cut>, Failure> {
        let (mut cuts, mut refused) = (Vec::new(), None);
        for join in joins {
            match self.parts(pipeline, *join, bytes).await {
                Ok(cut) => cuts.push(cut),
                // Another build side may be the one that is too large.
                Err(failure) if failure.wants_memory() => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        if cuts.iter().any(|cut| cut.ranges.len() > 1) {
            cuts.retain(|cut| cut.ranges.len() > 1);
        }
        match refused {
            Some(failure) if cuts.is_empty() => Err(failure),
            _ => Ok(cuts),
        }
    }

    /// Runs a pipeline over each partition of a join and, for each, over each partition of the next join. It
    /// was restarted `begun_again` times because memory for strings was insufficient.
    async fn by_parts(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cuts: &[Cut],
        begun_again: u32,
    ) -> Result<(Output, RunReport), Failure> {
        let started = Instant::now();
        let before = self.spilled();
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let is_cut = |number: usize| cuts.iter().any(|cut| cut.side == number);
        let mut sides: Vec<Option<SideRows>> = Vec::new();
        for number in 0..pipeline.build_sides.len() {
            sides.push(match is_cut(number) {
                true => None,
                false => Some(self.side(pipeline, number, plan.lookups_of(number)).await?),
            });
        }
        let pairs = cuts.iter().find(|cut| cut.join == PartitionedJoin::Pairs);
        let view = match pairs {
            Some(_) => None,
            None => {
                let rows = sides[pipeline.row_sides.clone()].iter().flatten();
                let rows: Vec<u64> = rows.map(SideRows::rows).collect();
                Some(self.view(pipeline, &plan, &rows).await?)
            }
        };
        let mut runs = PartRuns::new(begun_again);
        let all_parts: usize = cuts.iter().map(|cut| cut.ranges.len()).product();
        // The partitions of the current build sides.
        let mut made = Vec::new();
        for number in 0..all_parts {
            let parts = combination(cuts, number);
            for ((cut, part), made) in cuts.iter().zip(&parts).zip(&made) {
                // Its memory is freed before the build side of another partition is computed.
                if part != made {
                    sides[cut.side] = None;
                }
            }
            let mut graph = pipeline.graph().clone();
            for (cut, part) in cuts.iter().zip(&parts) {
                cut.join
                    .restrict(&mut graph, pipeline.id(), &cut.ranges[*part], cut.most);
            }
            let part = graph.pipeline(pipeline.id());
            made = parts;
            for cut in cuts {
                if sides[cut.side].is_none() {
                    let side = self.side(part, cut.side, plan.lookups_of(cut.side)).await?;
                    sides[cut.side] = Some(side);
                }
            }
            let view = match (
                &view,
                pairs.and_then(|cut| Some((cut, sides[cut.side].as_ref()?))),
            ) {
                (Some(view), _) => view.clone(),
                (None, Some((cut, of_part))) => TableView {
                    // The kernels of all partitions are bound to the same number of rows.
                    rows: cut.pairs,
                    ..pairs_view(of_part.rows()).map_err(Failure::Run)?
                },
                (None, None) => unreachable!("pairs that are cut are a build side"),
            };
            let plan = part.plan.resolved().map_err(Failure::Input)?;
            let work = Work {
                pipeline: part.id(),
                chunks: chunks(&part, &plan, &view),
                fetch: runs.left(part.fetch),
                plan,
                view,
                keep,
            };
            let last = number + 1 == all_parts;
            let back = self
                .run_part(&mut runs, work, sides.into_iter().flatten().collect(), last)
                .await?;
            sides = back.into_iter().map(Some).collect();
            if runs.left(pipeline.fetch) == Some(0) {
                break;
            }
        }
        let (output, mut report) = runs.finish();
        self.merge_builds();
        report.total = started.elapsed();
        let moved = self.spilled().saturating_sub(before);
        let told =
            |join: &str, of: &dyn Fn(&Cut) -> String| cuts.iter().map(of).collect::<Vec<_>>().join(join);
        report.partitions = Some(format!(
            "{}, one after another: {} rows on the build side, {} at a time; {} spilled",
            told(" by ", &|cut| format!("{} of d{}", cut.ranges.len(), cut.side)),
            told(" and ", &|cut| cut.rows.to_string()),
            told(" and ", &|cut| cut.most.to_string()),
            size(moved)
        ));
        Ok((output.joined(sides.into_iter().flatten().collect()), report))
    }

    /// Chooses the partitions: each consists of the maximum number of consecutive buckets, of 4096, that fit
    /// together.
    async fn parts(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedJoin,
        bytes: u64,
    ) -> Result<Cut, Failure> {
        let (Some(build), Some([own, met])) = (join.build(pipeline), join.keys(pipeline)) else {
            unreachable!("a join that runs in parts has keys");
        };
        let spreads = spreads(&build.plan.sink);
        let build_rows = self
            .rows_by_hash(build, &build.plan.filters, (own, spreads))
            .await?;
        let probe_rows = match join.probe(pipeline) {
            None => Vec::new(),
            Some((probe, side)) => {
                // Without the filters that use the build side: these can only reduce the rows.
                let filters = &probe.plan.filters[..probe.plan.filters_before(side)];
                // The build side does not exist yet, either.
                let nothing = PartitionedJoin::Lookup(side).without(probe);
                let probe = nothing.pipeline(probe.id());
                self.rows_by_hash(probe, filters, (met, spreads)).await?
            }
        };
        let most = bytes / row_bytes(&build.plan.sink);
        // A power of two needs no additional slots.
        let most = 1u64 << most.max(1).ilog2();
        let probe_most = join
            .probe(pipeline)
            .map_or(u64::MAX, |(probe, _)| bytes / row_bytes(&probe.plan.sink));
        let of = |rows: &[u64], part: usize| rows.get(part).copied().unwrap_or(0);
        let mut ranges = Vec::new();
        let (mut first, mut build_held, mut probe_held) = (0, 0, 0);
        let mut pairs = 0u64;
        for part in 0..BUCKETS as usize {
            let (own, others) = (of(&build_rows, part), of(&probe_rows, part));
            if own > most || others > probe_most {
                return Err(self.too_many(own.max(others), bytes, &build));
            }
            if build_held + own > most || probe_held + others > probe_most {
                ranges.push(first..part as u32);
                (first, build_held, probe_held) = (part as u32, 0, 0);
            }
            build_held += own;
            probe_held += others;
            let both = own.saturating_mul(others);
            pairs = pairs
                .saturating_add(both)
                .saturating_add(own)
                .saturating_add(others);
        }
        ranges.push(first..BUCKETS);
        Ok(Cut {
            equal: equal_ranges(&build_rows, most),
            join,
            side: match join {
                PartitionedJoin::Lookup(side) => side,
                PartitionedJoin::Pairs => pipeline.row_sides.start,
            },
            ranges,
            most,
            rows: build_rows.iter().sum(),
            pairs: pairs.min(MAX_PAIRS),
        })
    }

    /// The failure of a partition that has too many rows.
    fn too_many(&self, rows: u64, bytes: u64, build: &Pipeline) -> Failure {
        let limit = self.session.engine().device(self.config);
        let limit = limit.map_or(0, |device| device.device().budget().limit());
        Failure::Run(RunError::Memory {
            what: "rows of one part of a join, most of them with equal keys,",
            needed: rows.saturating_mul(row_bytes(&build.plan.sink)),
            available: bytes,
            limit,
            query: Box::default(),
            lower: None,
        })
    }

    /// Counts the rows of a pipeline that pass these filters by the hash bucket of their keys.
    async fn rows_by_hash(
        &self,
        pipeline: PipelineRef<'_>,
        filters: &[Expr],
        (key, spreads): (&Expr, bool),
    ) -> Result<Vec<u64>, Failure> {
        let queue = Arc::new(ResultQueue::whole());
        let executor = Executor {
            result: &queue,
            builds: Mutex::default(),
            ready: Arc::clone(&self.ready),
            cancelled: Arc::clone(&self.cancelled),
            ..*self
        };
        let counting = counting(pipeline, filters, key, spreads);
        executor.run(counting.pipeline(pipeline.id()), false).await?;
        let mut rows = vec![0; BUCKETS as usize];
        while let Some(batch) = queue.next() {
            let parts = batch.column(0).as_primitive::<Int32Type>().values();
            let counts = batch.column(1).as_primitive::<Int64Type>().values();
            for (part, count) in parts.iter().zip(counts) {
                rows[*part as usize] += *count as u64;
            }
        }
        Ok(rows)
    }

    /// Merges the reports of pipelines that ran once per partition.
    fn merge_builds(&self) {
        let mut builds = self.builds.lock();
        let mut merged: Vec<RunReport> = Vec::new();
        for report in builds.drain(..) {
            match merged.iter_mut().find(|known| known.pipeline == report.pipeline) {
                Some(known) => known.add_part(&report),
                None => merged.push(report),
            }
        }
        *builds = merged;
    }
}
