//! State that does not fit device memory is computed one partition at a time: build sides of joins, and
//! groups.
//!
//! If that is predicted to be faster and rows can be stored, both sides of a join are partitioned first
//! (`triton.rs`). The other runs read the inputs once per partition (`cut.rs` chooses the partitions):
//!
//! ```text
//! for each partition:   build side    the rows within ── table ──┐
//!                       rows          those within ── probe it ──┴── the sink, which is carried from partition to partition
//!
//!                       rows          those within ── groups ── rows of another pipeline ── its sink, which is carried
//!                                                        └── or returned
//! ```
//!
//! Rows of equal keys are in one partition, so every kind of join is correct: a row without a match in its
//! partition has no match at all. So is every aggregate: a group is in one partition. Inputs are read once
//! per partition, from their location: columns stream from host memory, and results of other pipelines on the
//! device are working regions, which move to the host and back. So does the sink between two partitions,
//! while the next build side is computed. The key tables of all partitions have one size, so all partitions
//! use one kernel. Rows that are returned need no sink that is carried over: they are returned partition by
//! partition.
//!
//! If a pipeline has two such joins with different keys, each partition of the larger build side is combined
//! with each partition of the other one, which is computed again each time.
//!
//! If the rows of a single key exceed the memory of a partition, they are joined in slices
//! (`hash_ranges.rs`). If the join cannot be sliced, the run fails for lack of memory and the subtree runs on
//! the CPU.

use super::attempt::Shrinking;
use super::cut::Cut;
use super::error::Failure;
use super::executor::{Executor, pairs_view};
use super::part_runs::PartRuns;
use super::pipeline_run::Output;
use super::source::entries;
use crate::device::RunError;
use crate::graph::{PipelineRef, PipelineSource};
use crate::joins::build_table::SideRows;
use crate::joins::out_of_core::PartitionedState;
use crate::report::RunReport;
use futures::FutureExt;
use futures::future::BoxFuture;
use galatea_base::policy::policy;
use galatea_base::reason::size;
use galatea_memory::regions::SpillCounts;
use galatea_store::TableView;
use std::time::Instant;

policy! {
    /// State that is computed one partition at a time.
    pub(super) struct PartPolicy {
        /// Divisor of that memory after an attempt that failed for lack of memory.
        less: u64 = 4,
        /// Maximum number of partitioned attempts.
        tries: u32 = 3,
        /// Maximum number of partitioned joins of a pipeline: those with the largest build sides.
        joins: usize = 2,
    }
}

pub(super) const POLICY: PartPolicy = PartPolicy::DEFAULT;

/// Parameters of a run with partitioned state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// The memory that the build side of a partition may use.
    pub(super) memory: Shrinking,
    /// Number of times that the partitions were restarted with more memory for strings.
    pub(super) begun_again: u32,
    /// Whether partitioning was predicted, and no run over all rows has failed.
    pub(super) predicted: bool,
}

/// The pairs or groups of a partition, as the rows that the pipeline scans.
pub(super) fn rows_of_part(cut: &Cut, rows: &SideRows) -> Result<TableView, RunError> {
    let view = match cut.state {
        PartitionedState::Groups => entries(rows.rows()),
        _ => pairs_view(rows.rows()),
    };
    Ok(TableView {
        // The kernels of all partitions are bound to the same number of rows.
        rows: cut.scanned(),
        ..view?
    })
}

/// The partition of each join in the combination with this number. Partitions of the last join change
/// fastest.
fn combination(cuts: &[Cut], number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut parts = vec![0; cuts.len()];
    for (cut, part) in cuts.iter().zip(&mut parts).rev() {
        *part = rest % cut.number();
        rest /= cut.number();
    }
    parts
}

impl Executor<'_> {
    /// Runs a pipeline with partitioned state. The future is boxed here: nested runs of pipelines over all
    /// rows then need no stack for it.
    pub(super) fn in_parts<'s>(
        &'s self,
        pipeline: PipelineRef<'s>,
        keep: bool,
        parts: Parts,
    ) -> BoxFuture<'s, Result<(Output, RunReport), Failure>> {
        self.partitioned(pipeline, keep, parts).boxed()
    }

    async fn partitioned(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        parts: Parts,
    ) -> Result<(Output, RunReport), Failure> {
        let mut joins = PartitionedState::of(pipeline);
        joins.truncate(POLICY.joins);
        self.forget_attempt(pipeline);
        let again = parts.memory.tries() < POLICY.tries;
        let cuts = self.cuts(pipeline, &joins, (parts.memory.bytes, again)).await?;
        let (mut cuts, mut whole): (Vec<Cut>, Vec<Cut>) = cuts.into_iter().partition(|cut| cut.number() > 1);
        if cuts.is_empty() {
            std::mem::swap(&mut cuts, &mut whole);
        }
        // Build sides that fit as hash tables.
        let mut graph = pipeline.graph().clone();
        for cut in whole.iter().filter(|cut| cut.is_whole()) {
            cut.restrict(&mut graph, pipeline.id(), 0);
        }
        let pipeline = graph.pipeline(pipeline.id());
        let single = match &*cuts {
            [cut] => Some(cut),
            // If nothing exceeds memory, the setting forces the partitions of a join.
            cuts => cuts.iter().find(|cut| cut.is_whole()),
        };
        if let Some(cut) = single
            && let Some(done) = self.by_triton(pipeline, keep, cut, parts).await?
        {
            return Ok(done);
        }
        self.by_parts(pipeline, keep, &cuts, parts.begun_again).await
    }

    /// Drops the views that a failed attempt loaded, and the reports of its pipelines. From now on, the rows
    /// of CPU operators are kept: the operators would run again for each partition, and might return other
    /// rows.
    fn forget_attempt(&self, pipeline: PipelineRef<'_>) {
        let (id, below) = (pipeline.id(), pipeline.with_below());
        let mut ready = self.ready.lock();
        ready.views.retain(|pipeline, _| !below.contains(pipeline));
        pipeline.each_below(&mut |pipeline| {
            if matches!(pipeline.source, PipelineSource::Plan(_)) {
                ready.keep(pipeline.id());
            }
        });
        drop(ready);
        (self.builds.lock()).retain(|build| build.pipeline == id || !below.contains(&build.pipeline));
    }

    /// The bytes of working memory that the device has spilled so far.
    pub(super) fn spilled(&self) -> SpillCounts {
        let device = self.session.engine().opened(self.config);
        device.map_or_else(SpillCounts::default, |device| device.memory().spilled())
    }

    /// The bytes of working memory that the device has spilled since `before`, for EXPLAIN ANALYZE.
    pub(super) fn spilled_since(&self, before: SpillCounts) -> String {
        let now = self.spilled();
        let [memory, files] = [
            now.to_memory.saturating_sub(before.to_memory),
            now.to_files.saturating_sub(before.to_files),
        ]
        .map(size);
        format!("{memory} spilled to host memory, {files} to files")
    }

    /// The bytes of spilled working memory that the device has read since `before`.
    pub(super) fn read_back_since(&self, before: SpillCounts) -> u64 {
        self.spilled().back.saturating_sub(before.back)
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
        let is_cut = |number: usize| cuts.iter().any(|cut| cut.sides.contains(&number));
        let mut sides: Vec<Option<SideRows>> = Vec::new();
        for number in 0..pipeline.build_sides.len() {
            sides.push(match is_cut(number) {
                true => None,
                false => Some(self.side(pipeline, number, plan.lookups_of(number)).await?),
            });
        }
        let matches = pipeline.match_bounds(&plan, |number| sides.get(number)?.as_ref()?.key_range());
        // The rows of the pipeline, if they are in partitions.
        let row_cut = |cut: &&Cut| matches!(cut.state, PartitionedState::Pairs | PartitionedState::Groups);
        let row_cut = cuts.iter().find(row_cut);
        let view = match row_cut {
            Some(_) => None,
            None => {
                let rows = sides[pipeline.row_sides.clone()].iter().flatten();
                let rows: Vec<u64> = rows.map(SideRows::rows).collect();
                Some(self.view(pipeline, &plan, &rows, Some(&matches)).await?)
            }
        };
        let all_parts: usize = cuts.iter().map(Cut::number).product();
        // Groups that are returned are complete after their partition of all other state.
        let of_sink = match cuts {
            [cut, ..] if cut.state == PartitionedState::Aggregate => all_parts / cut.number(),
            _ => all_parts,
        };
        let rows_of_sink = match (&view, row_cut) {
            _ if of_sink == 1 => 0,
            (Some(view), _) => view.rows,
            (None, Some(cut)) => self.rows_of_sink(pipeline, cut).await?,
            (None, None) => 0,
        };
        let mut runs = PartRuns::new(begun_again, rows_of_sink);
        // Each partition returns its first rows in an order, among which an operator above chooses.
        let fetch = pipeline.fetch_in_any_order();
        // The matches of preserved rows in earlier slices.
        let mut marks = match row_cut {
            Some(cut) => self.slice_marks(pipeline, cut.state, cut.numbered()).await?,
            None => None,
        };
        // The partitions of the current build sides.
        let mut made = Vec::new();
        for number in 0..all_parts {
            let parts = combination(cuts, number);
            for ((cut, part), made) in cuts.iter().zip(&parts).zip(&made) {
                // Its memory is freed before the build side of another partition is computed.
                if part != made {
                    cut.sides.iter().for_each(|side| sides[*side] = None);
                }
            }
            let mut graph = pipeline.graph().clone();
            for (cut, part) in cuts.iter().zip(&parts) {
                cut.restrict(&mut graph, pipeline.id(), *part);
            }
            let part = graph.pipeline(pipeline.id());
            made = parts;
            for (cut, number_of_part) in cuts.iter().zip(&made) {
                for number in &cut.sides {
                    if sides[*number].is_some() {
                        continue;
                    }
                    let mut rows = self.side(part, *number, plan.lookups_of(*number)).await?;
                    if cut.state == PartitionedState::Pairs
                        && let Some(seen) = marks.take()
                    {
                        let (merged, matches) = {
                            let last = cut.last_slices(*number_of_part);
                            self.merge_slice(seen, rows, (*number_of_part, last)).await?
                        };
                        (marks, rows) = (Some(merged), matches);
                    }
                    sides[*number] = Some(rows);
                }
            }
            let view = match (
                &view,
                row_cut.and_then(|cut| Some((cut, sides[cut.side()].as_ref()?))),
            ) {
                (Some(view), _) => view.clone(),
                (None, Some((cut, rows))) => rows_of_part(cut, rows).map_err(Failure::Run)?,
                (None, None) => unreachable!("rows in partitions are a build side"),
            };
            let plan = part.plan.resolved().map_err(Failure::Input)?;
            let last = (number + 1).is_multiple_of(of_sink);
            let back = self
                .run_over(
                    &mut runs,
                    (part, plan, view, keep),
                    sides.into_iter().flatten().collect(),
                    last,
                )
                .await?;
            sides = back.into_iter().map(Some).collect();
            if runs.left(fetch) == Some(0) {
                break;
            }
        }
        let (output, mut report) = runs.finish();
        self.merge_builds();
        report.total = started.elapsed();
        let told =
            |join: &str, of: &dyn Fn(&Cut) -> String| cuts.iter().map(of).collect::<Vec<_>>().join(join);
        report.partitions = Some(format!(
            "{}, one after another: {}; {}",
            told(" by ", &Cut::of_sides),
            told(" and ", &Cut::sizes),
            self.spilled_since(before)
        ));
        let mut sides: Vec<SideRows> = sides.into_iter().flatten().collect();
        Ok((output.joined(&mut sides), report))
    }

    /// Merges the reports of pipelines that ran once per partition.
    pub(super) fn merge_builds(&self) {
        let mut builds = self.builds.lock();
        *builds = RunReport::merged(std::mem::take(&mut *builds));
    }
}
