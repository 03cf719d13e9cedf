//! The report of a query: where it ran, why it did not run on the GPU, and the time of each phase.
//!
//! A report belongs to its plan: planning creates a [`PlanReport`], the plan's `PlacementExec` keeps it, and
//! the GPU subtrees of that plan complete it, so that concurrent queries of one session have separate
//! reports. Operators of other crates find the report in the context of their execution. The session keeps
//! the report of the last plan in a [`QueryReports`], an extension of its configuration, so that a front end
//! (the command line's footer, a benchmark) reads it without access to plans.

mod admission;
mod page_allocations;
mod run;
mod timeline;

pub use admission::QueryAdmission;
pub(crate) use admission::{PipelineDemand, StarvedPipeline};
pub use page_allocations::PageAllocations;
pub use run::{PipelineId, RunReport};
pub use timeline::{Span, SpanPhase, Timeline};

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::execution::TaskContext;

/// Where a query, or most of it, ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueryDevice {
    /// DataFusion's CPU operators ran everything.
    Cpu,
    /// All of the plan except the collection of its result ran in GPU pipelines.
    Gpu,
    /// Some subtrees ran in GPU pipelines, others on the CPU.
    Both,
    /// GPU pipelines on the emulated device.
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

/// Time of each phase of a query. Phases of different pipelines may overlap, so they need not add up to the
/// total.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryPhases {
    /// From SQL text to physical plan.
    pub planning: Duration,
    /// Generating and compiling kernels; near zero if they were cached.
    pub compile: Duration,
    /// Reading and encoding sources into the store.
    pub load: Duration,
    /// Copies over the link, measured by device events.
    pub transfer: Duration,
    /// Kernels, measured by device events.
    pub kernel: Duration,
    /// From the start of planning to the last batch; zero while the query runs.
    pub total: Duration,
}

/// The current step of a running query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStep {
    /// Scans of a plan on the CPU return rows.
    Reading,
    /// Scans have returned all rows, and operators above them continue.
    Computing,
    /// Reading and encoding columns.
    Loading,
    /// Generating and compiling kernels.
    Compiling,
    /// Copying chunks and launching kernels over them.
    Running,
    /// Iterations of a clustering.
    Clustering,
}

impl fmt::Display for QueryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reading => "reading",
            Self::Computing => "computing",
            Self::Loading => "loading",
            Self::Compiling => "compiling",
            Self::Running => "running",
            Self::Clustering => "clustering",
        })
    }
}

/// Progress of a step of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryProgress {
    /// The step.
    pub step: QueryStep,
    /// Rows, chunks or iterations done so far.
    pub done: u64,
    /// Number of rows, chunks or iterations of the whole step, if available; for iterations, the limit.
    pub total: Option<u64>,
}

/// The report of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryReport {
    /// Where the query ran.
    pub device: QueryDevice,
    /// Reasons why all or parts of it ran on the CPU; empty if none did.
    pub reasons: Vec<String>,
    /// Number of subtrees placed on the device.
    pub placed: usize,
    /// Number of placed subtrees that ran on the CPU in the end.
    pub fell_back: usize,
    /// Whether the query reused the plan of an earlier query.
    pub plan_reused: bool,
    /// Whether the result is that of an equal query that ran at the same time. That query's report has the
    /// times and bytes.
    pub is_shared: bool,
    /// Number of build sides that were reused from an earlier execution of the plan.
    pub build_sides_reused: usize,
    /// Time of each phase.
    pub phases: QueryPhases,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes transferred over the link, in both directions.
    pub link_bytes: u64,
    /// The last progress; `None` if the query has not begun to run on a device.
    pub progress: Option<QueryProgress>,
    /// Its pipelines that run on a device or wait for it.
    pub admission: QueryAdmission,
}

impl QueryReport {
    /// The report of a plan with `placed` subtrees on a device, the emulated one or a GPU. `reasons` keep the
    /// rest on the CPU.
    pub fn planned(placed: usize, emulated: bool, reasons: Vec<String>) -> Self {
        let device = match (placed, emulated, reasons.is_empty()) {
            (0, ..) => QueryDevice::Cpu,
            (_, true, _) => QueryDevice::Emulated,
            (_, false, true) => QueryDevice::Gpu,
            (_, false, false) => QueryDevice::Both,
        };
        Self {
            device,
            placed,
            ..Self::cpu(reasons)
        }
    }

    /// Records that an operator which chooses its device itself ran on a device, the emulated one or a GPU.
    pub fn ran_on_device(&mut self, emulated: bool) {
        self.device = match self.device {
            _ if emulated => QueryDevice::Emulated,
            QueryDevice::Cpu => QueryDevice::Both,
            device => device,
        };
    }

    /// Records that one more subtree fell back to the CPU.
    pub fn falls_back(&mut self, reason: &str) {
        self.fell_back += 1;
        self.device = match self.device {
            _ if self.fell_back >= self.placed => QueryDevice::Cpu,
            QueryDevice::Gpu => QueryDevice::Both,
            device => device,
        };
        self.reasons.push(reason.to_string());
    }

    /// The report of a query that runs on the CPU for `reasons`.
    pub fn cpu(reasons: Vec<String>) -> Self {
        Self {
            device: QueryDevice::Cpu,
            reasons,
            placed: 0,
            fell_back: 0,
            plan_reused: false,
            is_shared: false,
            build_sides_reused: 0,
            phases: QueryPhases::default(),
            device_bytes: 0,
            link_bytes: 0,
            progress: None,
            admission: QueryAdmission::default(),
        }
    }
}

/// Number of operators of a query that can end early with a result, and whether they were requested to.
#[derive(Debug, Default)]
struct EarlyEnd {
    offers: AtomicUsize,
    asked: AtomicBool,
}

/// The offer of an operator to end early. It holds until it is dropped.
#[derive(Debug)]
pub struct EndOffer(Arc<EarlyEnd>);

impl EndOffer {
    /// Whether the operator was requested to end.
    pub fn is_accepted(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }
}

impl Drop for EndOffer {
    fn drop(&mut self) {
        self.0.offers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The report of one plan. It is cheap to clone, and clones share the report.
#[derive(Debug, Clone)]
pub struct PlanReport {
    report: Arc<Mutex<QueryReport>>,
    end: Arc<EarlyEnd>,
}

impl Default for PlanReport {
    fn default() -> Self {
        Self {
            report: Arc::new(Mutex::new(QueryReport::cpu(Vec::new()))),
            end: Arc::default(),
        }
    }
}

impl PlanReport {
    /// Changes the report. Planning calls this, and so does execution when phases end.
    pub fn update(&self, change: impl FnOnce(&mut QueryReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The report of the plan of this context, for the operators in `Self::READERS`.
    pub fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// Operators of other crates that complete the report themselves.
    pub(crate) const READERS: [&'static str; 1] = ["KMeansExec"];

    /// The context with this report as an extension.
    pub(crate) fn within(&self, context: &TaskContext) -> Arc<TaskContext> {
        let config = context
            .session_config()
            .clone()
            .with_extension(Arc::new(self.clone()));
        Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        ))
    }

    /// Records the current step of the query and its progress.
    pub fn comes_to(&self, step: QueryStep, done: u64, total: Option<u64>) {
        self.update(|report| report.progress = Some(QueryProgress { step, done, total }));
    }

    /// Offers to end the operator early, with its result so far.
    pub fn offer_end(&self) -> EndOffer {
        self.end.offers.fetch_add(1, Ordering::Relaxed);
        EndOffer(Arc::clone(&self.end))
    }

    /// The current report; executions of the plan add up.
    pub fn get(&self) -> QueryReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A session's report of the last planned query. It is cheap to clone, and clones share the report.
#[derive(Debug, Clone, Default)]
pub struct QueryReports(Arc<Mutex<Option<PlanReport>>>);

impl QueryReports {
    /// Records a plan's report as the last one; called by planning.
    pub fn record(&self, report: PlanReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The report of the last planned query, or `None` if no query was planned since the last
    /// [`clear`](Self::clear).
    pub fn last(&self) -> Option<QueryReport> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(PlanReport::get)
    }

    /// Whether the last planned query has an operator that offers to end early with a result.
    pub fn offers_end(&self) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offers = |plan: &PlanReport| plan.end.offers.load(Ordering::Relaxed) > 0;
        last.as_ref()
            .is_some_and(|plan| offers(plan) && !plan.end.asked.load(Ordering::Relaxed))
    }

    /// Requests that the last planned query end early with its result so far. Returns false if no operator of
    /// the query offers that, or if it was requested before.
    pub fn end_early(&self) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let accept = |plan: &PlanReport| {
            plan.end.offers.load(Ordering::Relaxed) > 0 && !plan.end.asked.swap(true, Ordering::Relaxed)
        };
        last.as_ref().is_some_and(accept)
    }

    /// Clears the report, so that a statement that plans no query leaves none.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
