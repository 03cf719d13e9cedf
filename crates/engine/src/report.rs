//! The report of a query: where it ran, why not on the GPU, and where its time went.
//!
//! A report belongs to its plan: planning makes a [`PlanReport`], the plan's `PlacementExec` keeps it, and
//! the GPU subtrees of that plan complete it, so that queries of one session that run at once have reports of
//! their own. Operators of other crates find it in the context that they are executed in. The session keeps
//! the report of the plan made last in a [`QueryReports`], an extension of its configuration, so that a front
//! (the command line's footer, a benchmark) reads it without knowing plans.

mod run;

pub use run::{PipelineId, RunReport};

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::execution::TaskContext;

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

/// Where a query's time went. Phases of different pipelines may overlap, so they need not add up to the
/// total.
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

/// What a query that runs is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStep {
    /// Scans of a plan on the CPU return rows.
    Reading,
    /// They have returned all, and operators above them go on.
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

/// How far a step of a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryProgress {
    /// The step.
    pub step: QueryStep,
    /// Rows, chunks or iterations that are done.
    pub done: u64,
    /// Those of the whole step, where known; of iterations the limit.
    pub total: Option<u64>,
}

/// The report of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryReport {
    /// Where it ran.
    pub device: QueryDevice,
    /// Why parts of it, or all, ran on the CPU; empty when nothing did.
    pub reasons: Vec<String>,
    /// Subtrees placed on the device.
    pub placed: usize,
    /// Those of them that ran on the CPU in the end.
    pub fell_back: usize,
    /// Whether its plan was that of an earlier query.
    pub plan_reused: bool,
    /// Build sides whose rows were those of an earlier execution of that plan.
    pub build_sides_reused: usize,
    /// Where its time went.
    pub phases: QueryPhases,
    /// Bytes that kernels read from device memory.
    pub device_bytes: u64,
    /// Bytes that crossed the link, both directions.
    pub link_bytes: u64,
    /// What it did last; none of a query that has not begun to run on a device.
    pub progress: Option<QueryProgress>,
}

impl QueryReport {
    /// The report of a plan with so many subtrees on a device, the emulated one or a GPU; `reasons` keep the
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

    /// Notes that an operator which chooses its device itself ran on one, the emulated one or a GPU.
    pub fn ran_on_device(&mut self, emulated: bool) {
        self.device = match self.device {
            _ if emulated => QueryDevice::Emulated,
            QueryDevice::Cpu => QueryDevice::Both,
            device => device,
        };
    }

    /// Notes that one more subtree turned out to run on the CPU.
    pub fn falls_back(&mut self, reason: &str) {
        self.fell_back += 1;
        self.device = match self.device {
            _ if self.fell_back >= self.placed => QueryDevice::Cpu,
            QueryDevice::Gpu => QueryDevice::Both,
            device => device,
        };
        self.reasons.push(reason.to_string());
    }

    /// A report of a query that runs on the CPU for `reasons`.
    pub fn cpu(reasons: Vec<String>) -> Self {
        Self {
            device: QueryDevice::Cpu,
            reasons,
            placed: 0,
            fell_back: 0,
            plan_reused: false,
            build_sides_reused: 0,
            phases: QueryPhases::default(),
            device_bytes: 0,
            link_bytes: 0,
            progress: None,
        }
    }
}

/// Operators of a query that can end early with a result, and whether they were asked to.
#[derive(Debug, Default)]
struct EarlyEnd {
    offers: AtomicUsize,
    asked: AtomicBool,
}

/// The offer of an operator to end early; it holds until it is dropped.
#[derive(Debug)]
pub struct EndOffer(Arc<EarlyEnd>);

impl EndOffer {
    /// Whether the operator was asked to end.
    pub fn is_accepted(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }
}

impl Drop for EndOffer {
    fn drop(&mut self) {
        self.0.offers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The report of one plan. Cheap to clone; clones are the same report.
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
    /// Changes the report: planning does, and execution as phases end.
    pub fn update(&self, change: impl FnOnce(&mut QueryReport)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The report of the plan that an operator of a name in `Self::READERS` is executed in.
    pub fn of(context: &TaskContext) -> Option<Arc<Self>> {
        context.session_config().get_extension()
    }

    /// Operators of other crates that complete the report themselves.
    pub(crate) const READERS: [&'static str; 1] = ["KMeansExec"];

    /// That context, with this report in it.
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

    /// Notes what the query is doing, and how far it is.
    pub fn comes_to(&self, step: QueryStep, done: u64, total: Option<u64>) {
        self.update(|report| report.progress = Some(QueryProgress { step, done, total }));
    }

    /// Offers to end the operator early, with what it has by then.
    pub fn offer_end(&self) -> EndOffer {
        self.end.offers.fetch_add(1, Ordering::Relaxed);
        EndOffer(Arc::clone(&self.end))
    }

    /// The report as it is now; executions of the plan add up.
    pub fn get(&self) -> QueryReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A session's report of the query planned last. Cheap to clone; clones share it.
#[derive(Debug, Clone, Default)]
pub struct QueryReports(Arc<Mutex<Option<PlanReport>>>);

impl QueryReports {
    /// Makes a plan's report the last one: planning does.
    pub fn record(&self, report: PlanReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The report of the query planned last, or none when none was planned since the last
    /// [`clear`](Self::clear).
    pub fn last(&self) -> Option<QueryReport> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(PlanReport::get)
    }

    /// Whether the query planned last has an operator that would end early with a result.
    pub fn offers_end(&self) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offers = |plan: &PlanReport| plan.end.offers.load(Ordering::Relaxed) > 0;
        last.as_ref()
            .is_some_and(|plan| offers(plan) && !plan.end.asked.load(Ordering::Relaxed))
    }

    /// Asks the query planned last to end early with what it has; false where no operator of it offers that,
    /// or was asked before.
    pub fn end_early(&self) -> bool {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let accept = |plan: &PlanReport| {
            plan.end.offers.load(Ordering::Relaxed) > 0 && !plan.end.asked.swap(true, Ordering::Relaxed)
        };
        last.as_ref().is_some_and(accept)
    }

    /// Forgets the report, so that a statement that plans no query leaves none.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
