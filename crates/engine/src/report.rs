//! What became of a query: where it ran, why not on the GPU, and where its time went.
//!
//! The session keeps the report of its last query in a [`QueryReports`], an extension of its configuration, so that a front
//! (the command line's footer, a benchmark) reads it without knowing plans. Planning records a report; execution completes it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a query, or most of it, ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueryDevice {
    /// Everything on DataFusion's CPU operators.
    Cpu,
    /// The whole plan but the collection of its result in GPU pipelines.
    Gpu,
    /// Some subtrees in GPU pipelines, others on the CPU.
    Both,
    /// In GPU pipelines on the emulated device.
    Emulated,
}

impl fmt::Display for QueryDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Both => "GPU and CPU",
            Self::Emulated => "emulated GPU",
        })
    }
}

/// Where a query's time went. Phases of different pipelines may overlap, so they need not add up to the total.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryPhases {
    /// SQL text to physical plan.
    pub planning: Duration,
    /// Generating and compiling kernels; near zero when they were cached.
    pub compile: Duration,
    /// Reading and encoding sources into the store.
    pub load: Duration,
    /// Copies over the link, as the device's events measured them.
    pub transfer: Duration,
    /// Kernels, as the device's events measured them.
    pub kernel: Duration,
    /// From the start of planning to the last batch; zero while the query runs.
    pub total: Duration,
}

/// The report of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryReport {
    /// Where it ran.
    pub device: QueryDevice,
    /// Why parts of it, or all, ran on the CPU; empty when nothing did.
    pub reasons: Vec<String>,
    /// Where its time went.
    pub phases: QueryPhases,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes that crossed the link, both directions.
    pub link_bytes: u64,
}

impl QueryReport {
    /// Notes that a pipeline turned out to run on the CPU.
    pub fn fell_back(&mut self, reason: &str) {
        self.device = QueryDevice::Cpu;
        self.reasons.push(reason.to_string());
    }

    /// A report of a query that runs on the CPU for `reasons`.
    pub fn cpu(reasons: Vec<String>) -> Self {
        Self {
            device: QueryDevice::Cpu,
            reasons,
            phases: QueryPhases::default(),
            device_bytes: 0,
            link_bytes: 0,
        }
    }
}

/// A session's report of its last query. Cheap to clone; clones share the slot.
#[derive(Debug, Clone, Default)]
pub struct QueryReports(Arc<Mutex<Option<QueryReport>>>);

impl QueryReports {
    /// Replaces the report: planning does, for a new query.
    pub fn record(&self, report: QueryReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Changes the report in place: execution does, as phases end.
    pub fn update(&self, change: impl FnOnce(&mut QueryReport)) {
        if let Some(report) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            change(report);
        }
    }

    /// The last query's report, or none when none was planned since the last [`clear`](Self::clear).
    pub fn last(&self) -> Option<QueryReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the report, so that a statement that plans no query leaves none.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
