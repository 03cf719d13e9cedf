//! A run that follows the scan of another run ([`shared_scan`](crate::device::shared_scan)).

use super::launch_loop::{Settle, geometry};
use super::pipeline_run::{Admitted, Run};
use super::sinks::SinkState;
use crate::device::chunk_table::LaunchInputs;
use crate::device::demand::Inputs;
use crate::device::prepared::Prepared;
use crate::device::shared_scan::{Follower, Role, is_among};
use crate::device::{QueryStreams, RunError};
use crate::joins::build_table::BuiltSides;
use crate::report::{QueryStep, RunReport};
use crate::results;
use crate::transfer::chunks::{ChunkResidency, Wanted};
use galatea_codegen::SinkPlan;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_device::DeviceBuffer;
use galatea_memory::regions::Scan;
use std::sync::Arc;
use std::time::Instant;

impl<'a> Run<'a> {
    /// The role of the run in a shared scan; `None` if it scans alone.
    pub(super) fn role(
        &self,
        bound: &BoundPipeline,
        sink: &SinkState,
        streams: &QueryStreams,
        admitted: Admitted<'_>,
        wanted: Wanted<'_>,
        scan: &Scan<'a>,
    ) -> Result<Option<Role>, RunError> {
        // Followers would wait for a run that waits for memory or for the reader of its rows, or be left by
        // a run that stops early.
        let shares = self.config.shared_scans.0
            && !sink.stops()
            && !bound.awaits
            && self.fetch.is_none()
            && self.part.is_none()
            && wanted.done.is_none()
            && !self.view.columns.is_empty();
        if !shares {
            return Ok(None);
        }
        let (scans, compute) = (self.runtime.shared_scans(), &streams.compute);
        // The result must not depend on the order of the chunks.
        let follows = matches!(bound.result, ResultPlan::Aggregate { .. });
        // Another run transfers the columns, so this one would as well.
        if follows && let Some(follower) = scans.follow(self.view, wanted.chunks, compute)? {
            return Ok(Some(Role::Follower(follower)));
        }
        if !ChunkResidency::streams(self.runtime, streams, self.view, wanted, scan) {
            return Ok(None);
        }
        // An earlier query may need the memory of the run.
        let waits = || self.check().map(|()| !admitted.ticket.is_preempted());
        scans.join(self.view, wanted.chunks, follows, compute, waits)
    }

    /// Launches over the chunks of another run's scan until that scan ends, or an earlier query requests
    /// memory. Returns those of `chunks` that are left, and whether memory was requested.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one launch loop, used in one place"
    )]
    pub(super) fn follow(
        &self,
        pipeline: &Arc<Prepared>,
        streams: &QueryStreams,
        admitted: Admitted<'_>,
        sides: &BuiltSides<'_>,
        lookups: Vec<Option<DeviceBuffer<u8>>>,
        chunks: &[usize],
        follower: &Follower,
        sink: &mut SinkState,
        report: &mut RunReport,
    ) -> Result<(Vec<usize>, bool), RunError> {
        let (bound, compute) = (&pipeline.bound, &streams.compute);
        let positions = follower.positions(chunks);
        let order: Vec<usize> = positions.iter().map(|at| follower.chunk(*at)).collect();
        let place = |at: usize, k| follower.place(positions[at], k);
        let inputs = LaunchInputs::upload(self.runtime, compute, bound, self.view, lookups, order, place)?;
        let mut args = self.arguments(bound, &inputs, sides);
        let rows = results::Rows::new(
            self.plan,
            self.view,
            inputs.order.as_slice().into(),
            sides.string_rows(),
            results::Outlet::new(self.runtime, self.result, self.cancelled),
        );
        // Launches end before the chunk table is freed.
        let _settle = Settle(streams);
        let (started, queued) = (compute.record()?, Instant::now());
        let (mut done, mut gives_way) = (0, false);
        while let Some(step) = follower.next(|| self.check())? {
            for arrived in &step.arrived {
                compute.wait(arrived)?;
            }
            let end = positions.partition_point(|at| *at < step.positions.end);
            let morsels = inputs.table.first_morsels[done]..inputs.table.first_morsels[end];
            if !morsels.is_empty() {
                let geometry = geometry(bound, sink.grid(), follower.runs(), morsels.len());
                self.launch(
                    &pipeline.kernel,
                    geometry,
                    streams,
                    admitted,
                    &mut args,
                    sink,
                    morsels.clone(),
                    bound,
                    &rows,
                    report,
                )?;
            }
            follower.launched(&step, Arc::new(compute.record()?));
            report.shared_chunks += end - done;
            done = end;
            let all = u64::from(inputs.table.first_morsels[inputs.order.len()]);
            self.progress
                .comes_to(QueryStep::Running, u64::from(morsels.end), Some(all));
            gives_way = admitted.ticket.is_preempted();
            if gives_way {
                break;
            }
        }
        let ended = compute.record()?;
        compute.synchronize()?;
        report.ran_kernels(queued, ended.elapsed_since(&started)?);
        let is_read = is_among(&inputs.order[..done]);
        let left = chunks.iter().copied().filter(|chunk| !is_read(*chunk));
        Ok((left.collect(), gives_way))
    }

    /// Whether the run is expected to follow the scan of another run that reads its columns: an earlier run
    /// of its shape had memory for all groups.
    pub(super) fn may_follow(&self, inputs: Inputs) -> bool {
        self.config.shared_scans.0
            && self.fetch.is_none()
            && self.part.is_none()
            && matches!(self.plan.sink, SinkPlan::Aggregate { .. })
            && self.runtime.demands().holds_all_groups(inputs.shape)
    }
}
