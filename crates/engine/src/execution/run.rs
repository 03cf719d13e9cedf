//! One pipeline over encoded columns on one device, start to end.

use super::chunks::{LaunchInputs, Placement};
use super::columns::ColumnPages;
use super::demand::{self, Estimate, Inputs, Observed, Quantities, SinkMemory};
use super::prepared::Prepared;
use super::results;
use super::sinks::SinkState;
use crate::config::{GalateaConfig, RowOutput};
use crate::expression::{Dimension, ErrorCode};
use crate::metrics;
use crate::pipeline::aggregate::BLOCK_ROWS;
use crate::pipeline::bind::Strategy;
use crate::pipeline::generate::{BoundPipeline, Shape};
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::reason::Reason;
use crate::runtime::{DeviceRuntime, QueryStreams};
use arrow::array::RecordBatch;
use galatea_device::{DeviceError, Geometry, MemoryBudget, Origin};
use galatea_kernels::{CHUNK_HEADER_WORDS, COLUMN_WORDS, Pipeline, PipelineArguments};
use galatea_memory::HeapError;
use galatea_memory::regions::{Ablation, Lease, Source};
use galatea_store::TableView;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that a launch scans at most: about 4 ms of device memory's rate.
const LAUNCH_BYTES: u64 = 16 << 30;

/// Bytes of a hash table that is made with room for all groups there can be: clearing so much takes a quarter of a millisecond.
const HASH_ROOM: u64 = 1 << 30;

/// Times that a streaming scan says how much of it is left.
const UPDATES: usize = 8;

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The pipeline turned out not to be one the device can run; the CPU can.
    #[error("{0}")]
    Unsupported(#[from] Reason),
    /// Even the least the pipeline needs does not fit.
    #[error(
        "out of device memory: {what} needs {needed} bytes, {available} of {limit} are available\nhint: raise galatea.gpu_memory_limit or lower galatea.chunk_rows"
    )]
    Memory {
        /// What was to be allocated.
        what: &'static str,
        /// Its bytes.
        needed: u64,
        /// Bytes the budget has left.
        available: u64,
        /// The budget.
        limit: u64,
    },
    /// The device or its driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device heap for output rows could not be made.
    #[error(transparent)]
    Heap(HeapError),
    /// A row raised an error; the CPU says which, in DataFusion's words.
    #[error("{0}")]
    Raised(String),
    /// A thread of the run ended early: a defect, please report it.
    #[error("a thread of the pipeline ended early (please report it): {0}")]
    Ended(String),
    /// Results could not be made into Arrow arrays.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    /// The query was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl RunError {
    /// No room for `what`, of `needed` bytes.
    pub(crate) fn full(budget: &MemoryBudget, what: &'static str, needed: u64) -> Self {
        Self::Memory {
            what,
            needed,
            available: budget.available(),
            limit: budget.limit(),
        }
    }

    /// Whether the device had no memory for something that may be tried again.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Device(error) if error.is_out_of_memory())
    }
}

impl From<HeapError> for RunError {
    fn from(error: HeapError) -> Self {
        match error {
            HeapError::Device(error) => Self::Device(error),
            error => Self::Heap(error),
        }
    }
}

/// What a run did, for EXPLAIN ANALYZE and the query report.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// How rows were collected.
    pub strategy: String,
    /// Why dense groups were collected so: what the model expected of this way, and of others.
    pub why: Option<String>,
    /// Whether the columns were used in place, or streamed.
    pub resident: bool,
    /// Rows of each dimension.
    pub dimension_rows: Vec<u64>,
    /// Where each dimension was looked up, and why.
    pub dimensions: Vec<String>,
    /// Chunks scanned.
    pub chunks: usize,
    /// Chunks that zone maps dropped.
    pub chunks_skipped: usize,
    /// Rows of the scanned chunks.
    pub rows: u64,
    /// Rows that passed the filters.
    pub rows_passed: u64,
    /// Encoded bytes of the scanned columns and chunks: what a scan reads from device memory if no load is skipped.
    pub device_bytes: u64,
    /// Bytes copied over the link, both ways.
    pub link_bytes: u64,
    /// Binding and generating code.
    pub generate: Duration,
    /// Compiling, or finding the compiled kernel.
    pub compile: Duration,
    /// Where the kernel came from: memory, disk, compiler.
    pub compiled: &'static str,
    /// From the first to the last of the pipeline's work on the device, as its events measured it.
    pub kernel: Duration,
    /// Making columns resident, before the kernel.
    pub transfer: Duration,
    /// Everything, on the host's clock.
    pub total: Duration,
    /// Launches of the pipeline kernel.
    pub launches: usize,
    /// Times the hash table grew.
    pub grown: usize,
    /// Pages of the device heap that output rows were in.
    pub pages: u64,
    /// Blocks of a launch.
    pub grid: u32,
    /// Fraction of the measured memory (or link) bandwidth achieved by `device_bytes` in `kernel`, where it was measured.
    pub ceiling: Option<f64>,
}

/// A run's inputs.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// The device.
    pub runtime: &'a DeviceRuntime,
    /// Settings of the query.
    pub config: &'a GalateaConfig,
    /// What to compute.
    pub plan: &'a PipelinePlan,
    /// The plan's columns, ascending.
    pub view: &'a TableView,
    /// What its rows look up.
    pub dimensions: &'a [Arc<Dimension>],
    /// Chunks that may hold matching rows.
    pub chunks: &'a [usize],
    /// Rows after which a run that returns rows stops.
    pub fetch: Option<u64>,
    /// Set when nobody waits for the result any more.
    pub cancelled: &'a AtomicBool,
    /// Its turn, once it has come, and what was known then.
    pub turn: Option<(&'a Lease<'a>, Inputs)>,
}

/// Waits for everything queued when it goes, so that no buffer of a failed run is freed under a running kernel.
struct Settle<'a>(&'a QueryStreams);

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        // A failure has been, or will be, reported by the call that needs the stream.
        for stream in &self.0.transfer {
            let _ = stream.synchronize();
        }
        let _ = self.0.compute.synchronize();
    }
}

impl Run<'_> {
    /// Runs the pipeline when its turn comes.
    pub(super) fn execute(&self) -> Result<(Vec<RecordBatch>, RunReport), RunError> {
        let memory = self.runtime.memory();
        if memory.ablations().has(Ablation::Naive) {
            return self.attempts();
        }
        let capacity = self.runtime.device().budget().limit();
        let (inputs, regions) = self.inputs();
        let demand = self.estimate(None, inputs).demand(regions);
        let (priority, came) = (self.config.priority.priority(), Instant::now());
        let turn = (memory.turns()).begin(&self.name(), priority, demand, capacity, self.cancelled);
        let turn = turn.ok_or(RunError::Cancelled)?;
        metrics::waited(came.elapsed());
        let leased = Run {
            turn: Some((&turn, inputs)),
            ..*self
        };
        loop {
            match leased.attempts() {
                // All it had is given up by now.
                Err(RunError::Memory { .. }) if turn.wait_for_room(self.cancelled) => {}
                outcome => return outcome,
            }
        }
    }

    /// Runs the pipeline, with less memory where it could not have as much as it would like.
    fn attempts(&self) -> Result<(Vec<RecordBatch>, RunReport), RunError> {
        let shape = self.shape();
        let tight = Shape {
            hash_room: 0,
            copies_room: 0,
            ..shape
        };
        let keep = self.config.cache_device.0;
        let mut roomy = false;
        let full = |error| match error {
            RunError::Device(DeviceError::OutOfMemory { requested, .. }) => {
                RunError::full(self.runtime.device().budget(), "working memory", requested)
            }
            error => error,
        };
        match self.shaped(shape, keep, &mut roomy).map_err(full) {
            // Others have taken the memory for a hash table with room for all groups, or for copies of groups; or its own pages.
            Err(RunError::Memory { .. }) if roomy || keep => {
                self.shaped(tight, false, &mut roomy).map_err(full)
            }
            outcome => outcome,
        }
    }

    /// What it does, in lists of what runs.
    fn name(&self) -> String {
        let columns: Vec<&str> = self.view.columns.iter().map(|column| &*column.name).collect();
        let does = match &self.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => "aggregate",
            SinkPlan::Aggregate { .. } => "group",
            SinkPlan::Materialise { .. } => "filter",
        };
        format!("{does} {}", columns.join(", "))
    }

    /// What is known of its demand before it begins, and the bytes of the scanned chunks of each region.
    fn inputs(&self) -> (Inputs, Vec<(usize, u64)>) {
        let memory = self.runtime.memory();
        let regions: Vec<(usize, u64)> = (self.view.columns.iter())
            .map(|column| {
                let pages = self.chunks.iter();
                let bytes = pages.map(|chunk| ColumnPages(column).page_bytes(*chunk));
                (Arc::as_ptr(&column.identity).addr(), bytes.sum())
            })
            .collect();
        let columns = self.view.columns.iter();
        let here: u64 = columns.map(|column| memory.bytes_of(&ColumnPages(column))).sum();
        let column_bytes: u64 = regions.iter().map(|(_, bytes)| bytes).sum();
        let chunk_words = CHUNK_HEADER_WORDS + self.view.columns.len() * COLUMN_WORDS;
        let inputs = Inputs {
            shape: demand::shape(self.plan, self.view),
            rows: self.rows(),
            column_bytes,
            missing_bytes: column_bytes.saturating_sub(here),
            table_bytes: (8 * chunk_words * self.chunks.len()) as u64,
            limit: self.runtime.device().budget().limit(),
        };
        (inputs, regions)
    }

    /// The working memory it is going to use, as far as it is known.
    fn estimate(&self, bound: Option<&BoundPipeline>, inputs: Inputs) -> Estimate {
        (self.runtime.demands()).estimate(self.plan, bound, inputs, self.config)
    }

    /// Says what of its demand is left: others may be waiting for that.
    fn update(&self, left: impl FnOnce() -> Option<Estimate>) {
        if let Some((lease, _)) = self.turn
            && let Some(left) = left()
        {
            lease.update_working(left.weighted(), left.peak());
        }
    }

    /// Rows of the scanned chunks.
    fn rows(&self) -> u64 {
        let rows = self
            .chunks
            .iter()
            .map(|chunk| u64::from(self.view.chunk_rows[*chunk]));
        rows.sum()
    }

    /// Remembers what a run has shown of its demand; one that may stop early shows nothing.
    fn observe(&self, bound: &BoundPipeline, batches: &[RecordBatch], report: &RunReport) {
        let Some((_, inputs)) = self.turn.filter(|_| self.fetch.is_none()) else {
            return;
        };
        let before = report.generate + report.compile + report.transfer + report.kernel;
        let run = Observed {
            sink: SinkMemory::of_bound(bound, report.rows, self.config),
            quantities: Quantities {
                rows: report.rows,
                passed: report.rows_passed as f64,
                groups: batches.iter().map(RecordBatch::num_rows).sum::<usize>() as f64,
            },
            scan: report.kernel,
            collect: report.total.saturating_sub(before),
        };
        self.runtime.demands().observe(inputs.shape, run);
    }

    /// Runs the pipeline of that shape; `keep`: whether its columns stay in device memory; `roomy`: whether it takes
    /// memory that it could do without.
    fn shaped(
        &self,
        shape: Shape,
        keep: bool,
        roomy: &mut bool,
    ) -> Result<(Vec<RecordBatch>, RunReport), RunError> {
        let start = Instant::now();
        let mut report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            dimension_rows: self.dimensions.iter().map(|d| d.rows()).collect(),
            ..Default::default()
        };
        // Nobody may wait any more when a thread is found, or when the program is compiled.
        self.check()?;
        let preparation = self.runtime.prepared().prepare(
            self.runtime.device(),
            self.plan,
            self.view,
            self.dimensions,
            shape,
        )?;
        self.check()?;
        let pipeline = &preparation.pipeline;
        *roomy = pipeline.bound.strategy.is_roomy();
        report.strategy = pipeline.bound.strategy.to_string();
        report.why = pipeline.bound.why.clone();
        report.dimensions = pipeline.bound.dimensions.clone();
        report.generate = preparation.generate;
        report.compile = preparation.compile;
        report.compiled = match preparation.compiled.map(|compiled| compiled.origin) {
            Some(Origin::Disk) => "disk",
            Some(Origin::Compiler) => "compiler",
            Some(Origin::Memory) | None => "memory",
        };

        let short = scan_bytes(self.view, self.chunks) <= LAUNCH_BYTES / 4;
        let streams = self.runtime.take_streams(self.config.priority.of_stream(short))?;
        let outcome = self.on_streams(pipeline, &streams, keep, &mut report);
        if outcome.is_ok() {
            self.runtime.give_streams(streams);
        }
        let batches = outcome?;
        report.total = start.elapsed();
        self.observe(&pipeline.bound, &batches, &report);
        let calibration = self.runtime.calibration();
        report.ceiling = calibration.filter(|_| !report.kernel.is_zero()).map(|c| {
            let rate = if report.resident { c.hbm_read } else { c.h2d };
            report.device_bytes as f64 / report.kernel.as_secs_f64() / rate
        });
        Ok((batches, report))
    }

    fn shape(&self) -> Shape {
        let info = self.runtime.device().info();
        Shape {
            block: self.config.block_threads.0,
            items: 1 << self.config.rows_per_thread.0.ilog2(),
            shared_bytes: u64::from(info.shared_memory_per_block),
            machine: self.runtime.machine(),
            collide: self.config.collide_hashes.0,
            group_by: self.config.group_by,
            group_copies: self.config.group_copies.0,
            group_combine: self.config.group_combine,
            copies_room: self.runtime.device().budget().limit() / 8,
            hash_room: self.hash_room(),
            // Rows that are waited for are drained after each launch, which chains of pages are not.
            row_output: match self.fetch {
                Some(_) => RowOutput::Direct,
                None => self.config.row_output,
            },
            dimensions: self.config.dimensions,
        }
    }

    /// Bytes of a hash table that may be made with room for all groups: none where fewer slots are asked for than usual.
    fn hash_room(&self) -> u64 {
        if self.config.hash_slots.0 < GalateaConfig::default().hash_slots.0 {
            return 0;
        }
        HASH_ROOM.min(self.runtime.device().budget().limit() / 8)
    }

    fn on_streams(
        &self,
        pipeline: &Arc<Prepared>,
        streams: &QueryStreams,
        keep: bool,
        report: &mut RunReport,
    ) -> Result<Vec<RecordBatch>, RunError> {
        let (bound, kernel) = (&pipeline.bound, &pipeline.kernel);
        report.chunks = self.chunks.len();
        report.rows = self.rows();
        report.device_bytes = scan_bytes(self.view, self.chunks);

        let estimate = (self.turn).map(|(_, inputs)| self.estimate(Some(bound), inputs));
        self.update(|| estimate.clone());
        let counted = match bound.strategy {
            Strategy::Append { counted: true } => Some(self.count(report)?),
            _ => None,
        };
        let compute = &streams.compute;
        let units = |chunk: &usize| u64::from(self.view.chunk_rows[*chunk].div_ceil(bound.unit_rows));
        let all_units: u64 = self.chunks.iter().map(units).sum();
        let grid = pipeline.resident_blocks.min(all_units).max(1) as u32;
        // Before the columns: they make do with what it leaves.
        let mut sink = SinkState::new(
            self.runtime,
            compute,
            bound,
            grid,
            report.rows,
            self.config.hash_slots.0,
            counted,
            self.fetch,
        )?;
        let grid = sink.grid();
        report.grid = grid;

        let transfer_start = Instant::now();
        let sources: Vec<_> = self.view.columns.iter().map(ColumnPages).collect();
        let mut scan = self.runtime.memory().scan(sources.iter());
        if sink.stops() {
            // What it collects may need room between launches, when pages of launches to come cannot go.
            scan.leave(self.runtime.room() / 4);
        }
        scan.make_reserve()?;
        // Rows without columns have no identity that a later run could know them by.
        let known = match sources.is_empty() {
            true => None,
            false => (self.runtime.launches()).find(pipeline, scan.pin(), self.chunks),
        };
        let fresh = known.is_none() && !sources.is_empty();
        let (mut placement, inputs) = match known {
            Some(inputs) => (Placement::kept(self.runtime.memory(), scan, &inputs), inputs),
            None => {
                scan.release();
                let (view, chunks) = (self.view, self.chunks);
                // What is not a page comes first: pages make do with what it leaves.
                let lookups = LaunchInputs::lookups(self.runtime, compute, bound)?;
                scan.make_reserve()?;
                let placement = Placement::choose(self.runtime, streams, view, chunks, scan, keep)?;
                let inputs = LaunchInputs::upload(self.runtime, compute, bound, view, &placement, lookups)?;
                (placement, Arc::new(inputs))
            }
        };
        // Declared after the placement, so that its pages stay pinned and its slots allocated until the streams are done.
        let _settle = Settle(streams);
        report.link_bytes += placement.begin(streams, self.view)?;
        report.transfer = transfer_start.elapsed();
        report.resident = placement.ready() == self.chunks.len();
        let table = &inputs.table;
        let mut args = PipelineArguments::new(&bound.parameters.literals);
        args.chunks = inputs.words.address();
        args.chunk_words = table.stride as u32;
        args.unit_rows = bound.unit_rows;
        args.units_per_chunk = table.units_per_chunk;
        for (slot, buffer) in args.tables.iter_mut().zip(&inputs.lookups) {
            *slot = buffer.address();
        }

        let mut rows = results::Rows::new(self.plan, self.view, &inputs.order, self.cancelled);
        let started = compute.record()?;
        let mut launch =
            |sink: &mut SinkState, units: Range<u32>, rows: &mut results::Rows, report: &mut RunReport| {
                let blocks = (units.end - units.start).clamp(1, grid);
                let geometry =
                    Geometry::new(blocks, bound.block).with_shared(u64::from(bound.dynamic_shared));
                self.launch(
                    kernel, geometry, streams, &mut args, sink, units, bound, rows, report,
                )
            };
        // A launch is short enough for what a block collects to fit its partial sums, and for others to have a turn.
        let most = (BLOCK_ROWS / u64::from(bound.unit_rows)).max(1) * u64::from(grid);
        let slice = most.min(self.slice(report, all_units)).max(u64::from(grid));
        let ready = placement.ready();
        let ready_units = u64::from(table.first_units[ready]);
        // A run that may stop early begins with as few units as keep the device busy, and doubles them.
        let mut step = self.fetch.map_or(slice, |_| u64::from(grid));
        let mut first = 0;
        while first < ready_units && !self.has_enough(&rows) {
            let end = first.saturating_add(step).min(ready_units);
            launch(&mut sink, first as u32..end as u32, &mut rows, report)?;
            first = end;
            step = slice.min(step.saturating_mul(2));
            if first < ready_units {
                placement.pace(streams)?;
                self.check()?;
            }
        }
        placement.launched(streams, ready)?;
        // Each update wakes those that wait: some a run are enough.
        let often = (self.chunks.len() / UPDATES).max(1);
        for position in ready..self.chunks.len() {
            self.check()?;
            if self.has_enough(&rows) {
                break;
            }
            if (position + 1) % often == 0 {
                let done = position as f64 / self.chunks.len() as f64;
                self.update(|| estimate.as_ref().map(|estimate| estimate.rest(done)));
            }
            report.link_bytes += placement.fetch(streams, self.view, position)?;
            let units = table.first_units[position]..table.first_units[position + 1];
            launch(&mut sink, units, &mut rows, report)?;
            placement.launched(streams, position + 1)?;
        }
        self.update(|| estimate.as_ref().map(Estimate::collecting));
        sink.fold(self.runtime, compute, bound)?;
        let ended = compute.record()?;
        let contents = sink.finish(self.runtime, compute, bound, &mut rows, report)?;
        if fresh && placement.is_resident() {
            let launches = self.runtime.launches();
            launches.keep(pipeline, placement.addresses(), self.chunks, Arc::clone(&inputs));
        }
        report.kernel += ended.elapsed_since(&started)?;
        report.rows_passed = contents.rows_passed;
        report.link_bytes += contents.bytes;
        raise(contents.error, bound)?;
        match bound.strategy {
            Strategy::Append { .. } | Strategy::Chains => rows.finish(),
            _ => {
                let (batches, bytes) =
                    results::groups(self.runtime, compute, self.plan, bound, &contents, self.cancelled)?;
                report.link_bytes += bytes;
                Ok(batches)
            }
        }
    }

    /// Units of a launch that takes some milliseconds, so that launches of other queries come between.
    fn slice(&self, report: &RunReport, units: u64) -> u64 {
        let unit_bytes = (report.device_bytes / units.max(1)).max(1);
        LAUNCH_BYTES / unit_bytes
    }

    /// Runs the filters alone, to learn how many rows pass.
    fn count(&self, report: &mut RunReport) -> Result<u64, RunError> {
        let plan = self.plan.counting();
        let needed = plan.columns();
        let kept: Vec<usize> = (self.plan.columns().iter().enumerate())
            .filter(|(_, column)| needed.contains(column))
            .map(|(at, _)| at)
            .collect();
        let view = TableView {
            schema: Arc::new(self.view.schema.project(&kept)?),
            columns: kept
                .iter()
                .map(|at| Arc::clone(&self.view.columns[*at]))
                .collect(),
            ..self.view.clone()
        };
        let run = Run {
            plan: &plan,
            view: &view,
            turn: None,
            ..*self
        };
        let (_, counting) = run.attempts()?;
        report.launches += counting.launches;
        report.link_bytes += counting.link_bytes;
        report.kernel += counting.kernel;
        Ok(counting.rows_passed)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one launch loop, used in one place"
    )]
    fn launch(
        &self,
        kernel: &Pipeline,
        geometry: Geometry,
        streams: &QueryStreams,
        args: &mut PipelineArguments,
        sink: &mut SinkState,
        units: Range<u32>,
        bound: &BoundPipeline,
        rows: &mut results::Rows,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        args.first_unit = units.start;
        args.end_unit = units.end;
        args.resume = 0;
        loop {
            self.check()?;
            sink.bind(args);
            kernel.launch(&streams.compute, geometry, args)?;
            report.launches += 1;
            if !sink.stops() {
                return Ok(());
            }
            let stopped = sink.drain(self.runtime, &streams.compute, bound, rows, report)?;
            if !stopped {
                return Ok(());
            }
            args.resume = 1;
        }
    }

    /// Whether the run may stop: it has the rows that are waited for.
    fn has_enough(&self, rows: &results::Rows) -> bool {
        self.fetch.is_some_and(|fetch| rows.count() >= fetch)
    }

    fn check(&self) -> Result<(), RunError> {
        check(self.cancelled)
    }
}

/// # Errors
/// [`RunError::Cancelled`], if so.
pub(super) fn check(cancelled: &AtomicBool) -> Result<(), RunError> {
    match cancelled.load(Ordering::Relaxed) {
        true => Err(RunError::Cancelled),
        false => Ok(()),
    }
}

/// The error a row raised, if any.
pub(super) fn raise(code: u32, bound: &BoundPipeline) -> Result<(), RunError> {
    if code == 0 {
        return Ok(());
    }
    let text = match ErrorCode::from_code(code) {
        Some(error) => error.to_error(&bound.parameters).to_string(),
        None => format!("a row raised the unknown error {code}"),
    };
    Err(RunError::Raised(text))
}

fn scan_bytes(view: &TableView, chunks: &[usize]) -> u64 {
    view.columns
        .iter()
        .flat_map(|column| chunks.iter().map(|c| &column.chunks[*c]))
        .map(|chunk| {
            let parts = [Some(&chunk.data), chunk.validity.as_ref(), chunk.offsets.as_ref()];
            parts
                .into_iter()
                .flatten()
                .map(|view| view.len() as u64)
                .sum::<u64>()
        })
        .sum()
}
