//! Outcomes of earlier runs of the queries of an engine.
//!
//! Six kinds of entries are kept, each of bounded number. All but the last are keyed by hashes of plans with
//! the versions of the data that they read:
//!
//! * refusals of a pipeline at run time (a repeated key of a build side, a range that is too wide): the next
//!   plan of that shape, with any literals, leaves the pipeline to the CPU without loading and compiling
//!   anything;
//! * pipelines that have run, so that their kernels are compiled for any literals, and the number of rows or
//!   groups that each returned, which is the first estimate for its next run;
//! * the time that queries have lost on the CPU because columns on the device and compiled kernels were
//!   missing, which are prepared once and serve all queries: they are prepared when that would have paid for
//!   itself;
//! * the run time of a query with GPU subtrees and without, so that a wrong prediction costs time only once
//!   or twice: a measured time takes precedence over the prediction;
//! * the least and the greatest key of build sides on the host, which bound the rows of files that the tables
//!   joined with them are loaded for;
//! * the ratio of actual to predicted time of queries that ran first on the CPU, so that predictions for
//!   queries that have not run are as good as those for others on this machine.

use crate::graph::PlanKey;
use galatea_base::reason::Reason;
use lru::LruCache;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of plans of each kind. A query of TPC-DS has about ten pipelines, and an entry that is
/// evicted between two passes over a workload is planned and compiled as if it had never run.
const KEPT: usize = 16384;

/// Maximum number of columns and kernels with recorded lost time.
const KEPT_ONCE: usize = 8192;

/// Ratios of actual to predicted time: the maximum number kept, and the minimum number for a typical ratio.
const SHARES: [usize; 2] = [31, 5];

/// Times of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Runs with GPU subtrees.
    pub device_runs: u32,
    /// Those runs that loaded and compiled nothing.
    pub warm_runs: u32,
    /// The shortest run with GPU subtrees; the first counts only if it was warm.
    pub device: Option<Duration>,
    /// Runs without GPU subtrees, since the last run with GPU subtrees.
    pub host_runs: u32,
    /// The shortest run without GPU subtrees.
    pub host: Option<Duration>,
}

/// How a query ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Without GPU subtrees.
    Host,
    /// With GPU subtrees, some of which loaded columns or compiled kernels.
    Cold,
    /// With GPU subtrees that loaded and compiled nothing.
    Warm,
}

/// Something that is prepared once and used by all queries that need it, or a share of its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneTime {
    /// A column of a table, or the kernels of a pipeline.
    pub what: PlanKey,
    /// Seconds to prepare it.
    pub seconds: f64,
}

/// The runs of a session's queries. The least recently used entries are evicted.
#[derive(Debug)]
pub struct History {
    refusals: Mutex<LruCache<PlanKey, Reason>>,
    /// Increases whenever the refusals change.
    refusals_version: AtomicU64,
    ran: Mutex<LruCache<PlanKey, Option<u64>>>,
    times: Mutex<LruCache<PlanKey, Measured>>,
    forgone: Mutex<HashMap<PlanKey, f64>>,
    key_ranges: Mutex<LruCache<PlanKey, RangeInclusive<i128>>>,
    host_shares: Mutex<VecDeque<f64>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            refusals: Mutex::new(LruCache::unbounded()),
            refusals_version: AtomicU64::new(0),
            ran: Mutex::new(LruCache::unbounded()),
            times: Mutex::new(LruCache::unbounded()),
            forgone: Mutex::default(),
            key_ranges: Mutex::new(LruCache::unbounded()),
            host_shares: Mutex::default(),
        }
    }
}

impl History {
    /// Records that a pipeline cannot run on the device.
    pub fn refuse(&self, shape: PlanKey, reason: Reason) {
        let mut refusals = self.refusals.lock();
        let known = refusals.peek(&shape) == Some(&reason);
        // A pipeline that was refused for one reason and then built in another way may have been refused for
        // another reason since.
        reason.clone_into(entry(&mut refusals, shape, || reason.clone()));
        if !known {
            self.refusals_version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A version number that changes with each change of the results of [`Self::refusal`].
    pub fn refusals_version(&self) -> u64 {
        self.refusals_version.load(Ordering::Relaxed)
    }

    /// The reason why a pipeline of that shape could not run before.
    pub fn refusal(&self, shape: PlanKey) -> Option<Reason> {
        self.refusals.lock().peek(&shape).cloned()
    }

    /// Records that a pipeline of that shape ran, so that its kernels and those of its build sides are
    /// compiled, and that it `returned` this number of rows or groups; `None` if not all were needed.
    pub fn pipeline_ran(&self, shape: PlanKey, returned: Option<u64>) {
        let mut ran = self.ran.lock();
        let known = entry(&mut ran, shape, || None);
        *known = returned.or(*known);
    }

    /// Whether a pipeline of that shape has run.
    pub fn is_compiled(&self, shape: PlanKey) -> bool {
        self.ran.lock().contains(&shape)
    }

    /// Number of rows or groups that the last pipeline of that shape returned, with any literals.
    pub fn returned(&self, shape: PlanKey) -> Option<u64> {
        self.ran.lock().peek(&shape).copied().flatten()
    }

    /// Adds time that a run on the CPU has lost because each of these was missing.
    pub fn forgo(&self, shares: &[OneTime]) {
        let mut forgone = self.forgone.lock();
        if forgone.len() + shares.len() > KEPT_ONCE {
            forgone.clear();
        }
        for share in shares {
            *forgone.entry(share.what).or_default() += share.seconds;
        }
        tracing::debug!(?shares, "a run on the CPU pays for a warm-up");
    }

    /// Seconds that runs on the CPU have lost because it was missing.
    pub fn forgone(&self, what: PlanKey) -> f64 {
        self.forgone.lock().get(&what).copied().unwrap_or(0.0)
    }

    /// Removes the lost time of items that are now prepared. If an item has to be prepared again, that is a
    /// new decision.
    pub fn made(&self, made: &[OneTime]) {
        let mut forgone = self.forgone.lock();
        for one in made {
            forgone.remove(&one.what);
        }
        tracing::debug!(?made, "a run has warmed up");
    }

    /// Records the range of the keys of a build side with these rows.
    pub fn found_keys(&self, rows: PlanKey, keys: RangeInclusive<i128>) {
        let mut ranges = self.key_ranges.lock();
        entry(&mut ranges, rows, || keys.clone()).clone_from(&keys);
    }

    /// The range of the keys of a build side with these rows, from an earlier run.
    pub fn keys(&self, rows: PlanKey) -> Option<RangeInclusive<i128>> {
        self.key_ranges.lock().peek(&rows).cloned()
    }

    /// Adds a run of a query.
    pub fn ran(&self, plan: PlanKey, kind: RunKind, took: Duration) {
        let mut times = self.times.lock();
        let measured = entry(&mut times, plan, Measured::default);
        let shortest = |known: Option<Duration>| Some(known.map_or(took, |known| known.min(took)));
        if kind == RunKind::Host {
            measured.host = shortest(measured.host);
            measured.host_runs = measured.host_runs.saturating_add(1);
            return;
        }
        let is_warm = kind == RunKind::Warm;
        if is_warm || measured.device_runs > 0 {
            measured.device = shortest(measured.device);
        }
        measured.device_runs = measured.device_runs.saturating_add(1);
        measured.warm_runs = measured.warm_runs.saturating_add(is_warm.into());
        measured.host_runs = 0;
    }

    /// Adds the ratio of actual to predicted time of a query that ran first on the CPU.
    pub fn took_of_predicted(&self, share: f64) {
        let mut shares = self.host_shares.lock();
        if shares.len() == SHARES[0] {
            shares.pop_front();
        }
        shares.push_back(share);
    }

    /// The median of these ratios; `None` if too few queries have run.
    pub fn typical_share(&self) -> Option<f64> {
        let mut shares = Vec::from(self.host_shares.lock().clone());
        shares.sort_unstable_by(f64::total_cmp);
        (shares.len() >= SHARES[1]).then(|| shares[shares.len() / 2])
    }

    /// The runs of a query.
    pub fn measured(&self, plan: PlanKey) -> Measured {
        self.times.lock().peek(&plan).copied().unwrap_or_default()
    }
}

/// The entry of a key, which becomes the most recently used.
fn entry<T>(kept: &mut LruCache<PlanKey, T>, key: PlanKey, new: impl FnOnce() -> T) -> &mut T {
    if kept.len() == KEPT && !kept.contains(&key) {
        kept.pop_lru();
    }
    kept.get_or_insert_mut(key, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_time_excludes_cold_first_device_run() {
        let (history, key) = (History::default(), PlanKey(7));
        let ms = Duration::from_millis;
        history.ran(key, RunKind::Cold, ms(1));
        assert_eq!(history.measured(key).device, None);
        history.ran(key, RunKind::Cold, ms(30));
        history.ran(key, RunKind::Host, ms(50));
        history.ran(key, RunKind::Warm, ms(20));
        history.ran(key, RunKind::Host, ms(60));
        history.ran(key, RunKind::Host, ms(70));
        let expected = Measured {
            device_runs: 3,
            warm_runs: 1,
            device: Some(ms(20)),
            host_runs: 2,
            host: Some(ms(50)),
        };
        assert_eq!(history.measured(key), expected);
        history.ran(PlanKey(9), RunKind::Warm, ms(5));
        assert_eq!(history.measured(PlanKey(9)).device, Some(ms(5)));
        assert_eq!(history.measured(PlanKey(8)), Measured::default());
    }

    #[test]
    fn refusals_version_changes_with_each_new_refusal() {
        let (history, reason) = (History::default(), Reason::EmulatedDevice);
        let before = history.refusals_version();
        history.refuse(PlanKey(1), reason.clone());
        let after = history.refusals_version();
        assert_ne!(before, after);
        history.refuse(PlanKey(1), reason.clone());
        history.ran(PlanKey(1), RunKind::Warm, Duration::from_millis(1));
        assert_eq!(history.refusals_version(), after);
        // One more than the maximum: another one is evicted.
        (2..=KEPT as u64 + 1).for_each(|key| history.refuse(PlanKey(key), reason.clone()));
        assert_ne!(history.refusals_version(), after);
    }

    #[test]
    fn lost_time_accumulates_until_column_is_prepared() {
        let history = History::default();
        let of = |what, seconds| OneTime {
            what: PlanKey(what),
            seconds,
        };
        history.forgo(&[of(1, 0.5), of(2, 0.25)]);
        history.forgo(&[of(1, 0.5)]);
        assert_eq!(
            [1, 2, 3].map(|what| history.forgone(PlanKey(what))),
            [1.0, 0.25, 0.0]
        );
        history.made(&[of(1, 7.0)]);
        assert_eq!([1, 2].map(|what| history.forgone(PlanKey(what))), [0.0, 0.25]);
        (0..KEPT_ONCE as u64).for_each(|what| history.forgo(&[of(what, 1.0)]));
        assert!(history.forgone.lock().len() <= KEPT_ONCE);
    }

    #[test]
    fn last_range_of_keys_is_kept() {
        let history = History::default();
        history.found_keys(PlanKey(1), 3..=9);
        history.found_keys(PlanKey(1), 4..=5);
        assert_eq!(history.keys(PlanKey(1)), Some(4..=5));
        assert_eq!(history.keys(PlanKey(2)), None);
    }

    #[test]
    fn typical_share_is_the_median_of_recent_runs() {
        let history = History::default();
        (0..4).for_each(|_| history.took_of_predicted(2.0));
        assert_eq!(history.typical_share(), None);
        history.took_of_predicted(9.0);
        assert_eq!(history.typical_share(), Some(2.0));
        (0..100).for_each(|number| history.took_of_predicted(f64::from(number)));
        assert_eq!(history.typical_share(), Some(84.0));
    }

    #[test]
    fn history_records_compiled_pipelines_and_row_counts() {
        let history = History::default();
        assert!(!history.is_compiled(PlanKey(3)));
        history.pipeline_ran(PlanKey(3), Some(17));
        history.pipeline_ran(PlanKey(3), None);
        assert!(history.is_compiled(PlanKey(3)) && !history.is_compiled(PlanKey(4)));
        assert_eq!([3, 4].map(|key| history.returned(PlanKey(key))), [Some(17), None]);
        history.pipeline_ran(PlanKey(3), Some(5));
        assert_eq!(history.returned(PlanKey(3)), Some(5));
    }

    #[test]
    fn least_recently_used_plans_are_evicted_from_history() {
        let history = History::default();
        let reason = Reason::Device {
            detail: "gone".into(),
        };
        for key in 0..=KEPT as u64 {
            history.refuse(PlanKey(key), reason.clone());
            history.refuse(PlanKey(1), reason.clone());
        }
        assert_eq!(history.refusal(PlanKey(0)), None);
        assert_eq!(history.refusal(PlanKey(1)), Some(reason));
    }
}
