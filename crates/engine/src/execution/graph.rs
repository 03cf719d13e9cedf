//! The pipelines of a placed subtree: those of its build sides first, then the one that looks them up.
//!
//! ```text
//! lineitem ── filter ── lookup orders ── lookup part ── groups        one pipeline
//!                             │               └── rows of CPU operators, arranged on the host
//!                             └── orders ── filter ── lookup customer ── arrays by o_orderkey        another, before it
//! ```
//!
//! A build side whose rows are a table's, after filters and lookups of its own, is made by a pipeline and
//! never leaves the device. Build sides of one pipeline are made at the same time.

use super::built::SideRows;
use super::dimensions;
use super::error::{Failure, RunError};
use super::ready::Ready;
use super::result_queue::ResultQueue;
use super::run::{Output, Run};
use super::run_report::RunReport;
use super::source::{entries, load, parts, surviving};
use crate::config::GalateaConfig;
use crate::expression::{Dimension, PAIR_CHUNK_BITS};
use crate::metrics::{self, PipelineOutcome};
use crate::placement::{BuildSide, PipelineSource, Subtree};
use crate::reason::Reason;
use crate::report::{PlanReport, QueryStep};
use crate::runtime::Runtime;
use arrow::datatypes::Schema;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::future::{BoxFuture, try_join_all};
use galatea_store::{LoadProgress, ProgressCallback, TableId, TableView};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Pairs of a join at most: their morsels have numbers of 32 bits.
const MAX_PAIRS: u64 = 1 << 38;

/// The rows that are the pairs of a join, in chunks whose pairs a kernel can number.
fn pairs_view(pairs: u64) -> Result<TableView, RunError> {
    let chunk = 1u64 << PAIR_CHUNK_BITS;
    if pairs > MAX_PAIRS {
        return Err(RunError::Unsupported(Reason::Limit {
            expression: "a join".into(),
            asked: pairs,
            limit: MAX_PAIRS,
            unit: "pairs of rows",
        }));
    }
    let chunks = (0..pairs.div_ceil(chunk)).map(|number| (pairs - number * chunk).min(chunk) as u32);
    Ok(TableView {
        id: TableId::next(),
        schema: Arc::new(Schema::empty()),
        rows: pairs,
        chunk_rows: chunks.collect(),
        columns: Vec::new(),
    })
}

/// One execution of a subtree.
pub(super) struct Graph<'a> {
    pub runtime: &'a Arc<Runtime>,
    pub config: &'a GalateaConfig,
    pub context: &'a Arc<TaskContext>,
    pub report: &'a PlanReport,
    /// Grows by what is collected on the host.
    pub memory: &'a MemoryReservation,
    /// Set when the query is cancelled.
    pub cancelled: Arc<AtomicBool>,
    /// Takes the rows of the node.
    pub result: &'a Arc<ResultQueue>,
    /// Of the pipelines that made build sides, in the order of their ends.
    pub builds: Mutex<Vec<RunReport>>,
    /// What is there before the pipelines run.
    pub ready: Mutex<Ready>,
}

impl Graph<'_> {
    /// Runs the pipeline of a subtree after those of its build sides; `keep`: its groups stay on the device.
    /// `at` says which build side it is, see [`RunReport::side`].
    pub(super) fn run<'s>(
        &'s self,
        subtree: &'s Subtree,
        keep: bool,
        at: Vec<usize>,
    ) -> BoxFuture<'s, Result<(Output, RunReport), Failure>> {
        Box::pin(async move {
            let started = Instant::now();
            let plan = subtree.plan.resolved().map_err(Failure::Input)?;
            let sides = subtree.dimensions.iter().enumerate().map(|(number, source)| {
                let at = [at.as_slice(), &[number]].concat();
                self.side(source, plan.lookups_of(number), at)
            });
            let sides = try_join_all(sides).await?;
            let source = &subtree.source;
            let view = match (source, sides.last()) {
                (PipelineSource::Groups(_), Some(groups)) => entries(groups.rows()).map_err(Failure::Run)?,
                (PipelineSource::Union { parts: number, .. }, Some(_)) => {
                    let rows = sides[sides.len() - number..].iter().map(SideRows::rows);
                    parts(&rows.collect::<Vec<_>>()).map_err(Failure::Run)?
                }
                (PipelineSource::Windows(_), Some(rows)) => entries(rows.rows()).map_err(Failure::Run)?,
                (PipelineSource::Pairs(_), Some(pairs)) => pairs_view(pairs.rows()).map_err(Failure::Run)?,
                _ => match self.take_view(&at) {
                    Some(view) => view,
                    None => {
                        let progress = self.loading();
                        load(self.runtime, source, &plan, self.config, self.context, progress)
                            .await
                            .map_err(Failure::Store)?
                    }
                },
            };
            self.report.comes_to(QueryStep::Compiling, 0, None);
            let load_time = started.elapsed();
            self.report.update(|report| report.phases.load += load_time);
            let columns: Vec<usize> = plan.columns().into_iter().collect();
            let chunks = match source {
                // Parts are known by the numbers of their chunks, empty ones too.
                PipelineSource::Union { parts, .. } => (0..*parts).collect(),
                _ => surviving(&view, &subtree.pruning, &columns),
            };
            let fetch = subtree.fetch.map(|fetch| fetch as u64);
            let (runtime, config) = (Arc::clone(self.runtime), self.config.clone());
            let (cancelled, result) = (Arc::clone(&self.cancelled), Arc::clone(self.result));
            let progress = self.report.clone();
            let run = tokio::task::spawn_blocking(move || {
                let device = runtime.device(&config).map_err(RunError::Unsupported)?;
                let run = Run {
                    runtime: &device,
                    config: &config,
                    plan: &plan,
                    view: &view,
                    sides: &[],
                    chunks: &chunks,
                    keep,
                    fetch,
                    cancelled: &cancelled,
                    result: &result,
                    progress: &progress,
                };
                let outcome = run.execute_over(sides);
                match &outcome {
                    Ok((_, report)) => metrics::ran(&device.device_use(), report),
                    // The task that would count it is gone.
                    Err(RunError::Cancelled) => metrics::ended(PipelineOutcome::Cancelled),
                    Err(_) => {}
                }
                if matches!(&outcome, Err(RunError::Device(error)) if error.is_device_lost()) {
                    runtime.forget(&device);
                }
                outcome
            });
            let outcome = run
                .await
                .unwrap_or_else(|error| Err(RunError::Ended(error.to_string())));
            outcome.map_err(Failure::from)
        })
    }

    /// The table of the pipeline there, if it is loaded.
    fn take_view(&self, at: &[usize]) -> Option<TableView> {
        self.ready.lock().view(at)
    }

    /// Notes how far a load is.
    pub(super) fn loading(&self) -> ProgressCallback {
        let report = self.report.clone();
        Arc::new(move |load: LoadProgress| {
            report.comes_to(QueryStep::Loading, load.rows_done, load.rows_total);
        })
    }

    /// Collects a build side from CPU operators, unless another run of the same plan has.
    pub(super) async fn collected(
        &self,
        source: &BuildSide,
        columns: Vec<usize>,
    ) -> Result<Arc<Dimension>, Failure> {
        let stamps = source.shared.stamps();
        if let Some(rows) = stamps.as_ref().and_then(|now| source.shared.get(now)) {
            self.report.update(|report| report.build_sides_reused += 1);
            return Ok(rows);
        }
        let collected = dimensions::collect(source, columns, self.context, self.memory).await?;
        if let Some(stamps) = stamps {
            source.shared.leave(stamps, &collected);
        }
        Ok(collected)
    }

    /// Makes a build side, of which `columns` are looked up.
    async fn side(
        &self,
        source: &BuildSide,
        columns: Vec<usize>,
        at: Vec<usize>,
    ) -> Result<SideRows, Failure> {
        let Some(build) = &source.build else {
            let ready = self.ready.lock().rows(&at);
            return match ready {
                Some(rows) => rows,
                None => self.collected(source, columns).await,
            }
            .map(SideRows::Collected);
        };
        match self.run(&build.subtree, true, at.clone()).await {
            Ok((Output::Built(table), report)) => {
                self.builds.lock().push(RunReport { side: at, ..report });
                Ok(SideRows::Built(Box::new(Mutex::new(*table))))
            }
            Ok((Output::Returned(_), _)) => unreachable!("a build sink leaves a build side"),
            // Known of its rows, however they are built.
            Err(Failure::Run(RunError::Unsupported(reason))) if reason.is_repeated_key() => {
                Err(Failure::Dimension(source.shape, reason))
            }
            // Known of this build side, whatever pipeline looks it up.
            Err(Failure::Run(RunError::Unsupported(reason))) if !matches!(reason, Reason::Device { .. }) => {
                Err(Failure::Dimension(build.shape, reason))
            }
            Err(failure) => Err(failure),
        }
    }
}
