//! Measures the time of a query from its start to the last row, for the [`History`](crate::history::History).

use super::decision::{self, Decision, PredictedHost};
use super::pending_warmup::{PendingWarmup, forgone, prepare};
use crate::graph::PlanKey;
use crate::history::{OneTime, RunKind};
use crate::report::{PlanReport, QueryReport};
use crate::session::Session;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Share of a run that loading and compiling may take for the run to count as warm: looking up resident
/// columns and cached kernels takes time, too.
const WARM: f64 = 0.05;

fn kind(report: &QueryReport, took: Duration) -> RunKind {
    let made = report.phases.load + report.phases.compile;
    match report.placed {
        0 => RunKind::Host,
        _ if made <= took.mul_f64(WARM) => RunKind::Warm,
        _ => RunKind::Cold,
    }
}

/// Times one execution of a plan. A query that fails, falls back or is not read to its end records nothing,
/// nor does a second execution of the plan.
pub(super) struct Timing {
    session: Arc<Session>,
    plan: PlanKey,
    /// Predicted seconds on the CPU; `None`: a LIMIT ends it sooner.
    host: Option<PredictedHost>,
    /// Subtrees without their columns or kernels on the device, and the warm-up work that the run includes.
    waiting: Vec<PendingWarmup>,
    made: Vec<OneTime>,
    /// The report of the plan's execution, which contains whether its GPU subtrees ran on the device.
    report: PlanReport,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    started: Option<Instant>,
    context: Option<Arc<TaskContext>>,
    /// Partitions that have ended.
    ended: usize,
}

impl fmt::Debug for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timing")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Timing {
    /// The timing of a plan with this decision, if its times matter.
    pub(super) fn new(session: &Arc<Session>, decision: &Decision) -> Option<Arc<Self>> {
        decision.query.map(|plan| {
            Arc::new(Self {
                session: Arc::clone(session),
                plan,
                host: decision.host,
                waiting: decision.waiting.clone(),
                made: decision.made.clone(),
                report: decision.report.clone(),
                state: Mutex::default(),
            })
        })
    }

    /// The timing of another execution of the same plan.
    pub(super) fn renewed(&self, report: PlanReport) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(&self.session),
            plan: self.plan,
            host: self.host,
            waiting: self.waiting.clone(),
            made: self.made.clone(),
            report,
            state: Mutex::default(),
        })
    }

    /// The timed stream of one of `partitions`.
    pub(super) fn watch(
        self: Arc<Self>,
        partitions: usize,
        stream: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let mut state = self.state.lock();
        state.started.get_or_insert_with(Instant::now);
        state.context.get_or_insert_with(|| Arc::clone(context));
        drop(state);
        let schema = stream.schema();
        Box::pin(RecordBatchStreamAdapter::new(
            schema,
            self.until_end(partitions, stream),
        ))
    }

    fn until_end(
        self: Arc<Self>,
        partitions: usize,
        stream: SendableRecordBatchStream,
    ) -> impl Stream<Item = Result<arrow::array::RecordBatch>> {
        let mut failed = false;
        let mut busy = Some(self.session.engine().background().busy());
        stream
            .map(Some)
            .chain(futures::stream::once(async { None }))
            .filter_map(move |item| {
                failed |= matches!(item, Some(Err(_)));
                if item.is_none() {
                    drop(busy.take());
                }
                if item.is_none() && !failed {
                    self.end(partitions);
                }
                futures::future::ready(item)
            })
    }

    /// The one-time work that a run of `took` seconds pays a share of. Its loss is scaled by the
    /// ratio of its actual to its predicted time.
    pub(super) fn forgone(&self, took: f64) -> Vec<OneTime> {
        let predicted = self.host.filter(|predicted| predicted.compared > 0.0);
        let factor = predicted.map_or(1.0, |predicted| took / predicted.compared);
        let shares = forgone(&self.waiting).into_iter();
        let scaled = |share: OneTime| OneTime {
            seconds: share.seconds * factor,
            ..share
        };
        shares.map(scaled).collect()
    }

    fn end(&self, partitions: usize) {
        let mut state = self.state.lock();
        state.ended += 1;
        if let (true, Some(started)) = (state.ended == partitions, state.started) {
            let took: Duration = started.elapsed();
            let report = self.report.get();
            // A subtree that fell back took time on both processors, so the time measures neither.
            if report.fell_back == 0 {
                let history = self.session.engine().history();
                let kind = kind(&report, took);
                let is_first = kind == RunKind::Host && history.measured(self.plan).host.is_none();
                if let Some(predicted) = self.host.filter(|_| is_first) {
                    history.took_of_predicted(took.as_secs_f64() / predicted.cautious);
                }
                history.ran(self.plan, kind, took);
                history.forgo(&self.forgone(took.as_secs_f64()));
                history.made(&self.made);
                if let Some(context) = state.context.take() {
                    prepare(
                        &self.waiting,
                        self.plan,
                        &self.session,
                        &context,
                        decision::waiting,
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::QueryPhases;

    #[test]
    fn a_run_that_loads_or_compiles_is_cold() {
        let ms = Duration::from_millis;
        let of = |placed, load, compile| {
            let phases = QueryPhases {
                load: ms(load),
                compile: ms(compile),
                ..QueryPhases::default()
            };
            let report = QueryReport {
                phases,
                ..QueryReport::planned(placed, false, Vec::new())
            };
            kind(&report, ms(100))
        };
        assert_eq!(of(0, 0, 0), RunKind::Host);
        assert_eq!([of(1, 1, 2), of(2, 0, 0)], [RunKind::Warm; 2]);
        assert_eq!([of(1, 20, 0), of(1, 0, 20)], [RunKind::Cold; 2]);
    }
}
