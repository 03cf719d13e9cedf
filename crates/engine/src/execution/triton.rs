//! The Triton join: an out-of-core join that reads each side once, and its keys twice more to count rows.
//! Both sides are partitioned by the hash of the key, and then joined partition by partition (Lutz 2022,
//! §4.4).
//!
//! ```text
//! build side ── batches of chunks ── rows in the order of their partition ──► regions of batch 0, 1, 2, ...
//! probe side ── batches of chunks ── rows in the order of their partition ──► regions of batch 0, 1, 2, ...
//!
//! for each partition:   its rows of all batches, build side ── table ──┐
//!                       its rows of all batches, probe side ── probe ──┴── the sink, which is carried to the next partition
//! ```
//!
//! The memory manager evicts the regions of batches like other working memory: the last batches stay on the
//! device, the earlier ones move to the host by large copies. So every partition has rows on both, and the
//! link and device memory are used together in every step: this is the interleaved cache of the paper
//! (§4.4.3). The rows of a partition are copied next to each other. The copies of the next rows are queued
//! before the kernels over the current ones run. A partition of the probe side that exceeds its share of
//! memory is read in pieces.

use super::cut::{Cut, HashPartitions, Partitions};
use super::error::Failure;
use super::executor::{Executor, Work, chunks, of_side};
use super::gathered::{Gathered, PartitionedSide, Piece, Pieces, rows_of};
use super::hash_ranges::EqualRanges;
use super::part_runs::PartRuns;
use super::parts::Parts;
use super::pipeline_run::{Output, Run};
use crate::config::JoinAlgorithm;
use crate::device::RunError;
use crate::graph::PipelineRef;
use crate::joins::build_table::{BuiltTable, SideRows};
use crate::joins::costs::PartitionedBytes;
use crate::joins::out_of_core::{PartitionedState, TritonPlan};
use crate::report::RunReport;
use datafusion::common::human_readable_size;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bound::ResultPlan;
use galatea_codegen::build_plan::PartitionPlan;
use parking_lot::Mutex;
use std::iter::zip;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A partitioned batch of a side.
struct Batch {
    /// Its number among those of the side.
    number: usize,
    table: BuiltTable,
    report: RunReport,
}

/// The batches of a side that are not partitioned yet.
#[derive(Debug, Default)]
struct BatchQueue {
    /// The number of the next batch.
    next: AtomicUsize,
    /// Batches that have lacked memory beside others.
    without_memory: Mutex<Vec<usize>>,
}

/// Divisor of the memory of a partition: the rows that are read at once may use the quotient. The rows after
/// them, which are copied in the meantime, use the same amount.
pub(super) const PIECES: u64 = 2;

/// Partitioned rows; `None` if they cannot be stored, or do not fit. They are then read once per partition,
/// which needs no memory for partitioned rows, nor columns that can be stored.
pub(super) fn if_stored<T>(partitioned: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match partitioned {
        Ok(rows) => Ok(Some(rows)),
        Err(Failure::Run(RunError::Unsupported(_))) => Ok(None),
        Err(failure) if failure.wants_memory() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The pipeline of the probe side of a partitioned join, and the number of the build side there.
pub(super) fn joined<'g>(pipeline: PipelineRef<'g>, cut: &Cut) -> (PipelineRef<'g>, usize) {
    let Some(joined) = cut.state.met(pipeline) else {
        unreachable!("a partitioned join has a probe side");
    };
    joined
}

impl Executor<'_> {
    /// Partitions both sides of a join once, and runs the pipeline over the partitions. Returns `None` if
    /// both sides are to be read once per partition instead: by the setting, by predicted times, or because
    /// rows cannot be stored or do not fit.
    pub(super) async fn by_triton(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cut: &Cut,
        parts: Parts,
    ) -> Result<Option<(Output, RunReport)>, Failure> {
        let memory = parts.memory.bytes;
        if cut.state.is_of_groups() {
            return self.groups_by_triton(pipeline, keep, cut, parts).await;
        }
        let Some((hashes, ranges, plan)) = self.triton_plan(pipeline, cut, memory) else {
            return Ok(None);
        };
        let started = Instant::now();
        let before = self.spilled();
        let rows_of_sink = self.rows_of_sink(pipeline, cut).await?;
        let Some(sides) = if_stored(self.partition(pipeline, cut, &plan, memory).await)? else {
            return Ok(None);
        };
        let (number, batches) = (
            sides[0].plan.parts,
            sides.each_ref().map(|side| side.batches.len()),
        );
        let partitioned = sides.each_ref().map(|side| side.elapsed);
        let columns: u64 = sides.iter().map(|side| side.report.link_bytes).sum();
        let joining = Instant::now();
        let (output, mut report) = match cut.state {
            PartitionedState::Pairs => {
                self.join_pairs(pipeline, keep, (cut, ranges, &plan), sides, (parts, rows_of_sink))
                    .await?
            }
            _ => {
                self.join_partitions(pipeline, keep, (cut, &plan), sides, parts)
                    .await?
            }
        };
        report.total = started.elapsed();
        let divided = match ranges.joins {
            joins if joins > number.into() => format!(", {joins} joins because of rows with equal keys"),
            _ => String::new(),
        };
        report.partitions = Some(format!(
            "{number} of d{}, sides partitioned once, in {} and {} batches: {} rows on the build side, at most {} at a time{}; \
             partitioned in {:.0?} and {:.0?}, joined in {:.0?}; {}; {}",
            cut.side(),
            batches[0],
            batches[1],
            hashes.rows,
            hashes.most,
            divided,
            partitioned[0],
            partitioned[1],
            joining.elapsed(),
            self.spilled_since(before),
            self.link_share(columns + self.read_back_since(before), report.total),
        ));
        Ok(Some((output, report)))
    }

    /// The bytes that were read over the link in this time, and their share of its rate.
    fn link_share(&self, bytes: u64, time: Duration) -> String {
        let device = self.session.engine().opened(self.config);
        let link = device.map_or(f64::INFINITY, |device| device.link_rate());
        let share = bytes as f64 / time.as_secs_f64() / link;
        let read = human_readable_size(usize::try_from(bytes).unwrap_or(usize::MAX));
        format!("{read} read over the link, {:.0} % of its rate", share * 100.0)
    }

    /// The plan of a join as a Triton join with `memory` bytes for a partition, and its partitions. `None` if
    /// the join cannot be one, or by the setting, or if it is predicted to be slower.
    pub(super) fn triton_plan<'c>(
        &self,
        pipeline: PipelineRef<'_>,
        cut: &'c Cut,
        memory: u64,
    ) -> Option<(&'c HashPartitions, EqualRanges, TritonPlan)> {
        let Partitions::Hashes(hashes) = &cut.partitions else {
            return None;
        };
        let ranges = hashes.equal?;
        let is_chosen = |plan: &TritonPlan| match self.config.join_algorithm {
            JoinAlgorithm::Multipass => false,
            JoinAlgorithm::Triton => true,
            _ => {
                let probe = cut.state.met(pipeline).map_or(pipeline, |(probe, _)| probe);
                self.triton_is_faster(probe, (hashes, ranges), plan, memory)
            }
        };
        let plan = cut
            .state
            .triton(pipeline, (ranges.number, ranges.numbered), hashes.most);
        plan.filter(is_chosen).map(|plan| (hashes, ranges, plan))
    }

    /// Whether partitioning the build side of a join and its `probe` side once, in these ranges and in
    /// batches of `memory` bytes, is predicted to take less time than reading them once per partition.
    fn triton_is_faster(
        &self,
        probe: PipelineRef<'_>,
        (cut, ranges): (&HashPartitions, EqualRanges),
        plan: &TritonPlan,
        memory: u64,
    ) -> bool {
        let rows = [cut.rows, probe.rows.unwrap_or(cut.rows)];
        let bytes = zip(rows, plan.row_bytes()).map(|(rows, row)| rows.saturating_mul(row));
        let bytes: Vec<u64> = bytes.collect();
        let stored = PartitionedBytes {
            sides: &bytes,
            columns: plan.columns(),
            partitions: ranges.number,
            runs: 2 * ranges.joins,
            memory,
        };
        self.once_is_faster(&stored, cut.ranges.len())
    }

    /// Whether storing rows once in partitions is predicted to take less time than reading them `reads`
    /// times.
    pub(super) fn once_is_faster(&self, rows: &PartitionedBytes<'_>, reads: usize) -> bool {
        let device = self.session.engine().opened(self.config);
        let link = device.map(|device| device.link_rate());
        link.is_some_and(|link| rows.stored_once(link) < rows.read_per_partition(reads, link))
    }

    /// Partitions both sides of a join: the build side, then the probe side. A batch of rows uses at most
    /// `bytes` bytes.
    async fn partition(
        &self,
        pipeline: PipelineRef<'_>,
        cut: &Cut,
        plans: &TritonPlan,
        bytes: u64,
    ) -> Result<[PartitionedSide; 2], Failure> {
        let (probe, side) = joined(pipeline, cut);
        let Some(build) = probe.build(side) else {
            unreachable!("a partitioned join has a build side");
        };
        let plan = build.plan.resolved().map_err(Failure::Input)?;
        let sides = self.sides_except(build, &plan, None).await?;
        let first = &plans.build.first;
        let build = self.partition_side(build, (&plan, first), sides, bytes).await?;
        let plan = probe.plan.resolved().map_err(Failure::Input)?;
        // The first pass does not look up the build side of the join.
        let sides = self.sides_except(probe, &plan, Some(side)).await?;
        let first = &plans.probe.first;
        let probe = self.partition_side(probe, (&plan, first), sides, bytes).await?;
        Ok([build, probe])
    }

    /// The build sides that the plan of a pipeline looks up, one after another, without the one with the
    /// number `except`.
    pub(super) async fn sides_except(
        &self,
        pipeline: PipelineRef<'_>,
        plan: &PipelinePlan,
        except: Option<usize>,
    ) -> Result<Vec<SideRows>, Failure> {
        let mut sides = Vec::new();
        for number in 0..pipeline.build_sides.len() {
            sides.push(match except == Some(number) {
                true => SideRows::not_built(),
                false => self.side(pipeline, number, plan.lookups_of(number)).await?,
            });
        }
        Ok(sides)
    }

    /// Partitions the rows of a pipeline by the plan `first`, which reads the columns of `plan`.
    pub(super) async fn partition_side(
        &self,
        pipeline: PipelineRef<'_>,
        (plan, first): (&PipelinePlan, &PipelinePlan),
        sides: Vec<SideRows>,
        bytes: u64,
    ) -> Result<PartitionedSide, Failure> {
        let matches = pipeline.match_bounds(plan, |number| sides.get(number)?.key_range());
        let view = self.view(pipeline, plan, &[], Some(&matches)).await?;
        let work = Work {
            pipeline: pipeline.id(),
            chunks: chunks(&pipeline, plan, &view, &matches),
            fetch: None,
            plan: first.clone(),
            view,
            keep: false,
        };
        let started = Instant::now();
        let partitioned = Arc::new(Mutex::new(None));
        let into = Arc::clone(&partitioned);
        let (_, report, sides) = self
            .launch(work, move |run| {
                let (plan, batches, report) = Run {
                    sides: &sides,
                    ..*run
                }
                .partition(bytes)?;
                *into.lock() = Some((plan, batches));
                Ok((Output::Returned(0), report, sides))
            })
            .await?;
        let Some((plan, batches)) = partitioned.lock().take() else {
            unreachable!("a run that ended leaves its batches");
        };
        Ok(PartitionedSide {
            rows: batches.iter().map(|batch| batch.rows).sum(),
            batches: Arc::new(batches),
            plan,
            report,
            elapsed: started.elapsed(),
            sides,
        })
    }

    /// The copies of the pieces of all partitions, in the order of their use.
    pub(super) fn copies<const SIDES: usize>(
        &self,
        partitioned: &[PartitionedSide; SIDES],
        pieces: Vec<[Vec<Piece>; SIDES]>,
    ) -> Result<Pieces, Failure> {
        let with_side =
            |(side, pieces): (usize, Vec<Piece>)| pieces.into_iter().map(move |piece| (side, piece));
        let sides = pieces.into_iter().flat_map(|sides| sides.into_iter().enumerate());
        let left = sides.flat_map(with_side).collect();
        let runtime = self.session.engine().device(self.config);
        let runtime = runtime.map_err(RunError::Unsupported)?;
        let priority = self.config.priority.of_stream(false);
        let streams = runtime.take_streams(priority).map_err(RunError::from)?;
        Ok(Pieces::new(runtime, streams, partitioned, left))
    }

    /// Joins partitioned sides whose build keys are unique.
    async fn join_partitions(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        (cut, plan): (&Cut, &TritonPlan),
        partitioned: [PartitionedSide; 2],
        parts: Parts,
    ) -> Result<(Output, RunReport), Failure> {
        let Some(build) = cut.state.build(pipeline) else {
            unreachable!("a partitioned join has a build side");
        };
        let number = partitioned[0].plan.parts as usize;
        let bytes = parts.memory.bytes / PIECES;
        let pieces: Vec<[Vec<Piece>; 2]> = (0..number)
            .map(|partition| partitioned.each_ref().map(|side| side.pieces(partition, bytes)))
            .collect();
        let numbers: Vec<[usize; 2]> = pieces
            .iter()
            .map(|sides| sides.each_ref().map(Vec::len))
            .collect();
        let own_rows: Vec<u64> = pieces.iter().map(|[own, _]| rows_of(own)).collect();
        let mut queue = self.copies(&partitioned, pieces)?;
        let [own, mut probe] = partitioned;
        let mut sides = std::mem::take(&mut probe.sides);
        let mut runs = PartRuns::new(parts.begun_again, probe.rows);
        let mut built_in: Option<RunReport> = None;
        for (partition, [own_pieces, probe_pieces]) in numbers.into_iter().enumerate() {
            // The memory of the previous build side is freed before the next one is built.
            sides[cut.side()] = SideRows::not_built();
            let mut building = PartRuns::new(parts.begun_again, own_rows[partition]);
            for piece in 1..=own_pieces {
                let gathered = queue.next().await?;
                let work = (build, plan.build.second.clone(), None, true);
                let last = piece == own_pieces;
                self.run_piece(&mut building, work, (gathered, own.rows), &mut Vec::new(), last)
                    .await
                    .map_err(|failure| of_side(&pipeline.build_sides[cut.side()], failure))?;
            }
            sides[cut.side()] = SideRows::built(building.into_table(&mut built_in, &mut []));
            for piece in 1..=probe_pieces {
                let gathered = queue.next().await?;
                let fetch = runs.left(pipeline.fetch);
                let work = (pipeline, plan.probe.second.clone(), fetch, keep);
                let last = partition + 1 == number && piece == probe_pieces;
                self.run_piece(&mut runs, work, (gathered, probe.rows), &mut sides, last)
                    .await?;
            }
            [&own, &probe]
                .into_iter()
                .for_each(|side| side.discard(partition));
            if runs.left(pipeline.fetch) == Some(0) {
                break;
            }
        }
        if let Some(report) = built_in {
            self.builds.lock().push(report.of_partitions(own.report));
        }
        let (output, mut report) = runs.finish();
        report.link_bytes += queue.finish();
        let report = report.of_sides(pipeline.build_sides.len());
        Ok((output.joined(&mut sides), report.of_partitions(probe.report)))
    }

    /// Runs a plan of a pipeline over rows of a partition, which are its last build side.
    pub(super) async fn run_piece(
        &self,
        runs: &mut PartRuns,
        (pipeline, plan, fetch, keep): (PipelineRef<'_>, PipelinePlan, Option<u64>, bool),
        (gathered, all): (Gathered, u64),
        sides: &mut Vec<SideRows>,
        is_last: bool,
    ) -> Result<(), Failure> {
        let (view, chunks) = gathered.view(all)?;
        let work = Work {
            pipeline: pipeline.id(),
            chunks,
            fetch,
            plan,
            view,
            keep,
        };
        let mut own = std::mem::take(sides);
        own.push(SideRows::built(gathered.table));
        *sides = self.run_part(runs, work, own, is_last).await?;
        sides.pop();
        Ok(())
    }
}

impl Run<'_> {
    /// Partitions the rows in batches, of which several run at the same time and together use at most `bytes`
    /// bytes.
    fn partition(&self, bytes: u64) -> Result<(PartitionPlan, Vec<BuiltTable>, RunReport), RunError> {
        let plan = match self.result_of(self.plan).map_err(RunError::Unsupported)? {
            (ResultPlan::Partition(plan), _) => plan,
            (other, _) => unreachable!("{other:?} of a plan that partitions rows"),
        };
        let lanes = self.config.join_batches.0;
        let batches = self.batches(&plan, bytes / lanes);
        let lanes = (lanes as usize).min(batches.len());
        let left = BatchQueue::default();
        let runtime = tokio::runtime::Handle::try_current().ok();
        let lane = || {
            let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
            self.partition_from(&left, &batches)
        };
        let outcomes = thread::scope(|scope| {
            let others: Vec<_> = (1..lanes).map(|_| scope.spawn(lane)).collect();
            let own = lane();
            let joined = others.into_iter().map(|other| match other.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            [own].into_iter().chain(joined).collect::<Result<Vec<_>, _>>()
        })?;
        let mut outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        // Batches that have lacked memory beside others run alone.
        for number in left.without_memory.into_inner() {
            outcomes.push(self.partition_batch(number, &batches[number])?);
        }
        outcomes.sort_unstable_by_key(|batch| batch.number);
        let mut tables = Vec::with_capacity(outcomes.len());
        let mut total: Option<RunReport> = None;
        for Batch { table, report, .. } in outcomes {
            tables.push(table);
            match &mut total {
                Some(total) => {
                    total.add(&report);
                    total.total += report.total;
                    total.rows_passed += report.rows_passed;
                }
                None => total = Some(report),
            }
        }
        let report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            ..total.unwrap_or_default()
        };
        Ok((plan, tables, report))
    }

    /// Partitions batches from the queue, one after another, until none is left or one has failed.
    fn partition_from(&self, left: &BatchQueue, batches: &[Vec<usize>]) -> Result<Vec<Batch>, RunError> {
        let mut done = Vec::new();
        loop {
            let number = left.next.fetch_add(1, Ordering::Relaxed);
            let Some(chunks) = batches.get(number) else {
                return Ok(done);
            };
            match self.partition_batch(number, chunks) {
                Ok(batch) => done.push(batch),
                Err(error) if error.wants_memory() => left.without_memory.lock().push(number),
                Err(error) => {
                    left.next.store(batches.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }

    fn partition_batch(&self, number: usize, chunks: &[usize]) -> Result<Batch, RunError> {
        let (output, report) = Run { chunks, ..*self }.execute()?;
        let Output::Built(table) = output else {
            unreachable!("partitions stay on the device");
        };
        Ok(Batch {
            number,
            table: *table,
            report,
        })
    }

    /// The scanned chunks in batches with rows of at most `bytes` bytes; one batch at least, and one chunk
    /// per batch at least.
    fn batches(&self, plan: &PartitionPlan, bytes: u64) -> Vec<Vec<usize>> {
        let mut batches = vec![Vec::new()];
        let mut held = 0;
        for chunk in self.chunks {
            let own = plan.bytes(u64::from(self.view.chunk_rows[*chunk]));
            if held > 0 && held + own > bytes {
                batches.push(Vec::new());
                held = 0;
            }
            held += own;
            if let Some(batch) = batches.last_mut() {
                batch.push(*chunk);
            }
        }
        batches
    }
}
