//! The Triton join of sides whose keys may repeat.
//!
//! ```text
//! for each partition:   its rows of the build side ── multimap ──┐
//!                       its rows of the probe side ── lists ─────┴── matches ── marks of a condition ── the sink
//! ```
//!
//! Both sides of a partition are on the device at the same time: a match refers to a row of each. If the rows
//! of a key exceed that memory, each part of the partition's rows on one side is joined with each part on the
//! other side. A preserved row without a match has none in all parts, so these matches are merged
//! (`slice_marks.rs`).

use super::cut::Cut;
use super::error::Failure;
use super::executor::{Executor, of_side};
use super::gathered::{PartitionedSide, Piece};
use super::hash_ranges::EqualRanges;
use super::part_runs::PartRuns;
use super::parts::{Parts, rows_of_part};
use super::pipeline_run::Output;
use super::triton::joined;
use crate::graph::PipelineRef;
use crate::joins::build_table::SideRows;
use crate::joins::out_of_core::TritonPlan;
use crate::report::RunReport;

/// A join of a piece of each side.
struct JoinedPieces {
    partition: usize,
    /// Whether no later piece of the other side follows, for the rows of the probe side and of the build
    /// side.
    last: [bool; 2],
}

/// The joins of pieces, one after another, and the pieces of the build side and of the probe side.
fn joined_pieces(
    sides: &[PartitionedSide; 2],
    ranges: EqualRanges,
) -> (Vec<JoinedPieces>, Vec<[Vec<Piece>; 2]>) {
    let (mut joins, mut joined) = (Vec::new(), Vec::new());
    for partition in 0..sides[0].plan.parts as usize {
        let pieces = [0, 1].map(|side| sides[side].pieces_of_rows(partition, ranges.most[side]));
        let [own, others] = &pieces;
        for (number, piece) in own.iter().enumerate() {
            for (other_number, other) in others.iter().enumerate() {
                joins.push(JoinedPieces {
                    partition,
                    last: [number + 1 == own.len(), other_number + 1 == others.len()],
                });
                joined.push([vec![piece.clone()], vec![other.clone()]]);
            }
        }
    }
    (joins, joined)
}

impl Executor<'_> {
    /// Joins partitioned sides, and runs the pipeline over the matches of one partition after another.
    pub(super) async fn join_pairs(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        (cut, ranges, plans): (&Cut, EqualRanges, &TritonPlan),
        partitioned: [PartitionedSide; 2],
        (parts, rows_of_sink): (Parts, u64),
    ) -> Result<(Output, RunReport), Failure> {
        let (probe, side) = joined(pipeline, cut);
        let Some(build) = probe.build(side) else {
            unreachable!("a partitioned join has a build side");
        };
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let mut sides = self.sides_except(pipeline, &plan, Some(cut.side())).await?;
        let mut marks = self.slice_marks(pipeline, cut.state, ranges.numbered).await?;
        let (joins, pieces) = joined_pieces(&partitioned, ranges);
        let mut queue = self.copies(&partitioned, pieces)?;
        let [own, mut rows] = partitioned;
        let mut looked_up = std::mem::take(&mut rows.sides);
        let mut runs = PartRuns::new(parts.begun_again, rows_of_sink);
        let mut reports: [Option<RunReport>; 2] = [None, None];
        let fetch = pipeline.fetch_in_any_order();
        for (number, JoinedPieces { partition, last }) in joins.iter().enumerate() {
            // The memory of the previous join is freed before the next one.
            sides[cut.side()] = SideRows::not_built();
            let mut building = PartRuns::new(parts.begun_again, 0);
            let work = (build, plans.build.second.clone(), None, true);
            let gathered = queue.next().await?;
            self.run_piece(&mut building, work, (gathered, own.rows), &mut Vec::new(), true)
                .await
                .map_err(|failure| of_side(&probe.build_sides[side], failure))?;
            looked_up[side] = SideRows::built(building.into_table(&mut reports[0], &mut []));
            let mut probing = PartRuns::new(parts.begun_again, 0);
            let work = (probe, plans.probe.second.clone(), None, true);
            let gathered = queue.next().await?;
            self.run_piece(&mut probing, work, (gathered, rows.rows), &mut looked_up, true)
                .await?;
            let matches = probing.into_table(&mut reports[1], &mut looked_up);
            self.ready.lock().leave_matches(probe.id(), matches);
            let columns = plan.lookups_of(cut.side());
            let matches = self.side(pipeline, cut.side(), columns).await;
            // A pipeline that failed before it looked them up has left them, and another attempt must not
            // take the matches of one partition for all.
            drop(self.ready.lock().take_matches(probe.id()));
            sides[cut.side()] = match marks.take() {
                None => matches?,
                Some(seen) => {
                    let (merged, matches) = self.merge_slice(seen, matches?, (number, *last)).await?;
                    marks = Some(merged);
                    matches
                }
            };
            let view = rows_of_part(cut, &sides[cut.side()])?;
            let work = (pipeline, plan.clone(), view, keep);
            let next = joins.get(number + 1).map(|next| next.partition);
            sides = self.run_over(&mut runs, work, sides, next.is_none()).await?;
            if next != Some(*partition) {
                [&own, &rows]
                    .into_iter()
                    .for_each(|side| side.discard(*partition));
            }
            if runs.left(fetch) == Some(0) {
                break;
            }
        }
        let (output, mut report) = runs.finish();
        report.link_bytes += queue.finish();
        for (report, first) in reports.into_iter().zip([own.report, rows.report]) {
            self.builds
                .lock()
                .extend(report.map(|report| report.of_partitions(first)));
        }
        self.merge_builds();
        Ok((output.joined(&mut sides), report))
    }
}
