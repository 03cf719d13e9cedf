//! Chooses CPU or GPU, for a subtree ([`decide`]) and for a whole query ([`reason_for_cpu`]).
//!
//! `galatea.device = 'gpu'` and `'emulated'` place every supported subtree on the device without a
//! comparison. With `'auto'`, `Assessment::compared` (`assessment.rs`) calls [`decide`] for each subtree, and
//! `decision.rs` calls [`reason_for_cpu`] for the query. Before that, `find.rs` has found the pipelines of
//! the subtree, and `Assessment::supported` has refused subtrees without work, those that an earlier run
//! refused, and, with `'auto'`, subtrees without a table of `galatea.tuning.min_rows` rows, filters over few
//! groups, and rows that CPU operators compute. A supported subtree runs on the device if
//!
//! ```text
//! hot + unpaid <= CPU
//!
//! hot      seconds on the device, with columns in device memory and kernels compiled
//! unpaid   seconds of the warm-up (loading columns, compiling kernels), less twice the seconds lost so far
//! CPU      seconds on the CPU; if columns or kernels are missing, a lower bound
//! ```
//!
//! Estimates of joins that multiply rows can be too high by factors of a hundred. If they raise the CPU's
//! time by a factor of 4 or more, and the CPU appears faster, both are compared again as if no operator
//! multiplied rows. A pipeline over a table never does.
//!
//! This is ski rental: a run on the CPU loses `CPU - hot` seconds because the device is cold. When runs have
//! lost half of the time of the warm-up (`investment` in `cost/device.rs`), it counts as paid. Until then the
//! subtree runs on the CPU and the background warms up. EXPLAIN prints the terms: `hot`, `unpaid` and `CPU`
//! of a subtree on the device, `warm`, `cold`, `CPU` and the paid share of one that warms up.
//!
//! A paid warm-up that takes much longer than the run on the CPU is left to the background as well
//! ([`Candidate::is_left_to_background`]). The query warms up itself if runs have lost a multiple of its time
//! by then: the background had no idle cores.
//!
//! The background searches plans for subtrees to warm up, with [`Candidate::defers`]. In such a search, the
//! formula is not enough for a subtree with a missing column or kernel: its verdict is [`Verdict::WarmUp`] if
//! `hot <= CPU`.
//!
//! A query keeps its GPU subtrees if they save a quarter of its time or more, since predictions are not
//! better than that. Once it has run both ways, only the measured times decide ([`reason_for_cpu`]).

use crate::history::Measured;
use galatea_base::policy::policy;
use galatea_base::reason::{Basis, Reason};
use std::time::Duration;

policy! {
    /// Constants of the decision between CPU and device.
    pub(super) struct PlacementPolicy {
        /// Lowest expected ratio of the CPU's measured time to its predicted time.
        doubt: f64 = 0.7,
        /// Factor by which multiplied rows must raise the predicted time on the CPU for both processors to be
        /// compared without them, too.
        multiplied: f64 = 4.0,
        /// Share of a query's predicted time that its GPU subtrees must be expected to save: predictions are
        /// not better than that.
        gain: f64 = 0.25,
        /// A run on the device that warms up first takes at most this many times the run on the CPU or
        /// `wait_seconds` longer, if the background can warm up.
        wait: f64 = 2.0,
        /// Seconds, see `wait`.
        wait_seconds: f64 = 0.5,
        /// Multiple of the time of the warm-up that runs on the CPU must have lost for a query to warm up
        /// however long that takes: the background has had the time and did not warm up, because queries use
        /// all cores.
        overdue: f64 = 2.0,
        /// The first query of a process waits for the start of the GPU if its run on the CPU takes at least
        /// this many times the start: the wait takes at most a twentieth of the query.
        worth_starting: f64 = 20.0,
        /// Runs on the device before a slower time sends the query to the CPU, because the first runs do
        /// one-time work: the first loads and compiles, the second some work that the model omits. One run is
        /// enough if a warm run and a run on the CPU were measured.
        trials: u32 = 3,
        /// Factors on the CPU's measured and predicted time. If a run on the device takes longer than that,
        /// the query returns to the CPU before all `trials`.
        far: [f64; 2] = [1.25, 3.0],
        /// Warm runs on the device after which a query that was slower there stays on the CPU. Fewer runs may
        /// have been slow because another process used the device or the cores.
        warm_trials: u32 = 3,
        /// Runs on the CPU after which a query runs on the device again, up to `warm_trials` warm runs.
        retry: u32 = 10,
    }
}

pub(super) const POLICY: PlacementPolicy = PlacementPolicy::DEFAULT;

/// A subtree that the device supports. All times are in seconds, predicted, and corrected by measured runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// Time on the device with columns in device memory and kernels compiled.
    pub(super) hot: f64,
    /// Time of the whole warm-up; 0: nothing is missing.
    pub(super) warm_up: f64,
    /// Time of the warm-up that no run on the CPU has paid for.
    pub(super) unpaid: f64,
    /// Time that runs on the CPU have lost because the warm-up had not been done.
    pub(super) lost: f64,
    /// Time on the CPU.
    pub(super) cpu: f64,
    /// Lower bound of the time on the CPU, which assumes that no operator multiplies rows.
    pub(super) least_cpu: f64,
    /// Whether the background can warm up.
    pub(super) background: bool,
    /// Whether everything that is missing is left to the background, even if the formula holds.
    pub(super) defers: bool,
}

/// Where a subtree runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// On the device, which warms up first if something is missing.
    Device,
    /// On the CPU, because columns or kernels are missing. The device would be faster after the warm-up.
    WarmUp,
    /// On the CPU, which is faster.
    Cpu,
}

impl Candidate {
    /// Time of a run on the device that warms up first.
    pub(super) fn cold(&self) -> f64 {
        self.hot + self.warm_up
    }

    /// Whether the warm-up is left to the background even if it is paid for, because the query would take
    /// much longer with it than on the CPU.
    fn is_left_to_background(&self) -> bool {
        let is_overdue = self.lost >= POLICY.overdue * self.warm_up;
        let longest = (POLICY.wait * self.cpu).max(self.cpu + POLICY.wait_seconds);
        self.defers || self.background && !is_overdue && self.cold() > longest
    }

    /// Share of the warm-up that runs on the CPU have paid, 0 to 0.99.
    pub(super) fn paid(&self) -> f64 {
        (1.0 - self.unpaid / self.warm_up.max(f64::MIN_POSITIVE)).clamp(0.0, 0.99)
    }
}

/// Predicted seconds as a duration.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Decides where a subtree runs.
pub(super) fn decide(candidate: &Candidate) -> Verdict {
    let Candidate { hot, unpaid, cpu, .. } = *candidate;
    let is_warm = candidate.warm_up == 0.0;
    let compared = if is_warm { cpu } else { candidate.least_cpu };
    let pays = hot + unpaid <= compared;
    match pays && (is_warm || !candidate.is_left_to_background()) {
        true => Verdict::Device,
        false if hot <= cpu => Verdict::WarmUp,
        false => Verdict::Cpu,
    }
}

/// The reason why all of a query runs on the CPU, from its measured times; `None` if its GPU subtrees stay.
/// `whole` is the predicted time of the query, and `gain` the time that its GPU subtrees are expected to
/// save, both in seconds. A query that has not run on the device runs on the CPU if `gain` is too small a
/// share of `whole`.
pub(super) fn reason_for_cpu(measured: Measured, gain: f64, whole: f64) -> Option<Reason> {
    // A measured run corrects the prediction for the whole query. If it took longer than predicted, the time
    // on the device is as predicted, and the difference is saved, too.
    let (gain, whole) = measured.host.map_or((gain, whole), |host| {
        let host = host.as_secs_f64();
        (gain + (host - whole).max(0.0), host)
    });
    let Some(device) = measured.device else {
        if measured.device_runs > 0 {
            // The first run has loaded the columns. The next run measures the time without loading.
            return None;
        }
        return (gain < POLICY.gain * whole).then(|| Reason::Gain {
            saved: seconds(gain),
            of: seconds(whole),
        });
    };
    let (cpu, cpu_basis) = match measured.host {
        Some(host) => (host, Basis::Measured),
        None => (seconds(whole), Basis::Predicted),
    };
    let is_gain = gain >= POLICY.gain * whole;
    let is_far = device > cpu.mul_f64(POLICY.far[usize::from(cpu_basis != Basis::Measured)]);
    let is_known = measured.warm_runs > 0 && cpu_basis == Basis::Measured;
    if !is_known && measured.device_runs < POLICY.trials && is_gain && !is_far {
        return None;
    }
    if measured.warm_runs < POLICY.warm_trials && measured.host_runs >= POLICY.retry && is_gain {
        return None;
    }
    // If the CPU's time is a prediction and the CPU may be as fast, one run on the CPU measures it.
    let doubt = match cpu_basis {
        Basis::Measured => 1.0,
        _ => POLICY.doubt,
    };
    (device > cpu.mul_f64(doubt)).then_some(Reason::Cost {
        device,
        device_basis: Basis::Measured,
        cpu,
        cpu_basis,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subtree with resident columns and compiled kernels.
    const WARM: Candidate = Candidate {
        hot: 0.1,
        warm_up: 0.0,
        unpaid: 0.0,
        lost: 0.0,
        cpu: 0.2,
        least_cpu: 0.05,
        background: true,
        defers: false,
    };

    #[test]
    fn warm_subtree_runs_on_faster_processor() {
        assert_eq!(decide(&WARM), Verdict::Device);
        let equal = Candidate { cpu: 0.1, ..WARM };
        assert_eq!(decide(&equal), Verdict::Device);
        let slower = Candidate { cpu: 0.09, ..WARM };
        assert_eq!(decide(&slower), Verdict::Cpu);
        let deferred = Candidate { defers: true, ..WARM };
        assert_eq!(decide(&deferred), Verdict::Device, "nothing is left to make");
    }

    #[test]
    fn unpaid_warm_up_is_part_of_the_time_on_the_device() {
        let cold = Candidate {
            warm_up: 0.1,
            unpaid: 0.1,
            cpu: 0.2,
            least_cpu: 0.2,
            ..WARM
        };
        assert_eq!(decide(&cold), Verdict::Device, "0.1 + 0.1 <= 0.2");
        let dearer = Candidate { unpaid: 0.11, ..cold };
        assert_eq!(decide(&dearer), Verdict::WarmUp);
        let paid = Candidate {
            unpaid: 0.0,
            ..dearer
        };
        assert_eq!(decide(&paid), Verdict::Device);
        let deferred = Candidate { defers: true, ..paid };
        assert_eq!(decide(&deferred), Verdict::WarmUp);
    }

    #[test]
    fn long_warm_up_is_left_to_the_background_until_it_is_overdue() {
        let paid = Candidate {
            hot: 1.0,
            warm_up: 3.0,
            lost: 2.0,
            cpu: 2.0,
            least_cpu: 2.0,
            ..WARM
        };
        assert_eq!(decide(&paid), Verdict::Device, "1.0 + 3.0 <= 2 * 2.0");
        let short = Candidate {
            hot: 0.1,
            warm_up: 0.6,
            cpu: 0.2,
            least_cpu: 0.2,
            ..paid
        };
        assert_eq!(decide(&short), Verdict::Device, "0.1 + 0.6 <= 0.2 + 0.5");
        let long = Candidate { warm_up: 3.1, ..paid };
        assert_eq!(decide(&long), Verdict::WarmUp);
        let alone = Candidate {
            background: false,
            ..long
        };
        assert_eq!(decide(&alone), Verdict::Device);
        let overdue = Candidate { lost: 6.2, ..long };
        assert_eq!(decide(&overdue), Verdict::Device);
    }

    #[test]
    fn cold_subtree_is_compared_with_cautious_cpu_prediction() {
        let cold = Candidate {
            warm_up: 0.02,
            unpaid: 0.02,
            ..WARM
        };
        assert_eq!(
            decide(&cold),
            Verdict::WarmUp,
            "0.12 <= 0.2, but the CPU may take 0.05"
        );
        let known = Candidate {
            least_cpu: 0.2,
            ..cold
        };
        assert_eq!(decide(&known), Verdict::Device);
        let hopeless = Candidate { cpu: 0.05, ..cold };
        assert_eq!(decide(&hopeless), Verdict::Cpu);
    }

    #[test]
    fn paid_warm_up_share_is_capped_at_99_percent() {
        let half = Candidate {
            warm_up: 1.0,
            unpaid: 0.5,
            ..WARM
        };
        assert_eq!((half.paid(), half.cold()), (0.5, 1.1));
        assert_eq!(Candidate { unpaid: 0.0, ..half }.paid(), 0.99);
        assert_eq!(Candidate { unpaid: 1.0, ..half }.paid(), 0.0);
    }

    /// A query with these runs, in milliseconds.
    fn measured(device: Option<u64>, device_runs: u32, warm_runs: u32, host: Option<u64>) -> Measured {
        Measured {
            device_runs,
            warm_runs,
            device: device.map(Duration::from_millis),
            host_runs: host.is_some().into(),
            host: host.map(Duration::from_millis),
        }
    }

    #[test]
    fn unmeasured_query_needs_minimum_predicted_gain() {
        let none = Measured::default();
        assert_eq!(reason_for_cpu(none, 0.25, 1.0), None);
        let little = reason_for_cpu(none, 0.2, 1.0);
        assert!(matches!(little, Some(Reason::Gain { .. })), "{little:?}");
        let on_cpu = measured(None, 0, 0, Some(500));
        assert_eq!(reason_for_cpu(on_cpu, 0.2, 1.0), None, "0.2 of 0.5 s");
        let longer = measured(None, 0, 0, Some(4000));
        assert_eq!(reason_for_cpu(longer, 0.2, 1.0), None, "3.2 of 4 s");
        let cold = measured(None, 1, 0, None);
        assert_eq!(reason_for_cpu(cold, 0.0, 1.0), None, "its columns are loaded");
    }

    #[test]
    fn measured_time_overrides_prediction() {
        let slower = measured(Some(110), 1, 1, Some(100));
        let reason = reason_for_cpu(slower, 0.9, 1.0);
        assert!(matches!(reason, Some(Reason::Cost { .. })), "{reason:?}");
        let faster = measured(Some(90), 1, 1, Some(100));
        assert_eq!(reason_for_cpu(faster, 0.0, 1.0), None);
        let trial = measured(Some(2000), 2, 0, None);
        assert_eq!(reason_for_cpu(trial, 0.9, 1.0), None, "cold runs are repeated");
        let far = measured(Some(4000), 2, 0, None);
        assert!(
            reason_for_cpu(far, 0.9, 1.0).is_some(),
            "three times the prediction"
        );
        let retried = Measured {
            host_runs: POLICY.retry,
            ..slower
        };
        assert_eq!(
            reason_for_cpu(retried, 0.9, 1.0),
            None,
            "one warm run is not final"
        );
    }
}
