//! Groups that exceed device memory, with rows that are partitioned once by the hash of their keys, like the
//! sides of a Triton join.
//!
//! ```text
//! rows ── batches of chunks ── rows in the order of their partition ──► regions of batch 0, 1, 2, ...
//!
//! for each partition:   its rows of all batches ── groups ──┬── returned
//!                                                           └── rows of another pipeline ── its sink, which is carried on
//! ```

use super::cut::{Cut, Partitions};
use super::error::Failure;
use super::executor::Executor;
use super::gathered::{PartitionedSide, Pieces, rows_of};
use super::hash_ranges::MAX_PARTITIONS;
use super::part_runs::PartRuns;
use super::parts::{Parts, rows_of_part};
use super::pipeline_run::Output;
use super::triton::{PIECES, if_stored};
use crate::config::JoinAlgorithm;
use crate::graph::PipelineRef;
use crate::joins::build_table::SideRows;
use crate::joins::costs::PartitionedBytes;
use crate::joins::out_of_core::{PartitionedState, stored_columns, stored_row_bytes};
use crate::report::RunReport;
use galatea_codegen::PartitionPasses;
use std::time::Instant;

/// Rows in partitions, and the pipeline that computes their groups.
struct PartitionedGroups<'g> {
    grouped: PipelineRef<'g>,
    passes: PartitionPasses,
    rows: PartitionedSide,
    /// The number of pieces of each partition, and of their rows.
    pieces: Vec<(usize, u64)>,
    /// The copies of the pieces.
    queue: Pieces,
}

impl Executor<'_> {
    /// Partitions the rows of groups once, and computes the groups of one partition after another. Returns
    /// `None` if the rows are to be read once per partition instead: by the setting, by predicted times, or
    /// because rows cannot be stored or do not fit.
    pub(super) async fn groups_by_triton(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cut: &Cut,
        parts: Parts,
    ) -> Result<Option<(Output, RunReport)>, Failure> {
        let started = Instant::now();
        let before = self.spilled();
        let Some(mut groups) = self.partitioned_groups(pipeline, cut, parts).await? else {
            return Ok(None);
        };
        let (runs, mut sides) = match cut.state {
            PartitionedState::Groups => self.read_groups(pipeline, keep, cut, parts, &mut groups).await?,
            _ => (self.return_groups(parts, &mut groups).await?, Vec::new()),
        };
        let rows = groups.rows.rows;
        let (number, batches) = (groups.pieces.len(), groups.rows.batches.len());
        let (output, mut report) = runs.finish();
        report.link_bytes += groups.queue.finish();
        if cut.state == PartitionedState::Aggregate {
            report = report.of_partitions(groups.rows.report);
        }
        report.total = started.elapsed();
        report.partitions = Some(format!(
            "{number} of the groups, rows partitioned once, in {batches} batches: {rows} rows; {}",
            self.spilled_since(before)
        ));
        Ok(Some((output.joined(&mut sides), report)))
    }

    /// Partitions the rows of groups, if that is faster than reading them once per partition.
    async fn partitioned_groups<'g>(
        &self,
        pipeline: PipelineRef<'g>,
        cut: &Cut,
        parts: Parts,
    ) -> Result<Option<PartitionedGroups<'g>>, Failure> {
        let (Partitions::Hashes(hashes), Some(grouped)) = (&cut.partitions, cut.state.grouped(pipeline))
        else {
            return Ok(None);
        };
        let reads = cut.number();
        let number = u32::try_from(reads.next_power_of_two()).unwrap_or(u32::MAX);
        if number > MAX_PARTITIONS || self.config.join_algorithm == JoinAlgorithm::Multipass {
            return Ok(None);
        }
        let Some(passes) = cut.state.groups_in_two(pipeline, number) else {
            return Ok(None);
        };
        let memory = parts.memory.bytes;
        let bytes = hashes.rows.saturating_mul(stored_row_bytes(&passes));
        let stored = PartitionedBytes {
            sides: &[bytes],
            columns: stored_columns(&passes),
            partitions: number,
            runs: 2 * u64::from(number),
            memory,
        };
        let is_faster = || self.once_is_faster(&stored, reads);
        if self.config.join_algorithm != JoinAlgorithm::Triton && !is_faster() {
            return Ok(None);
        }
        let plan = grouped.plan.resolved().map_err(Failure::Input)?;
        let sides = self.sides_except(grouped, &plan, None).await?;
        let first = (&plan, &passes.first);
        let Some(rows) = if_stored(self.partition_side(grouped, first, sides, memory).await)? else {
            return Ok(None);
        };
        let number = rows.plan.parts as usize;
        let pieces: Vec<_> = (0..number)
            .map(|partition| [rows.pieces(partition, memory / PIECES)])
            .collect();
        let numbers = pieces.iter();
        let numbers = numbers.map(|[pieces]| (pieces.len(), rows_of(pieces))).collect();
        let partitioned = [rows];
        let queue = self.copies(&partitioned, pieces)?;
        let [rows] = partitioned;
        Ok(Some(PartitionedGroups {
            grouped,
            passes,
            rows,
            pieces: numbers,
            queue,
        }))
    }

    /// Computes the groups of a partition. `fetch`: the number of groups that are still returned. `keep`:
    /// they stay on the device.
    async fn group_partition(
        &self,
        runs: &mut PartRuns,
        groups: &mut PartitionedGroups<'_>,
        partition: usize,
        (fetch, keep): (Option<u64>, bool),
    ) -> Result<(), Failure> {
        let (pieces, rows) = groups.pieces[partition];
        runs.expect(rows);
        for piece in 1..=pieces {
            let gathered = groups.queue.next().await?;
            let work = (groups.grouped, groups.passes.second.clone(), fetch, keep);
            let rows = (gathered, groups.rows.rows);
            self.run_piece(runs, work, rows, &mut Vec::new(), piece == pieces)
                .await?;
        }
        groups.rows.discard(partition);
        Ok(())
    }

    /// Returns the groups of all partitions.
    async fn return_groups(
        &self,
        parts: Parts,
        groups: &mut PartitionedGroups<'_>,
    ) -> Result<PartRuns, Failure> {
        let mut runs = PartRuns::new(parts.begun_again, 0);
        let all = groups.grouped.fetch_in_any_order();
        for partition in 0..groups.pieces.len() {
            let fetch = runs.left(all);
            self.group_partition(&mut runs, groups, partition, (fetch, false))
                .await?;
            if runs.left(all) == Some(0) {
                break;
            }
        }
        Ok(runs)
    }

    /// Runs a pipeline over the groups of all partitions. Returns its build sides, too.
    async fn read_groups(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cut: &Cut,
        parts: Parts,
        groups: &mut PartitionedGroups<'_>,
    ) -> Result<(PartRuns, Vec<SideRows>), Failure> {
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let mut sides = self.sides_except(pipeline, &plan, Some(cut.side())).await?;
        // Each group has a row at least.
        let mut runs = PartRuns::new(parts.begun_again, groups.rows.rows);
        let mut grouping: Option<RunReport> = None;
        let fetch = pipeline.fetch_in_any_order();
        let number = groups.pieces.len();
        for partition in 0..number {
            // The memory of the previous groups is freed before the next ones are computed.
            sides[cut.side()] = SideRows::not_built();
            let mut building = PartRuns::new(parts.begun_again, 0);
            self.group_partition(&mut building, groups, partition, (None, true))
                .await?;
            sides[cut.side()] = SideRows::built(building.into_table(&mut grouping, &mut []));
            let view = rows_of_part(cut, &sides[cut.side()])?;
            let work = (pipeline, plan.clone(), view, keep);
            let last = partition + 1 == number;
            sides = self.run_over(&mut runs, work, sides, last).await?;
            if runs.left(fetch) == Some(0) {
                break;
            }
        }
        let first = groups.rows.report.clone();
        let report = grouping.map(|report| report.of_partitions(first));
        self.builds.lock().extend(report);
        self.merge_builds();
        Ok((runs, sides))
    }
}
