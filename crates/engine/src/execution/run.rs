//! One pipeline over encoded columns on one device, start to end.

use super::built::{BuildSide, BuiltSides, BuiltTable};
use super::columns::ColumnPages;
use super::demand::{self, Estimate, Inputs, Observed, Quantities, SinkMemory};
use super::error::RunError;
use super::pass::{Pass, Progress};
use super::prepared::{Preparation, Prepared};
use super::run_report::RunReport;
use super::sinks::{SinkNeeds, SinkState};
use crate::config::{GalateaConfig, RowOutput};
use crate::expression::ErrorCode;
use crate::metrics;
use crate::pipeline::bound::BoundPipeline;
use crate::pipeline::options::KernelOptions;
use crate::pipeline::strategy::Strategy;
use crate::pipeline::{PipelinePlan, SinkPlan};
use crate::report::PlanReport;
use crate::runtime::{DeviceRuntime, QueryStreams};
use arrow::array::RecordBatch;
use galatea_device::{DeviceError, Origin};
use galatea_kernels::{CHUNK_HEADER_WORDS, COLUMN_WORDS};
use galatea_memory::regions::{Ablation, Demand, Lease, Source, Use};
use galatea_store::{Column, TableView};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes that a launch scans at most: about 4 ms of device memory's rate.
pub(super) const LAUNCH_BYTES: u64 = 16 << 30;

/// Bytes of a hash table that is made fully sized: clearing so much takes a quarter of a millisecond.
const HASH_ROOM: u64 = 1 << 30;

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
    pub sides: &'a [BuildSide],
    /// Chunks that may hold matching rows.
    pub chunks: &'a [usize],
    /// Whether groups stay on the device, for another pipeline.
    pub keep: bool,
    /// Rows after which a run that returns rows stops.
    pub fetch: Option<u64>,
    /// Set when nobody waits for the result any more.
    pub cancelled: &'a AtomicBool,
    /// Where it notes how far it is.
    pub progress: &'a PlanReport,
}

/// A query's turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn<'t> {
    /// Its place among others.
    pub lease: &'t Lease<'t>,
    /// What was known of its demand when its turn came; none of a run within another.
    pub inputs: Option<Inputs>,
}

impl Turn<'_> {
    /// Says what of its demand is left: others may be waiting for that.
    pub(super) fn update(self, left: Option<Estimate>) {
        if let (Some(left), Some(_)) = (left, self.inputs) {
            self.lease.update_working(left.weighted(), left.peak());
        }
    }
}

/// What a run makes.
#[derive(Debug)]
pub(super) enum Output {
    /// Rows, or groups.
    Batches(Vec<RecordBatch>),
    /// A build side, or groups for another pipeline, parked.
    Built(Box<BuiltTable>),
}

impl Output {
    fn rows(&self) -> u64 {
        match self {
            Self::Batches(batches) => batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            Self::Built(table) => table.rows,
        }
    }
}

impl<'a> Run<'a> {
    /// Runs the pipeline when its turn comes.
    pub(super) fn execute(&self) -> Result<(Output, RunReport), RunError> {
        if let SinkPlan::Materialise {
            outputs,
            top: Some(top),
        } = &self.plan.sink
        {
            return self.execute_top(outputs, top);
        }
        let memory = self.runtime.memory();
        let naive = memory.ablations().has(Ablation::Naive);
        let capacity = self.runtime.device().budget().limit();
        let (inputs, regions) = self.inputs();
        let demand = match naive {
            true => Demand::default(),
            false => self.estimate(None, inputs).demand(regions),
        };
        let (priority, came) = (self.config.priority.priority(), Instant::now());
        let lease = (memory.turns()).begin(&self.name(), priority, demand, capacity, self.cancelled);
        let lease = lease.ok_or(RunError::Cancelled)?;
        metrics::waited(came.elapsed());
        let turn = Turn {
            lease: &lease,
            inputs: Some(inputs),
        };
        loop {
            match self.attempts(turn) {
                // All it had is given up by now.
                Err(RunError::Memory { .. }) if !naive && lease.wait_for_room(self.cancelled) => {}
                Err(RunError::Memory {
                    what,
                    needed,
                    available,
                    limit,
                    ..
                }) => {
                    return Err(RunError::Memory {
                        what,
                        needed,
                        available,
                        limit,
                        query: self.description().into(),
                    });
                }
                outcome => return outcome,
            }
        }
    }

    /// What it does and reads, for errors.
    fn description(&self) -> String {
        let columns = self.view.columns.iter().zip(self.regions());
        let columns = columns.map(|(column, (_, bytes))| format!("{} ({bytes} bytes)", column.name));
        format!(
            "{} over columns {}",
            self.does(),
            columns.collect::<Vec<_>>().join(", ")
        )
    }

    /// Runs the pipeline, with less memory where it could not have as much as it would like.
    fn attempts(&self, turn: Turn<'_>) -> Result<(Output, RunReport), RunError> {
        let shape = self.shape();
        let tight = KernelOptions {
            hash_table_bytes: 0,
            copies_bytes: 0,
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
        match self.shaped(turn, shape, keep, &mut roomy).map_err(full) {
            // Others have taken the memory for a fully sized hash table, or for copies of groups; or its own
            // pages.
            Err(RunError::Memory { .. }) if roomy || keep => {
                self.shaped(turn, tight, false, &mut roomy).map_err(full)
            }
            outcome => outcome,
        }
    }

    /// What it does, in lists of what runs.
    fn name(&self) -> String {
        let columns: Vec<&str> = self.view.columns.iter().map(|column| &*column.name).collect();
        format!("{} {}", self.does(), columns.join(", "))
    }

    fn does(&self) -> &'static str {
        match &self.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => "aggregate",
            SinkPlan::Aggregate { .. } => "group",
            SinkPlan::Materialise { .. } => "filter",
            SinkPlan::Build { .. } | SinkPlan::BuildGroups { .. } => "build",
        }
    }

    /// What is known of its demand before it begins, and the bytes of the scanned chunks of each region.
    fn inputs(&self) -> (Inputs, Vec<(usize, u64)>) {
        let memory = self.runtime.memory();
        let regions = self.regions();
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

    /// The regions it reads, with the bytes of the scanned chunks.
    fn regions(&self) -> Vec<(usize, u64)> {
        let bytes = |column: &Arc<Column>| -> u64 {
            let pages = self.chunks.iter();
            pages.map(|chunk| ColumnPages(column).page_bytes(*chunk)).sum()
        };
        let columns = self.view.columns.iter();
        columns
            .map(|column| (Arc::as_ptr(&column.identity).addr(), bytes(column)))
            .collect()
    }

    /// The working memory it is going to use, as far as it is known.
    fn estimate(&self, bound: Option<&BoundPipeline>, inputs: Inputs) -> Estimate {
        (self.runtime.demands()).estimate(self.plan, bound, inputs, self.config)
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
    fn observe(&self, turn: Turn<'_>, bound: &BoundPipeline, output: &Output, report: &RunReport) {
        let (Some(inputs), None) = (turn.inputs, self.fetch) else {
            return;
        };
        let before = report.generate + report.compile + report.transfer + report.kernel;
        let run = Observed {
            sink: SinkMemory::of_bound(bound, report.rows, self.config),
            quantities: Quantities {
                rows: report.rows,
                passed: report.rows_passed as f64,
                groups: output.rows() as f64,
            },
            scan: report.kernel,
            collect: report.total.saturating_sub(before),
        };
        self.runtime.demands().observe(inputs.shape, run);
    }

    /// Runs the pipeline of that shape; `keep`: whether its columns stay in device memory; `roomy`: whether
    /// it takes memory that it could do without.
    fn shaped(
        &self,
        turn: Turn<'_>,
        shape: KernelOptions,
        keep: bool,
        roomy: &mut bool,
    ) -> Result<(Output, RunReport), RunError> {
        let start = Instant::now();
        let mut report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            dimension_rows: self.sides.iter().map(BuildSide::rows).collect(),
            ..Default::default()
        };
        // Nobody may wait any more when a thread is found, or when the program is compiled.
        self.check()?;
        let preparation = self.prepare_as(shape)?;
        self.check()?;
        let pipeline = &preparation.pipeline;
        *roomy = pipeline.bound.strategy.uses_optional_memory();
        report.strategy = pipeline.bound.strategy.to_string();
        report.source = Arc::clone(&pipeline.bound.source);
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
        let outcome = self.on_streams(pipeline, &streams, turn, keep, &mut report);
        if outcome.is_ok() {
            self.runtime.give_streams(streams);
        }
        let output = outcome?;
        report.total = start.elapsed();
        self.observe(turn, &pipeline.bound, &output, &report);
        let calibration = self.runtime.calibration();
        report.ceiling = calibration.filter(|_| !report.kernel.is_zero()).map(|c| {
            let rate = if report.resident { c.hbm_read } else { c.h2d };
            report.device_bytes as f64 / report.kernel.as_secs_f64() / rate
        });
        Ok((output, report))
    }

    /// Compiles its kernel, unless it is compiled.
    pub(super) fn prepare(&self) -> Result<Preparation, RunError> {
        self.prepare_as(self.shape())
    }

    fn prepare_as(&self, shape: KernelOptions) -> Result<Preparation, RunError> {
        let dimensions: Vec<_> = self.sides.iter().map(BuildSide::dimension).collect();
        let (device, prepared) = (self.runtime.device(), self.runtime.prepared());
        prepared.prepare(device, self.plan, self.view, &dimensions, shape)
    }

    fn shape(&self) -> KernelOptions {
        let info = self.runtime.device().info();
        KernelOptions {
            block: self.config.block_threads.0,
            items: 1 << self.config.rows_per_thread.0.ilog2(),
            shared_bytes: u64::from(info.shared_memory_per_block),
            machine: self.runtime.machine(),
            collide: self.config.collide_hashes.0,
            group_by: self.config.group_by,
            group_copies: self.config.group_copies.0,
            group_combine: self.config.group_combine,
            copies_bytes: self.runtime.device().budget().limit() / 8,
            hash_table_bytes: self.hash_table_bytes(),
            // Rows that are waited for are drained after each launch, which chains of pages are not.
            row_output: match self.fetch {
                Some(_) => RowOutput::Direct,
                None => self.config.row_output,
            },
            dimensions: self.config.dimensions,
        }
    }

    /// Bytes that a fully sized hash table may have: none where fewer slots are asked for than usual.
    fn hash_table_bytes(&self) -> u64 {
        if self.config.hash_slots.0 < GalateaConfig::default().hash_slots.0 {
            return 0;
        }
        HASH_ROOM.min(self.runtime.device().budget().limit() / 8)
    }

    fn on_streams(
        &self,
        pipeline: &Arc<Prepared>,
        streams: &QueryStreams,
        turn: Turn<'_>,
        keep: bool,
        report: &mut RunReport,
    ) -> Result<Output, RunError> {
        let bound = &pipeline.bound;
        report.chunks = self.chunks.len();
        report.rows = self.rows();
        report.device_bytes = scan_bytes(self.view, self.chunks);

        let estimate = turn.inputs.map(|inputs| self.estimate(Some(bound), inputs));
        turn.update(estimate.clone());
        let counted = match bound.strategy {
            Strategy::Append { counted: true } => Some(self.count(turn, report)?),
            _ => None,
        };
        let grid = pipeline.resident_blocks.min(self.morsels(bound)).max(1) as u32;
        let needs = SinkNeeds {
            owner: turn.lease.number(),
            rows: report.rows,
            hash_slots: self.config.hash_slots.0,
            counted,
            fetch: self.fetch,
            keep: self.keep,
        };
        let memory = self.runtime.memory();
        let mut sides = BuiltSides::of(self.sides);
        if !memory.grant(&mut sides.uses())? {
            let needed = sides.uses().iter().map(Use::bytes).sum();
            return Err(RunError::full(
                self.runtime.device().budget(),
                "build sides",
                needed,
            ));
        }
        sides.used_by(&streams.compute)?;
        // Before the columns: they make do with what it leaves.
        let sink = SinkState::new(self.runtime, &streams.compute, bound, grid, &needs)?;
        report.grid = sink.grid();
        let progress = Progress::of(sink, estimate);
        let mut pass = self.pass(pipeline, streams, turn, keep, &sides, progress, report)?;
        loop {
            let mut progress = match pass {
                Pass::Done(output) => return Ok(output),
                Pass::GaveWay(progress) => progress,
            };
            report.gave_way += 1;
            sides.park();
            loop {
                let waited = turn.lease.wait_for_room(self.cancelled);
                self.check()?;
                let mut uses = progress.sink.uses();
                uses.extend(sides.uses());
                if memory.grant(&mut uses)? {
                    break;
                }
                if !waited {
                    let needed = uses.iter().map(Use::bytes).sum();
                    let what = "what the query has collected so far";
                    return Err(RunError::full(self.runtime.device().budget(), what, needed));
                }
            }
            sides.used_by(&streams.compute)?;
            pass = self.pass(pipeline, streams, turn, keep, &sides, *progress, report)?;
        }
    }

    /// Units of all chunks.
    pub(super) fn morsels(&self, bound: &BoundPipeline) -> u64 {
        let morsels = |chunk: &usize| u64::from(self.view.chunk_rows[*chunk].div_ceil(bound.morsel_rows));
        self.chunks.iter().map(morsels).sum()
    }

    /// Runs the filters alone, to learn how many rows pass.
    fn count(&self, turn: Turn<'_>, report: &mut RunReport) -> Result<u64, RunError> {
        let within = Turn { inputs: None, ..turn };
        let plan = self.plan.counting();
        let (_, counting) = self.over(&plan, &self.view_of(&plan)?).attempts(within)?;
        report.launches += counting.launches;
        report.link_bytes += counting.link_bytes;
        report.kernel += counting.kernel;
        Ok(counting.rows_passed)
    }

    /// The columns that another pipeline over the same rows reads: some of these.
    pub(super) fn view_of(&self, plan: &PipelinePlan) -> Result<TableView, RunError> {
        let needed = plan.columns();
        let kept: Vec<usize> = (self.plan.columns().iter().enumerate())
            .filter(|(_, column)| needed.contains(column))
            .map(|(at, _)| at)
            .collect();
        Ok(TableView {
            schema: Arc::new(self.view.schema.project(&kept)?),
            columns: kept
                .iter()
                .map(|at| Arc::clone(&self.view.columns[*at]))
                .collect(),
            ..self.view.clone()
        })
    }

    /// The run of another pipeline over the same rows.
    pub(super) fn over<'b>(&'b self, plan: &'b PipelinePlan, view: &'b TableView) -> Run<'b> {
        Run {
            plan,
            view,
            keep: false,
            ..*self
        }
    }

    pub(super) fn check(&self) -> Result<(), RunError> {
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
