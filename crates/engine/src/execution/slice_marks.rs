//! The matches of preserved rows over the slices of the other side of a join, between the runs over two
//! slices ([`Pairs::merge`](crate::joins::pairs::Pairs::merge)).

use super::error::Failure;
use super::executor::Executor;
use crate::device::RunError;
use crate::graph::PipelineRef;
use crate::joins::build_table::SideRows;
use crate::joins::out_of_core::PartitionedState;
use crate::joins::pairs::SeenRows;

/// The preserved rows of a join that had a match in earlier slices.
pub(super) struct SliceMarks {
    seen: SeenRows,
    /// The partition that was merged last.
    part: Option<usize>,
}

impl Executor<'_> {
    /// No matches yet, of a join; `numbered`: whether rows of the probe side, and of the build side, are
    /// preserved and joined with slices of the other side. `None` if neither is.
    pub(super) async fn slice_marks(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedState,
        numbered: [bool; 2],
    ) -> Result<Option<SliceMarks>, Failure> {
        let Some((probe, side)) = join.probe(pipeline).filter(|_| numbered != [false; 2]) else {
            return Ok(None);
        };
        let mut rows = [None; 2];
        for (number, side) in [Some(probe), probe.build(side)].into_iter().enumerate() {
            if let Some(side) = side.filter(|_| numbered[number]) {
                let plan = side.plan.resolved().map_err(Failure::Input)?;
                // A later load may read other rows, with other numbers: all rows of the table, which another
                // query has loaded in the meantime.
                self.ready.lock().keep(side.id());
                let loaded = self.view(side, &plan, &[], None).await?.rows;
                rows[number] = Some(side.rows.map_or(loaded, |rows| rows.max(loaded)));
            }
        }
        Ok(Some(SliceMarks {
            seen: SeenRows::new(rows),
            part: None,
        }))
    }

    /// Merges the matches of partition number `part`, which are the rows of a pipeline, with those of earlier
    /// ones. `last`: no later slice of the other side follows, for its rows of the probe side and of the
    /// build side.
    pub(super) async fn merge_slice(
        &self,
        mut marks: SliceMarks,
        matches: SideRows,
        (part, last): (usize, [bool; 2]),
    ) -> Result<(SliceMarks, SideRows), Failure> {
        // All partitions are joined again for each partition of another join.
        if marks.part.is_some_and(|before| part <= before) {
            marks.seen.clear();
        }
        marks.part = Some(part);
        let runtime = self.session.engine().device(self.config);
        let runtime = runtime.map_err(RunError::Unsupported)?;
        let priority = self.config.priority.of_stream(false);
        let merged = tokio::task::spawn_blocking(move || {
            let streams = runtime.take_streams(priority)?;
            if let SideRows::Built(table) = &matches {
                let mut table = table.lock();
                table.merge_marks(&runtime, &streams.compute, &mut marks.seen, last)?;
            }
            runtime.give_streams(streams);
            Ok::<_, RunError>((marks, matches))
        });
        let merged = merged.await.map_err(|error| RunError::Ended(error.to_string()));
        Ok(merged??)
    }
}
