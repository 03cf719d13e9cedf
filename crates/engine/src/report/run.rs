//! The report of one pipeline run.

use super::page_allocations::PageAllocations;
use super::timeline::{SpanPhase, Timeline};
use galatea_memory::transfer::Method;
use galatea_store::LoadReport;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of a pipeline in its GPU subtree, in the order of execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineId(usize);

impl PipelineId {
    /// The pipeline with this number.
    pub fn new(number: usize) -> Self {
        Self(number)
    }

    /// The number of this pipeline.
    pub fn number(self) -> usize {
        self.0
    }
}

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Figures of a run, for EXPLAIN ANALYZE and the query report.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// How rows were collected.
    pub strategy: String,
    /// The generated kernel.
    pub source: Arc<str>,
    /// Why this strategy was chosen for dense groups: the expected cost of this strategy and of others.
    pub why: Option<String>,
    /// The number of partitions of the rows, or none, with the reason if there was a choice.
    pub partitions: Option<String>,
    /// Whether the columns were used in place or streamed.
    pub resident: bool,
    /// How columns that were not on the device were transferred.
    pub way: Option<Method>,
    /// Number of chunks for which a kernel waited while it ran.
    pub awaited: usize,
    /// Number of chunks that were read in device memory that another query had copied them to.
    pub shared_chunks: usize,
    /// Number of rows of each build side.
    pub build_side_rows: Vec<u64>,
    /// Where each build side was looked up, with the reason.
    pub build_sides: Vec<String>,
    /// Number of scanned chunks.
    pub chunks: usize,
    /// Number of chunks skipped by zone maps.
    pub chunks_skipped: usize,
    /// Number of rows in the scanned chunks.
    pub rows: u64,
    /// Number of rows that passed the filters.
    pub rows_passed: u64,
    /// Rows or groups that the pipeline returned.
    pub rows_returned: u64,
    /// Groups of the pipeline's hash table, if it has one.
    pub groups: Option<u64>,
    /// Encoded bytes of the scanned columns and chunks: the bytes that a scan reads from device memory if it
    /// skips no load.
    pub device_bytes: u64,
    /// Bytes copied over the link, in both directions.
    pub link_bytes: u64,
    /// The load of the columns from files before the run; none if all of them were in memory.
    pub loaded: Option<Arc<LoadReport>>,
    /// Time of binding and generating code.
    pub generate: Duration,
    /// Time of compiling the kernel, or of finding the compiled one.
    pub compile: Duration,
    /// Time of binding and compiling before the run, while other kernels of the query were compiled.
    pub ahead: Duration,
    /// Source of the kernel: memory, disk or compiler; and whether it was compiled with low effort.
    pub compiled: &'static str,
    /// Time from the first to the last of the pipeline's work on the device, measured by device events.
    pub kernel: Duration,
    /// Time of making columns resident, before the kernel.
    pub transfer: Duration,
    /// Total time on the host's clock.
    pub total: Duration,
    /// Number of launches of the pipeline kernel.
    pub launches: usize,
    /// Earlier passes over the rows, which find the rows that are needed.
    pub passes: usize,
    /// Number of ranges of the sort order that were sorted one after another because not all rows fit.
    pub sort_ranges: usize,
    /// Number of passes over the keys of the sorted rows.
    pub sort_passes: u32,
    /// Whether the rows were already in order in their table, so that nothing was sorted.
    pub in_order: bool,
    /// Number of times that the pipeline gave way to an earlier query and continued when that had ended.
    pub preemptions: usize,
    /// Number of times that the hash table grew.
    pub grown: usize,
    /// Number of pages of the device heap that held output rows.
    pub pages: u64,
    /// The allocations of all pages, if `galatea.tuning.page_statistics` is on.
    pub page_allocations: Option<PageAllocations>,
    /// Number of blocks of a launch.
    pub grid: u32,
    /// Fraction of the measured memory (or link) bandwidth achieved by `device_bytes` in `kernel`, if the
    /// bandwidth was measured.
    pub ceiling: Option<f64>,
    /// Reports of the pipelines that computed its build sides.
    pub builds: Vec<RunReport>,
    /// The report of the pipeline that partitioned the rows, if one did. Its figures are also included in
    /// this report.
    pub partitioning: Option<Box<RunReport>>,
    /// The number of the pipeline in its graph.
    pub pipeline: PipelineId,
    /// The phases of the run on the host's clock.
    pub timeline: Timeline,
}

impl RunReport {
    /// The report of the pipeline with this number, among this report and those of the build sides.
    pub(crate) fn of(&self, pipeline: PipelineId) -> Option<&Self> {
        let mut all = std::iter::once(self).chain(&self.builds);
        all.find(|report| report.pipeline == pipeline)
    }

    /// Adds an earlier pass over the same rows, which finds the rows that are needed.
    pub(crate) fn passed_before(&mut self, pass: &Self) {
        self.passes += 1;
        self.total += pass.total;
        self.add_work(pass);
    }

    /// This report restricted to the first `sides` build sides, which are those of the plan.
    pub(crate) fn of_sides(mut self, sides: usize) -> Self {
        self.build_side_rows.truncate(sides);
        self.build_sides.truncate(sides);
        self
    }

    /// The report of a pipeline after `first`, the pipeline that partitioned its rows.
    pub(crate) fn of_partitions(mut self, first: Self) -> Self {
        self.resident = first.resident;
        self.way = first.way;
        self.loaded = self.loaded.take().or_else(|| first.loaded.clone());
        self.chunks = first.chunks;
        self.chunks_skipped = first.chunks_skipped;
        self.rows = first.rows;
        self.ceiling = None;
        self.total += first.total;
        self.add_work(&first);
        self.partitioning = Some(Box::new(first));
        self
    }

    /// One report for each pipeline.
    pub(crate) fn merged(reports: Vec<Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for report in reports {
            match merged.iter_mut().find(|known| known.pipeline == report.pipeline) {
                Some(known) => known.add_part(&report),
                None => merged.push(report),
            }
        }
        merged
    }

    /// Adds a run of the same pipeline over another partition of a join or another range of an order. Each
    /// run scanned the tables once.
    pub(crate) fn add_part(&mut self, other: &Self) {
        self.rows_passed += other.rows_passed;
        self.rows = self.rows.max(other.rows);
        self.rows_returned += other.rows_returned;
        self.groups = other.groups.or(self.groups);
        self.grown += other.grown;
        self.preemptions += other.preemptions;
        self.pages += other.pages;
        if let Some(allocations) = other.page_allocations {
            self.add_page_allocations(allocations);
        }
        self.sort_ranges += other.sort_ranges;
        self.sort_passes += other.sort_passes;
        self.total += other.total;
        let sides = self.build_side_rows.iter_mut().zip(&other.build_side_rows);
        sides.for_each(|(rows, others)| *rows = (*rows).max(*others));
        self.add_work(other);
    }

    /// Adds the page allocations of a heap or of another run.
    pub(crate) fn add_page_allocations(&mut self, other: PageAllocations) {
        match &mut self.page_allocations {
            Some(allocations) => allocations.add(&other),
            none => *none = Some(other),
        }
    }

    /// Adds the figures of another pipeline of the same query.
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
        self.shared_chunks += other.shared_chunks;
        self.generate += other.generate;
        self.compile += other.compile;
        self.ahead += other.ahead;
        self.transfer += other.transfer;
        self.kernel += other.kernel;
        self.timeline.merge(&other.timeline);
    }

    /// Adds the time of the transfer of columns, which began at `begun`.
    pub(crate) fn transferred(&mut self, begun: Instant) {
        let took = begun.elapsed();
        self.transfer += took;
        self.timeline.add(SpanPhase::Transfer, begun, took);
    }

    /// Adds time of kernels on the device. The first was queued at `queued`.
    pub(crate) fn ran_kernels(&mut self, queued: Instant, took: Duration) {
        self.kernel += took;
        self.timeline.add(SpanPhase::Kernel, queued, took);
    }
}
