//! Running statements, and a bounded history of those that have ended, for the page.
//!
//! A statement is recorded if the server has an HTTP listener. While it runs, its record has a reference to
//! its plan. Its figures are computed from the plan when a snapshot needs them. When it has ended, and its
//! client has all rows, the plan becomes a document, and the plan itself is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use galatea::{QueryDevice, QueryProgress, QueryReport, ScanProgress};
use parking_lot::Mutex;

use crate::account::Account;
use crate::feed::{Ended, Progress, RunState, Running, StatementDetail, VERSION};
use crate::plan_document::{phases, plan_document, size};
use crate::shortened::shortened;

/// Maximum number of statements in the history.
const STATEMENTS: usize = 100;

/// Maximum bytes of the history.
const HISTORY_BYTES: usize = 8 << 20;

/// Maximum bytes of one statement in the history, plan included. Facts of larger plans are dropped.
const STATEMENT_BYTES: usize = 1 << 20;

/// Maximum bytes of the string of a statement, and of an error.
const TEXT_BYTES: usize = 64 << 10;

/// Maximum bytes of the string of a statement in a list.
const LISTED_BYTES: usize = 500;

/// Milliseconds since 1970.
pub(crate) fn milliseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The plan of a running statement.
#[derive(Debug)]
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    /// The scans of a plan without GPU subtrees, found by the first snapshot.
    scans: OnceLock<Option<ScanProgress>>,
}

impl Planned {
    fn progress(&self, report: Option<&QueryReport>) -> Option<QueryProgress> {
        if let Some(progress) = report.and_then(|report| report.progress) {
            return Some(progress);
        }
        match self.scans.get_or_init(|| ScanProgress::of(&self.plan)) {
            Some(scans) => Some(scans.get()),
            // CPU operators feed its GPU subtree.
            None => galatea::rows_read(&self.plan),
        }
    }
}

/// A running statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) id: u64,
    pub(crate) account: Arc<Account>,
    protocol: &'static str,
    text: Arc<str>,
    began: Instant,
    began_at: SystemTime,
    rows: AtomicU64,
    /// `None` before the execution and after the end.
    planned: Mutex<Option<Arc<Planned>>>,
    has_ended: AtomicBool,
}

impl Statement {
    pub(crate) fn new(id: u64, account: &Arc<Account>, protocol: &'static str, text: &Arc<str>) -> Self {
        Self {
            id,
            account: Arc::clone(account),
            protocol,
            text: Arc::clone(text),
            began: Instant::now(),
            began_at: SystemTime::now(),
            rows: AtomicU64::new(0),
            planned: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Records the plan that runs.
    pub(crate) fn runs(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.planned.lock() = Some(Arc::new(Planned {
            plan: Arc::clone(plan),
            scans: OnceLock::new(),
        }));
    }

    /// Records the number of rows that the client has received.
    pub(crate) fn sent(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// Whether the history has it.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn planned(&self) -> Option<Arc<Planned>> {
        self.planned.lock().clone()
    }

    /// Its state now.
    pub(crate) fn running(&self) -> Running {
        let planned = self.planned();
        let report = report(planned.as_deref());
        let admission = report.as_ref().map(|report| report.admission).unwrap_or_default();
        let state = match &planned {
            None => RunState::Planning,
            Some(_) if admission.waits() => RunState::Waiting,
            Some(_) => RunState::Running,
        };
        let progress = planned
            .as_ref()
            .and_then(|planned| planned.progress(report.as_ref()));
        let (statement, shortened) = shortened(&self.text, LISTED_BYTES);
        Running {
            id: self.id,
            user: self.account.name.clone(),
            protocol: self.protocol.to_string(),
            statement,
            shortened,
            began: milliseconds(self.began_at),
            elapsed: self.began.elapsed().as_secs_f64(),
            state,
            progress: progress.map(|progress| Progress {
                step: progress.step.to_string(),
                done: progress.done,
                total: progress.total,
            }),
            device: device(planned.as_deref(), report.as_ref()),
            demand_bytes: admission.demand,
            rows: self.rows.load(Ordering::Relaxed),
            device_bytes: report.as_ref().map_or(0, |report| report.device_bytes),
            link_bytes: report.as_ref().map_or(0, |report| report.link_bytes),
        }
    }

    /// The statement with its plan and its figures so far.
    pub(crate) fn detail(&self) -> StatementDetail {
        self.detail_of("running", None, self.began.elapsed())
    }

    fn detail_of(&self, outcome: &str, error: Option<&str>, elapsed: Duration) -> StatementDetail {
        let planned = self.planned();
        let report = report(planned.as_deref());
        let (listed, is_shortened) = shortened(&self.text, LISTED_BYTES);
        StatementDetail {
            version: VERSION,
            summary: Ended {
                id: self.id,
                user: self.account.name.clone(),
                protocol: self.protocol.to_string(),
                statement: listed,
                shortened: is_shortened,
                began: milliseconds(self.began_at),
                elapsed: elapsed.as_secs_f64(),
                outcome: outcome.to_string(),
                error: error.map(|error| shortened(error, TEXT_BYTES).0),
                device: device(planned.as_deref(), report.as_ref()),
                rows: self.rows.load(Ordering::Relaxed),
                device_bytes: report.as_ref().map_or(0, |report| report.device_bytes),
                link_bytes: report.as_ref().map_or(0, |report| report.link_bytes),
            },
            statement: shortened(&self.text, TEXT_BYTES).0,
            phases: phases(report.as_ref()),
            plan: planned.map(|planned| plan_document(&planned.plan, self.began)),
        }
    }
}

fn report(planned: Option<&Planned>) -> Option<QueryReport> {
    galatea::query_report(&planned?.plan)
}

/// Where a plan runs. A plan without a report was not offered to a device.
fn device(planned: Option<&Planned>, report: Option<&QueryReport>) -> Option<String> {
    let device = match report {
        Some(report) => report.device,
        None => planned.map(|_| QueryDevice::Cpu)?,
    };
    Some(device.to_string())
}

/// A statement that has ended.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) account: Arc<Account>,
    pub(crate) detail: StatementDetail,
    bytes: usize,
}

/// The last statements that have ended.
#[derive(Debug, Default)]
pub(crate) struct History {
    past: Mutex<Kept>,
    /// Increases with each statement.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    /// The last at the end.
    statements: VecDeque<Arc<Past>>,
    bytes: usize,
}

impl History {
    /// Adds a statement that has ended.
    pub(crate) fn add(&self, statement: &Statement, outcome: &str, error: Option<&str>, ended: Instant) {
        let elapsed = ended.saturating_duration_since(statement.began);
        let mut detail = statement.detail_of(outcome, error, elapsed);
        let mut bytes = size(&detail);
        if bytes > STATEMENT_BYTES
            && let Some(plan) = &mut detail.plan
        {
            plan.nodes.iter_mut().for_each(|node| node.facts.clear());
            plan.reasons.clear();
            plan.cut = true;
            bytes = size(&detail);
        }
        let past = Arc::new(Past {
            account: Arc::clone(&statement.account),
            detail,
            bytes,
        });
        let mut kept = self.past.lock();
        kept.bytes += past.bytes;
        kept.statements.push_back(past);
        while kept.statements.len() > STATEMENTS || (kept.bytes > HISTORY_BYTES && kept.statements.len() > 1)
        {
            if let Some(oldest) = kept.statements.pop_front() {
                kept.bytes -= oldest.bytes;
            }
        }
        self.version.fetch_add(1, Ordering::Release);
        statement.has_ended.store(true, Ordering::Release);
        // The connection may keep the statement for longer.
        statement.planned.lock().take();
    }

    /// A number that changes with each change of the history.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The statements, the last first.
    pub(crate) fn all(&self) -> Vec<Arc<Past>> {
        self.past.lock().statements.iter().rev().cloned().collect()
    }

    /// A statement by its number.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Past>> {
        let kept = self.past.lock();
        let found = kept.statements.iter().find(|past| past.detail.summary.id == id);
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Limits, Role};

    fn statement(id: u64, text: &str) -> Statement {
        let role = Arc::new(Role::local(Limits::default(), false));
        let account = Account::new("ann", &role).expect("an account");
        Statement::new(id, &account, "flight", &Arc::from(text))
    }

    #[test]
    fn history_is_bounded_by_count_and_bytes() {
        let history = History::default();
        for id in 0..STATEMENTS as u64 + 5 {
            history.add(&statement(id, "SELECT 1"), "done", None, Instant::now());
        }
        let all = history.all();
        assert_eq!((all.len(), history.version()), (STATEMENTS, 105));
        assert_eq!(all[0].detail.summary.id, 104);
        assert!(history.get(4).is_none() && history.get(5).is_some());
        let huge = "ä".repeat(1 << 20);
        for id in 200..300 {
            history.add(&statement(id, &huge), "failed", Some(&huge), Instant::now());
        }
        let kept = history.past.lock();
        assert!(kept.bytes <= HISTORY_BYTES, "{}", kept.bytes);
        let sum: usize = kept.statements.iter().map(|past| past.bytes).sum();
        assert_eq!(kept.bytes, sum);
        let last = &kept.statements.back().expect("a statement").detail;
        assert_eq!(last.statement.len(), TEXT_BYTES);
        assert!(last.summary.shortened && last.summary.statement.len() <= LISTED_BYTES);
    }
}
