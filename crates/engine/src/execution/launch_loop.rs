//! The launch loop of a run: over chunks with resident pages, then chunk by chunk as they arrive, until all
//! are done or an earlier query requests memory.

use super::error::raise;
use super::pipeline_run::{Admitted, LAUNCH_BYTES, Output, Run};
use super::sinks::SinkState;
use crate::device::chunk_table::LaunchInputs;
use crate::device::demand::Estimate;
use crate::device::prepared::Prepared;
use crate::device::shared_scan::Role;
use crate::device::{QueryStreams, RunError};
use crate::joins::build_table::BuiltSides;
use crate::report::{QueryStep, RunReport};
use crate::results;
use crate::sort;
use crate::transfer::chunks::{ChunkResidency, Wanted};
use galatea_codegen::aggregate::BLOCK_ROWS;
use galatea_codegen::bound::{BoundPipeline, MorselOrder, ResultPlan};
use galatea_codegen::strategy::Strategy;
use galatea_device::{DeviceBuffer, Geometry};
use galatea_expression::LookupTable;
use galatea_kernels::{Pipeline, PipelineArguments};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Number of times that a streaming scan updates its remaining demand.
const UPDATES: usize = 8;

/// Morsels per block of a launch over partitioned rows, if a block takes every grid-th morsel. Blocks drift
/// apart during a launch, and would together access more partitions than the cache holds.
const CLOSE_MORSELS: u64 = 2;

/// Progress of a run.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    pub(super) sink: SinkState,
    rows: Option<results::Rows<'a>>,
    /// Chunks in the order of their launches, once launches have begun.
    order: Option<Vec<usize>>,
    /// Number of morsels that are done, in that order.
    morsels: u64,
    /// Estimate of the memory that it will use.
    estimate: Option<Estimate>,
    /// The chunks that are left after the run has followed a scan of another run; `None` before.
    left: Option<Vec<usize>>,
}

impl Progress<'_> {
    /// The initial progress.
    pub(super) fn of(sink: SinkState, estimate: Option<Estimate>) -> Self {
        Self {
            sink,
            rows: None,
            order: None,
            morsels: 0,
            estimate,
            left: None,
        }
    }
}

/// How a [`Run::pass`] ended.
#[derive(Debug)]
pub(super) enum Pass<'a> {
    Done(Output),
    /// The regions of the run are parked, and none of its pages is pinned.
    GaveWay(Box<Progress<'a>>),
    /// It has followed the scan of another run until its end.
    Followed(Box<Progress<'a>>),
}

/// Waits on drop for all queued work, so that no buffer of a failed run is freed while a kernel runs.
pub(super) struct Settle<'a>(pub(super) &'a QueryStreams);

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        // A failure has been, or will be, reported by the call that needs the stream.
        for stream in self.0.transfer.iter().chain([&self.0.unpack]) {
            let _ = stream.synchronize();
        }
        let _ = self.0.compute.synchronize();
    }
}

/// The geometry of a launch over `morsels` morsels of a scan that `runs` runs read. Their launches share the
/// `grid` blocks that the device can run, because a block collects its groups once, however many rows it
/// reads.
pub(super) fn geometry(bound: &BoundPipeline, grid: u32, runs: u32, morsels: usize) -> Geometry {
    let most = u64::from(grid.div_ceil(runs.max(1)).max(1));
    let blocks = (morsels as u64).clamp(1, most) as u32;
    Geometry::new(blocks, bound.block).with_shared(u64::from(bound.dynamic_shared))
}

impl<'a> Run<'a> {
    /// Launches over the remaining chunks until all are done or an earlier query requests memory.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one launch loop, used in one place"
    )]
    pub(super) fn pass(
        &self,
        pipeline: &Arc<Prepared>,
        streams: &QueryStreams,
        admitted: Admitted<'_>,
        keep: bool,
        sides: &BuiltSides<'_>,
        progress: Progress<'a>,
        report: &mut RunReport,
    ) -> Result<Pass<'a>, RunError> {
        let (bound, kernel) = (&pipeline.bound, &pipeline.kernel);
        let compute = &streams.compute;
        let Progress {
            mut sink,
            rows,
            order,
            mut morsels,
            estimate,
            left,
        } = progress;
        let chunks = left.as_deref().unwrap_or(self.chunks);
        let grid = sink.grid();
        let transfer_start = Instant::now();
        let columns = &self.view.columns;
        let mut scan = (self.runtime.memory()).scan(columns.iter().map(|column| &**column));
        if sink.stops() {
            // The sink may allocate between launches, while the pages of later launches are pinned: leave a
            // quarter free.
            scan.leave(self.runtime.room() / 4);
        } else if let (Strategy::Sort { words, .. }, ResultPlan::Rows(plan)) =
            (&bound.strategy, &bound.result)
        {
            // Sorting memory is allocated while the pages of the last launch are resident.
            scan.leave(sort::sorting_bytes(&plan.columns, *words, sink.capacity()));
        } else if let ResultPlan::Windows(plan) = &bound.result {
            // As above, plus the results computed from the order, and a second copy of the words during the
            // sort.
            let rows = sink.capacity();
            scan.leave(plan.stored_bytes(rows) + plan.made_bytes(rows));
        }
        scan.make_reserve()?;
        // Without columns there is no identity by which to look up cached launch inputs.
        let known = match columns.is_empty() || order.is_some() {
            true => None,
            false => (self.runtime.launches()).find(pipeline, scan.pin(), chunks),
        };
        let fresh = known.is_none() && !columns.is_empty() && order.is_none();
        let (mut residency, inputs) = match known {
            Some(inputs) => (ChunkResidency::kept(self.runtime, scan, &inputs), inputs),
            None => {
                scan.release();
                let view = self.view;
                // Lookup tables are allocated before pages, which use only the remaining memory.
                let lookups = LaunchInputs::lookups(self.runtime, compute, bound)?;
                scan.make_reserve()?;
                let wanted = Wanted {
                    chunks: order.as_deref().unwrap_or(chunks),
                    keep,
                    done: order
                        .as_deref()
                        .map(|order| self.chunks_of(bound, order, morsels)),
                    stops: self.fetch.is_some(),
                    awaits: bound.awaits,
                    method: self.config.transfer.forced(),
                };
                let role = self.role(bound, &sink, streams, admitted, wanted, &scan)?;
                if let Some(Role::Follower(follower)) = role {
                    drop(scan);
                    let (left, gives_way) = self.follow(
                        pipeline, streams, admitted, sides, lookups, chunks, &follower, &mut sink, report,
                    )?;
                    if gives_way {
                        sink.park();
                    }
                    let progress = Box::new(Progress {
                        sink,
                        rows,
                        order,
                        morsels,
                        estimate,
                        left: Some(left),
                    });
                    return Ok(match gives_way {
                        true => Pass::GaveWay(progress),
                        false => Pass::Followed(progress),
                    });
                }
                let mut residency = ChunkResidency::choose(self.runtime, streams, view, wanted, scan)?;
                if let Some(Role::Leader(leader)) = role {
                    residency.lead(leader, view);
                }
                let order = residency.order().to_vec();
                let place = |position, k| residency.place(view, position, k);
                let inputs = LaunchInputs::upload(self.runtime, compute, bound, view, lookups, order, place)?;
                (residency, Arc::new(inputs))
            }
        };
        // Declared after the residency, so that its pages stay pinned and its slots allocated until the
        // streams are done.
        let _settle = Settle(streams);
        report.link_bytes += residency.begin(streams, self.view)?;
        report.transferred(transfer_start);
        if order.is_none() {
            report.resident = left.is_none() && residency.ready() == chunks.len();
            report.way = residency.way();
        }
        let mut args = self.arguments(bound, &inputs, sides);

        let outlet = || results::Outlet::new(self.runtime, self.result, self.cancelled);
        let rows = rows.unwrap_or_else(|| {
            let chunks = inputs.order.as_slice().into();
            results::Rows::new(self.plan, self.view, chunks, sides.string_rows(), outlet())
        });
        let (started, queued) = (compute.record()?, Instant::now());
        let mut launch =
            |sink: &mut SinkState, morsels: Range<u32>, arrivals: u64, runs: u32, report: &mut RunReport| {
                args.arrivals = arrivals;
                let geometry = geometry(bound, grid, runs, morsels.len());
                self.launch(
                    kernel, geometry, streams, admitted, &mut args, sink, morsels, bound, &rows, report,
                )
            };
        let mut gives_way = false;
        let all_morsels = u64::from(inputs.table.first_morsels[chunks.len()]);
        // A launch is short enough that the sums of a block fit its partial sums, and that other queries get
        // a turn.
        let of_block = match bound.morsel_order {
            MorselOrder::StridedClosely => CLOSE_MORSELS,
            MorselOrder::Strided | MorselOrder::Claimed => (BLOCK_ROWS / u64::from(bound.morsel_rows)).max(1),
        };
        let most = of_block * u64::from(grid);
        let slice = most.min(self.slice(report, all_morsels)).max(u64::from(grid));
        let ready = residency.ready();
        let ready_morsels = u64::from(inputs.table.first_morsels[ready]);
        // A run that may stop early begins with the fewest morsels that keep the device busy, and doubles
        // them.
        let mut step = match self.fetch {
            Some(_) if matches!(bound.result, ResultPlan::Rows(_)) => u64::from(grid),
            _ => slice,
        };
        let begun = morsels;
        while morsels < ready_morsels && !self.has_enough(&rows) {
            if morsels > begun && admitted.ticket.is_preempted() {
                gives_way = true;
                break;
            }
            let end = morsels.saturating_add(step).min(ready_morsels);
            launch(&mut sink, morsels as u32..end as u32, 0, 1, report)?;
            morsels = end;
            self.progress
                .comes_to(QueryStep::Running, morsels, Some(all_morsels));
            step = slice.min(step.saturating_mul(2));
            if morsels < ready_morsels {
                residency.pace(streams)?;
                self.check()?;
            }
        }
        residency.launched(streams, 0..ready)?;
        let arrivals = residency.arrivals();
        // Each update wakes waiting queries, so a few updates per run suffice.
        let often = (chunks.len() / UPDATES).max(1);
        let mut position = ready;
        while position < chunks.len() && !gives_way && !self.has_enough(&rows) {
            self.check()?;
            if morsels > begun && admitted.ticket.is_preempted() {
                gives_way = true;
                break;
            }
            let next = residency.launch_from(position);
            if next.end / often > position / often {
                let done = position as f64 / chunks.len() as f64;
                admitted.update(estimate.as_ref().map(|estimate| estimate.rest(done)));
            }
            let fetched = residency.fetch(streams, self.view, next)?;
            report.link_bytes += fetched.bytes;
            if fetched.end == position {
                residency.wait_for_followers();
                continue;
            }
            let launched = position..fetched.end;
            let end = inputs.table.first_morsels[launched.end];
            let todo = inputs.table.first_morsels[position].max(morsels as u32)..end;
            if !todo.is_empty() {
                launch(&mut sink, todo, arrivals, residency.runs(), report)?;
            }
            if arrivals != 0 {
                report.awaited += launched.len();
            }
            morsels = u64::from(end);
            self.progress
                .comes_to(QueryStep::Running, morsels, Some(all_morsels));
            position = launched.end;
            residency.launched(streams, launched)?;
        }
        while !gives_way && !residency.is_released() {
            self.check()?;
            gives_way = admitted.ticket.is_preempted();
            residency.wait_for_followers();
        }
        if gives_way {
            let ended = compute.record()?;
            compute.synchronize()?;
            report.ran_kernels(queued, ended.elapsed_since(&started)?);
            sink.park();
            return Ok(Pass::GaveWay(Box::new(Progress {
                sink,
                rows: Some(rows),
                order: Some(inputs.order.clone()),
                morsels,
                estimate,
                left,
            })));
        }
        if let Some(part) = self.part.filter(|part| part.goes_on(bound)) {
            let ended = compute.record()?;
            compute.synchronize()?;
            report.ran_kernels(queued, ended.elapsed_since(&started)?);
            sink.park();
            part.leave(pipeline, sink);
            return Ok(Pass::Done(Output::Returned(0)));
        }
        admitted.update(estimate.as_ref().map(Estimate::collecting));
        sink.fold(self.runtime, compute, bound, inputs.merges.as_ref())?;
        sink.complete(self.runtime, compute, admitted.ticket.number())?;
        let ended = compute.record()?;
        let mut contents = sink.finish(self.runtime, compute, bound, &rows, report)?;
        if fresh && left.is_none() && residency.is_resident() {
            let launches = self.runtime.launches();
            launches.keep(pipeline, residency.addresses(), chunks, Arc::clone(&inputs));
        }
        report.ran_kernels(queued, ended.elapsed_since(&started)?);
        report.rows_passed = contents.rows_passed;
        report.link_bytes += contents.bytes;
        raise(contents.error, bound, self.plan)?;
        if let Some(table) = contents.built.take() {
            return Ok(Pass::Done(Output::Built(Box::new(table))));
        }
        let rows = match bound.strategy {
            Strategy::Append { .. } | Strategy::Chains | Strategy::Sort { .. } => rows.count(),
            _ => {
                let outlet = outlet();
                report.link_bytes +=
                    results::groups(compute, self.plan, bound, &contents, self.fetch, &outlet)?;
                outlet.rows()
            }
        };
        Ok(Pass::Done(Output::Returned(rows)))
    }

    /// The arguments of launches with these inputs.
    pub(super) fn arguments(
        &self,
        bound: &BoundPipeline,
        inputs: &LaunchInputs,
        sides: &BuiltSides<'_>,
    ) -> PipelineArguments {
        let mut args = PipelineArguments::new(&bound.parameters.literals);
        args.chunks = inputs.words.address();
        args.chunk_words = inputs.table.stride as u32;
        args.morsel_rows = bound.morsel_rows;
        args.morsels_per_chunk = inputs.table.morsels_per_chunk;
        let tables = bound.parameters.tables.iter().zip(&inputs.lookups);
        for (slot, (table, uploaded)) in args.tables.iter_mut().zip(tables) {
            *slot = match (table, uploaded) {
                (LookupTable::Built { build_side, part }, _) => sides.address(*build_side, *part),
                // The table of the sink, which sets its address before each launch.
                (LookupTable::Interned, _) => 0,
                (LookupTable::Host(_), uploaded) => uploaded.as_ref().map_or(0, DeviceBuffer::address),
            };
        }
        args
    }

    /// Number of leading chunks of an order with all of their morsels among the first `morsels`.
    fn chunks_of(&self, bound: &BoundPipeline, order: &[usize], morsels: u64) -> usize {
        let mut end = 0;
        let done = order.iter().take_while(|chunk| {
            end += u64::from(self.view.chunk_rows[**chunk].div_ceil(bound.morsel_rows));
            end <= morsels
        });
        done.count()
    }

    /// Number of morsels in a launch of a few milliseconds, so that launches of other queries can be
    /// interleaved.
    fn slice(&self, report: &RunReport, morsels: u64) -> u64 {
        let morsel_bytes = (report.device_bytes / morsels.max(1)).max(1);
        LAUNCH_BYTES / morsel_bytes
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one launch loop, used in one place"
    )]
    pub(super) fn launch(
        &self,
        kernel: &Pipeline,
        geometry: Geometry,
        streams: &QueryStreams,
        admitted: Admitted<'_>,
        args: &mut PipelineArguments,
        sink: &mut SinkState,
        morsels: Range<u32>,
        bound: &BoundPipeline,
        rows: &results::Rows<'_>,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        args.first_morsel = morsels.start;
        args.end_morsel = morsels.end;
        args.resume = 0;
        loop {
            self.check()?;
            sink.bind(bound, args);
            if bound.morsel_order == MorselOrder::Claimed {
                sink.clear_claims(&streams.compute)?;
            }
            kernel.launch(&streams.compute, geometry, args)?;
            report.launches += 1;
            if !sink.stops() {
                return Ok(());
            }
            let stopped = loop {
                match sink.drain(self.runtime, &streams.compute, bound, rows, report) {
                    // If the device is full, nothing has changed: the earliest query continues from this
                    // point once others have given way.
                    Err(error) if error.wants_memory() && admitted.ticket.is_first() => {
                        if !self.wait_for_room(admitted.ticket) {
                            self.check()?;
                            return Err(error);
                        }
                    }
                    outcome => break outcome?,
                }
            };
            if !stopped {
                return Ok(());
            }
            args.resume = 1;
        }
    }

    /// Whether the run may stop because it has the required number of rows.
    fn has_enough(&self, rows: &results::Rows) -> bool {
        self.fetch.is_some_and(|fetch| rows.count() >= fetch)
    }
}
