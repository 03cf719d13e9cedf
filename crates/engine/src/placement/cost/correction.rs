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
    pub(super) is_measured: bool,
}

impl Correction {
    /// The correction of a query that has not run on the CPU.
    pub(in crate::placement) const NONE: Self = Self {
        factor: 1.0,
        is_measured: false,
    };

    /// Seconds on the CPU, where that many are predicted.
    pub(in crate::placement) fn host(self, predicted: f64) -> f64 {
        predicted * self.factor
    }
}
