//! One run of a pipeline over encoded columns on one device, from start to end.

use super::part_run::PartRun;
use crate::config::{CompileEffort, GalateaConfig, PersistentScan, RowOutput};
use crate::device::check;
use crate::device::demand::{self, Estimate, Inputs};
use crate::device::prepared::Preparation;
use crate::device::{DeviceRuntime, RunError};
use crate::joins::build_table::{BuiltTable, SideRows};
use crate::report::{PipelineId, PlanReport};
use crate::results::queue::ResultQueue;
use crate::transfer::arrivals;
use galatea_base::policy::policy;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bound::BoundPipeline;
use galatea_codegen::options::KernelOptions;
use galatea_kernels::heap::HeapBuild;
use galatea_kernels::{CHUNK_HEADER_WORDS, COLUMN_WORDS};
use galatea_memory::regions::{AdmissionTicket, Source};
use galatea_store::{Column, TableView};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum number of bytes that a launch scans: about 4 ms at the bandwidth of device memory.
pub(super) const LAUNCH_BYTES: u64 = 16 << 30;

policy! {
    /// Which pipelines run on the thread of their query.
    pub(super) struct BriefPolicy {
        /// Maximum duration of an earlier run in milliseconds. Another thread begins 0.1 to 0.3 ms after the
        /// request, and the query continues as long after it has ended; operators of the CPU occupy a thread
        /// as long for a batch.
        milliseconds: f64 = 2.0,
    }
}

/// Bytes of a hash table that is allocated fully sized: clearing this size takes a quarter of a millisecond.
const FULLY_SIZED_BYTES: u64 = 1 << 30;

/// A run's inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// The device.
    pub runtime: &'a DeviceRuntime,
    /// Settings of the query.
    pub config: &'a GalateaConfig,
    /// The number of the pipeline.
    pub pipeline: PipelineId,
    /// The computation.
    pub plan: &'a PipelinePlan,
    /// The plan's columns, ascending.
    pub view: &'a TableView,
    /// The build sides that its rows look up.
    pub sides: &'a [SideRows],
    /// Chunks that may hold matching rows.
    pub chunks: &'a [usize],
    /// Whether groups stay on the device, for another pipeline.
    pub keep: bool,
    /// Number of rows after which a run that returns rows stops.
    pub fetch: Option<u64>,
    /// Number of rows that a run returns, if earlier passes have counted them.
    pub counted: Option<u64>,
    /// Set when the query is cancelled.
    pub cancelled: &'a AtomicBool,
    /// Receives the rows or groups that the run returns.
    pub result: &'a ResultQueue,
    /// Receives the progress of the run.
    pub progress: &'a PlanReport,
    /// The partition of a join that it runs over, if the join runs in partitions.
    pub part: Option<PartRun<'a>>,
}

/// Admission of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted<'t> {
    /// Its place in the queue.
    pub ticket: &'t AdmissionTicket<'t>,
    /// Inputs of its demand estimate at admission; `None` for a nested run.
    pub inputs: Option<Inputs>,
}

impl Admitted<'_> {
    /// Updates the remaining demand; other queries may be waiting for it.
    pub(super) fn update(self, left: Option<Estimate>) {
        if let (Some(left), Some(_)) = (left, self.inputs) {
            self.ticket.update_working(left.weighted(), left.peak());
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub(super) enum Output {
    /// Number of rows or groups in the result queue.
    Returned(u64),
    /// A build side, or groups for another pipeline, parked.
    Built(Box<BuiltTable>),
}

impl Output {
    /// The output together with the build sides that it looked up, if it is a part of a join.
    pub(super) fn joined(self, sides: &mut [SideRows]) -> Self {
        match self {
            Self::Returned(rows) => Self::Returned(rows),
            Self::Built(table) => Self::Built(Box::new(table.joined(sides))),
        }
    }

    /// Combines this output with that of the run over another partition of the same rows, which uses the same
    /// sink.
    pub(super) fn and(self, next: Self) -> Self {
        match (self, next) {
            (Self::Returned(before), Self::Returned(rows)) => Self::Returned(before + rows),
            (_, next) => next,
        }
    }

    pub(super) fn rows(&self) -> u64 {
        match self {
            Self::Returned(rows) => *rows,
            Self::Built(table) => table.rows,
        }
    }
}

impl<'a> Run<'a> {
    /// Operation and columns of the run, for errors.
    pub(super) fn description(&self) -> String {
        let columns = self.view.columns.iter().zip(self.regions());
        let columns = columns.map(|(column, (_, bytes))| format!("{} ({bytes} bytes)", column.name));
        format!(
            "{} over columns {}",
            self.plan.sink.verb(),
            columns.collect::<Vec<_>>().join(", ")
        )
    }

    /// Operation and columns of the run, for lists of running queries.
    pub(super) fn name(&self) -> String {
        let columns: Vec<&str> = self.view.columns.iter().map(|column| &*column.name).collect();
        format!("{} {}", self.plan.sink.verb(), columns.join(", "))
    }

    /// Inputs of its demand estimate before it begins, and the bytes of the scanned chunks of each region.
    pub(super) fn inputs(&self) -> (Inputs, Vec<(usize, u64)>) {
        let memory = self.runtime.memory();
        let regions = self.regions();
        let columns = self.view.columns.iter();
        let here: u64 = columns.map(|column| memory.bytes_of(&**column)).sum();
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

    /// Whether it runs on the thread of its query: another thread is not worthwhile if it is
    /// [short](Self::is_short), and does not wait for the device behind a longer run.
    pub(super) fn is_brief(&self) -> bool {
        self.runtime.memory().admission().are_brief() && self.is_short(self.inputs().0)
    }

    /// Whether an earlier run of its shape was short, and all of its input is in device memory.
    pub(super) fn is_short(&self, inputs: Inputs) -> bool {
        let known = self.runtime.demands().time(inputs.shape, inputs.rows);
        let brief = Duration::from_secs_f64(BriefPolicy::DEFAULT.milliseconds / 1e3);
        inputs.missing_bytes == 0 && known.is_some_and(|time| time <= brief)
    }

    /// The regions that it reads, with the bytes of the scanned chunks.
    fn regions(&self) -> Vec<(usize, u64)> {
        let bytes = |column: &Arc<Column>| -> u64 {
            let pages = self.chunks.iter();
            pages.map(|chunk| column.page_bytes(*chunk)).sum()
        };
        let columns = self.view.columns.iter();
        columns
            .map(|column| (Arc::as_ptr(&column.identity).addr(), bytes(column)))
            .collect()
    }

    /// Estimate of the working memory that it will use.
    pub(super) fn estimate(&self, bound: Option<&BoundPipeline>, inputs: Inputs) -> Estimate {
        (self.runtime.demands()).estimate(self.plan, bound, inputs, self.config)
    }

    /// Number of rows in the scanned chunks.
    pub(super) fn rows(&self) -> u64 {
        let rows = self
            .chunks
            .iter()
            .map(|chunk| u64::from(self.view.chunk_rows[*chunk]));
        rows.sum()
    }

    /// Compiles its kernel, unless that is cached.
    pub(super) fn prepare(&self) -> Result<Preparation, RunError> {
        self.prepare_as(self.kernel_options())
    }

    pub(super) fn prepare_as(&self, options: KernelOptions) -> Result<Preparation, RunError> {
        let build_sides: Vec<_> = self.sides.iter().map(SideRows::build_side).collect();
        let (device, prepared) = (self.runtime.device(), self.runtime.prepared());
        prepared.prepare(device, self.plan, self.view, &build_sides, options)
    }

    pub(super) fn kernel_options(&self) -> KernelOptions {
        let info = self.runtime.device().info();
        KernelOptions {
            block: self.config.block_threads.0,
            items: 1 << self.config.rows_per_thread.0.ilog2(),
            shared_bytes: u64::from(info.shared_memory_per_block),
            machine: self.runtime.machine(),
            awaits: self.awaits(),
            collide: self.config.collide_hashes.0,
            quick: match self.config.compile {
                CompileEffort::Auto => !info.emulated,
                effort => effort == CompileEffort::Quick,
            },
            group_by: self.config.aggregate_strategy,
            group_copies: self.config.aggregate_replicas.0,
            group_combine: self.config.preaggregation,
            copies_bytes: self.runtime.device().budget().limit() / 8,
            hash_table_bytes: self.hash_table_bytes(),
            // LIMIT: rows must reach the host after each launch; page chains are read only at the end.
            row_output: match self.fetch {
                Some(_) => RowOutput::Direct,
                None => self.config.row_output,
            },
            in_order: self.may_be_in_order(),
            heap: HeapBuild {
                search: self.config.page_search.search(),
                check: info.emulated,
                count: self.config.page_statistics.0,
            },
            build_sides: self.config.lookup_memory,
            selection: self.config.selection,
        }
    }

    /// Whether its launches may wait for chunks: if chunks are transferred for each query, and are small.
    fn awaits(&self) -> bool {
        let (bytes, chunks) = (scan_bytes(self.view, self.chunks), self.chunks.len() as u64);
        // A run that may stop early transfers only the chunks that it reads.
        if self.fetch.is_some() || chunks == 0 {
            return false;
        }
        let stays = self.config.cache_device.0 && bytes <= self.runtime.device().budget().limit() / 2;
        match self.config.persistent_scan {
            PersistentScan::Auto if stays => false,
            scan => chunks > 1 && arrivals::waits(self.runtime, scan, bytes / chunks),
        }
    }

    /// Whether a hash table may start larger than the configured size. It may not if the setting is below its
    /// default.
    pub(super) fn sizes_tables(&self) -> bool {
        self.config.hash_slots.0 >= GalateaConfig::default().hash_slots.0
    }

    /// Maximum number of bytes of a fully sized hash table.
    fn hash_table_bytes(&self) -> u64 {
        if !self.sizes_tables() {
            return 0;
        }
        FULLY_SIZED_BYTES.min(self.runtime.device().budget().limit() / 8)
    }

    /// Number of morsels in the scanned chunks.
    pub(super) fn morsels(&self, bound: &BoundPipeline) -> u64 {
        let morsels = |chunk: &usize| u64::from(self.view.chunk_rows[*chunk].div_ceil(bound.morsel_rows));
        self.chunks.iter().map(morsels).sum()
    }

    /// The columns that another pipeline over the same rows reads, a subset of this run's columns.
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
            counted: None,
            part: None,
            ..*self
        }
    }

    pub(super) fn check(&self) -> Result<(), RunError> {
        check(self.cancelled)
    }
}

/// Bytes of the columns of these chunks, as kernels read them.
pub(super) fn scan_bytes(view: &TableView, chunks: &[usize]) -> u64 {
    let columns = view.columns.iter();
    columns.map(|column| column.scan_bytes_of(chunks)).sum()
}
