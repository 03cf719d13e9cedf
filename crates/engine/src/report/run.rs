//! What a run did.

use galatea_memory::transfer::Method;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Number of a pipeline among those of its GPU subtree, in the order in which they run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineId(usize);

impl PipelineId {
    /// The pipeline of that number.
    pub fn new(number: usize) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> usize {
        self.0
    }
}

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// What a run did, for EXPLAIN ANALYZE and the query report.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// How rows were collected.
    pub strategy: String,
    /// The generated kernel.
    pub source: Arc<str>,
    /// Why dense groups were collected so: what the model expected of this way, and of others.
    pub why: Option<String>,
    /// How many partitions its rows were brought into, or none, and why, where there was a choice.
    pub partitions: Option<String>,
    /// Whether the columns were used in place, or streamed.
    pub resident: bool,
    /// How columns that were not on the device came there.
    pub way: Option<Method>,
    /// Chunks that a kernel waited for while it ran.
    pub awaited: usize,
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
    /// Rows or groups that it returned.
    pub rows_returned: u64,
    /// Groups of its hash table, if it has one.
    pub groups: Option<u64>,
    /// Encoded bytes of the scanned columns and chunks: what a scan reads from device memory if no load is
    /// skipped.
    pub device_bytes: u64,
    /// Bytes copied over the link, both ways.
    pub link_bytes: u64,
    /// Binding and generating code.
    pub generate: Duration,
    /// Compiling, or finding the compiled kernel.
    pub compile: Duration,
    /// Binding and compiling before the run, while other kernels of the query were compiled.
    pub ahead: Duration,
    /// Where the kernel came from: memory, disk, compiler; and whether it is the one of little effort.
    pub compiled: &'static str,
    /// From the first to the last of the pipeline's work on the device, as its events measured it.
    pub kernel: Duration,
    /// Making columns resident, before the kernel.
    pub transfer: Duration,
    /// Everything, on the host's clock.
    pub total: Duration,
    /// Launches of the pipeline kernel.
    pub launches: usize,
    /// Passes over the rows that came before, to learn which of them are wanted.
    pub passes: usize,
    /// Ranges of an order that were sorted one after another, since not all rows fit.
    pub sort_ranges: usize,
    /// Passes over the keys of rows that were sorted.
    pub sort_passes: u32,
    /// Whether the rows were in order as they are in their table, so that nothing was sorted.
    pub in_order: bool,
    /// Times it gave way to a query that came before it, and went on when that had ended.
    pub gave_way: usize,
    /// Times the hash table grew.
    pub grown: usize,
    /// Pages of the device heap that output rows were in.
    pub pages: u64,
    /// Blocks of a launch.
    pub grid: u32,
    /// Fraction of the measured memory (or link) bandwidth achieved by `device_bytes` in `kernel`, where it
    /// was measured.
    pub ceiling: Option<f64>,
    /// Of the pipelines that made its build sides.
    pub builds: Vec<RunReport>,
    /// Of the pipeline that brought its rows into partitions, if one did; what it did is in this report, too.
    pub partitioning: Option<Box<RunReport>>,
    /// The number of the pipeline in its graph.
    pub pipeline: PipelineId,
}

impl RunReport {
    /// The report of the pipeline of that number, among its own and those of its build sides.
    pub(crate) fn of(&self, pipeline: PipelineId) -> Option<&Self> {
        let mut all = std::iter::once(self).chain(&self.builds);
        all.find(|report| report.pipeline == pipeline)
    }

    /// Adds a pass over the same rows that came before, to learn which of them are wanted.
    pub(crate) fn passed_before(&mut self, pass: &Self) {
        self.passes += 1;
        self.total += pass.total;
        self.add_work(pass);
    }

    /// The same of the first build sides alone, which a plan has.
    pub(crate) fn of_sides(mut self, sides: usize) -> Self {
        self.dimension_rows.truncate(sides);
        self.dimensions.truncate(sides);
        self
    }

    /// The report of a pipeline whose rows the pipeline of `first` brought into partitions.
    pub(crate) fn of_partitions(mut self, first: Self) -> Self {
        self.resident = first.resident;
        self.way = first.way;
        self.chunks = first.chunks;
        self.chunks_skipped = first.chunks_skipped;
        self.rows = first.rows;
        self.ceiling = None;
        self.total += first.total;
        self.add_work(&first);
        self.partitioning = Some(Box::new(first));
        self
    }

    /// Adds the same pipeline's run over another part of a join, or of an order; tables were scanned once for
    /// each.
    pub(crate) fn add_part(&mut self, other: &Self) {
        self.rows_passed += other.rows_passed;
        self.rows = self.rows.max(other.rows);
        self.rows_returned += other.rows_returned;
        self.groups = other.groups.or(self.groups);
        self.grown += other.grown;
        self.gave_way += other.gave_way;
        self.pages += other.pages;
        self.sort_ranges += other.sort_ranges;
        self.sort_passes += other.sort_passes;
        self.total += other.total;
        let sides = self.dimension_rows.iter_mut().zip(&other.dimension_rows);
        sides.for_each(|(rows, others)| *rows = (*rows).max(*others));
        self.add_work(other);
    }

    /// Adds what another pipeline of the same query did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.chunks_skipped += other.chunks_skipped;
        self.rows += other.rows;
        self.add_work(other);
    }

    fn add_work(&mut self, other: &Self) {
        self.device_bytes += other.device_bytes;
        self.link_bytes += other.link_bytes;
        self.launches += other.launches;
        self.awaited += other.awaited;
        self.generate += other.generate;
        self.compile += other.compile;
        self.ahead += other.ahead;
        self.transfer += other.transfer;
        self.kernel += other.kernel;
    }
}
