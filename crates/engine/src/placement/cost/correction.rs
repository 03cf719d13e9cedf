//! Correction of predicted times by a measured one.
//!
//! Both sides are predicted from the number of rows between operators, which causes most of the error. So the
//! share of its predicted time that a query took on the CPU corrects the prediction for the device, too.

use crate::graph::PlanKey;
use crate::history::History;
use std::time::Duration;

/// The query of a subtree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::placement) struct QueryOnHost {
    pub(in crate::placement) key: PlanKey,
    /// Seconds that it is predicted to take on the CPU.
    pub(in crate::placement) host: HostTime,
}

impl QueryOnHost {
    /// The query, if no operator multiplies rows.
    pub(in crate::placement) fn cautious(self) -> Self {
        Self {
            host: self.host.without_multiplied_rows(),
            ..self
        }
    }

    /// The error of the predictions for it, from its measured runs.
    pub(in crate::placement) fn correction(self, history: &History) -> Correction {
        let measured = history.measured(self.key).host;
        let factor = |host: Duration| host.as_secs_f64() / self.host.predicted.max(f64::MIN_POSITIVE);
        match measured.map(factor) {
            Some(factor) => Correction {
                factor: factor.min(1.0),
                cautious: None,
            },
            None => Correction::of_others(history),
        }
    }
}

/// The error of the predictions for a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::placement) struct Correction {
    /// Share of the predicted time that the CPU took, at most 1; 1 if the query has not run there.
    pub(in crate::placement) factor: f64,
    /// Lowest expected share of a cautious prediction that the CPU takes; `None` if the query has run there.
    cautious: Option<f64>,
}

/// Predicted seconds of a subtree on the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::placement) struct HostTime {
    /// With the estimated numbers of rows.
    pub(in crate::placement) predicted: f64,
    /// If no operator returns more rows than it reads: estimates of joins can be a hundred times too high.
    pub(in crate::placement) cautious: f64,
}

impl HostTime {
    /// The time if no operator multiplies rows.
    pub(in crate::placement) fn without_multiplied_rows(self) -> Self {
        Self {
            predicted: self.cautious,
            ..self
        }
    }

    /// This share of the time.
    pub(in crate::placement) fn scaled(self, share: f64) -> Self {
        Self {
            predicted: self.predicted * share,
            cautious: self.cautious * share,
        }
    }

    /// The predicted time, corrected.
    pub(in crate::placement) fn corrected(self, correction: Correction) -> f64 {
        self.predicted * correction.factor
    }

    /// Lower bound of the seconds on the CPU.
    pub(in crate::placement) fn at_least(self, correction: Correction) -> f64 {
        match correction.cautious {
            None => self.corrected(correction),
            Some(share) => self.cautious.min(self.predicted) * share,
        }
    }
}

impl Correction {
    /// The correction of a query that has not run on the CPU, from the share of the predicted time that other
    /// queries have taken.
    pub(in crate::placement) fn of_others(history: &History) -> Self {
        Self {
            factor: 1.0,
            cautious: Some(history.typical_share().unwrap_or(1.0).min(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RunKind;

    /// The time of a query that has run counts; otherwise the cautious prediction times the typical share.
    #[test]
    fn lower_bound_of_cpu_time_is_measured_or_cautious() {
        let history = History::default();
        let query = QueryOnHost {
            key: PlanKey(1),
            host: HostTime {
                predicted: 10.0,
                cautious: 5.0,
            },
        };
        let host = HostTime {
            predicted: 8.0,
            cautious: 4.0,
        };
        let least = || host.at_least(query.correction(&history));
        assert_eq!((least(), host.corrected(query.correction(&history))), (4.0, 8.0));
        for share in [0.2, 0.25, 0.5, 3.0, 0.1] {
            history.took_of_predicted(share);
        }
        assert_eq!(least(), 1.0);
        history.ran(query.key, RunKind::Host, Duration::from_secs(5));
        assert_eq!((least(), host.corrected(query.correction(&history))), (4.0, 4.0));
        history.ran(query.key, RunKind::Host, Duration::from_secs(1));
        assert_eq!(least(), 0.8);
        let host = host.without_multiplied_rows();
        assert_eq!(host.corrected(query.cautious().correction(&history)), 0.8);
    }
}
