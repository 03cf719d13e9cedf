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
    pub(in crate::placement) predicted: f64,
}

impl QueryOnHost {
    /// The error of the predictions for it, by its measured runs.
    pub(in crate::placement) fn correction(self, history: &History) -> Correction {
        let measured = history.measured(self.key).host;
        let factor = |host: Duration| host.as_secs_f64() / self.predicted.max(f64::MIN_POSITIVE);
        Correction {
            factor: measured.map_or(1.0, factor).min(1.0),
            is_measured: measured.is_some(),
        }
    }
}

/// The error of the predictions for a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::placement) struct Correction {
    /// Share of the predicted time that the CPU took, at most 1.
    pub(super) factor: f64,
    /// Whether the query has run on the CPU.
    is_measured: bool,
}

/// Seconds that a subtree is predicted to take on the CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::placement) struct HostTime {
    /// By the estimates of rows.
    pub(in crate::placement) predicted: f64,
    /// If no operator returns more rows than it reads: estimates of joins can be a hundred times too high.
    pub(in crate::placement) cautious: f64,
}

impl HostTime {
    /// That share of it.
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

    /// Seconds that the CPU takes at least, for all that is known.
    pub(in crate::placement) fn at_least(self, correction: Correction) -> f64 {
        match correction.is_measured {
            true => self.corrected(correction),
            false => self.cautious.min(self.predicted),
        }
    }
}

impl Correction {
    /// The correction of a query that has not run on the CPU.
    pub(in crate::placement) const NONE: Self = Self {
        factor: 1.0,
        is_measured: false,
    };
}
