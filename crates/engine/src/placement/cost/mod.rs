//! Predicted times of a subtree on the device and on the CPU.
//!
//! `galatea.device = 'auto'` places a subtree where it is expected to take less time. Both times are sums
//! over operators of rows times a cost per row ([`host`]: on all cores; [`device`]: bytes over bandwidths,
//! and the host's work before and after the kernel). Numbers of rows are DataFusion's statistics if it has
//! them, its guesses otherwise, and at most their upper bounds ([`bounds`]); neither model sees the data. So
//! the figures are accurate to a factor of about two, and measured times of a query have priority over
//! predicted ones ([`History`](crate::history::History)).
//!
//! Columns that have not been read yet are read once and used by later queries, and so are kernels that have
//! not been compiled. No single query should pay for all of them. A query that runs on the CPU because they
//! are missing loses some time, which counts as paid for each of them, for all queries
//! ([`History::forgo`](crate::history::History::forgo)). So a column is loaded when the queries that read it
//! have lost about the time of loading it, and a query that is not repeated runs where it takes least.

mod bounds;
pub(super) mod correction;
pub(super) mod device;
pub(super) mod host;
mod residence;

use crate::graph::ByNode;
use datafusion::common::Statistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use galatea_store::ColumnSource;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Assumed rows if nothing is known about them.
const UNKNOWN_ROWS: f64 = 1e6;

/// Predicts the times of the nodes of one plan. It caches the predictions of nodes and the residence of
/// columns, because the subtrees that are compared contain one another.
#[derive(Clone)]
pub(super) struct Estimator {
    /// Number of cores that operators share.
    cores: f64,
    /// Whether no operator is assumed to return more rows than it reads.
    is_cautious: bool,
    known: Rc<Known>,
}

/// The caches that an estimator shares with its cautious copy.
#[derive(Default)]
struct Known {
    context: StatisticsContext,
    statistics: ByNode<Option<Arc<Statistics>>>,
    /// Without and with caution.
    predictions: [Predictions; 2],
    /// Bytes of the strings of a scan, by column.
    string_bytes: ByNode<Rc<HashMap<String, f64>>>,
    tables: ByNode<Option<Arc<dyn ColumnSource>>>,
    columns: ByNode<Rc<residence::KnownColumns>>,
}

#[derive(Default)]
struct Predictions {
    rows: ByNode<f64>,
    nanoseconds: ByNode<f64>,
}

/// The tuning policies of the cost model.
pub(super) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![host::HostCosts::listed(), device::DeviceCosts::listed()]
}

impl Estimator {
    /// An estimator for a machine with `cores` cores.
    pub(super) fn new(cores: usize) -> Self {
        Self {
            cores: cores.max(1) as f64,
            is_cautious: false,
            known: Rc::default(),
        }
    }

    /// The same, but no operator is assumed to return, or compare, more rows than it reads: estimates of
    /// joins can be too high by factors of a hundred (TPC-DS 72). The CPU reaches such a prediction unless a
    /// join really multiplies rows.
    pub(super) fn cautious(&self) -> Self {
        Self {
            is_cautious: true,
            ..self.clone()
        }
    }

    /// Number of cores of the machine that it predicts for.
    pub(super) fn cores(&self) -> usize {
        self.cores as usize
    }

    fn statistics(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
        self.known.statistics.get_or(plan, || {
            let context = &self.known.context;
            context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()
        })
    }

    fn predictions(&self) -> &Predictions {
        &self.known.predictions[usize::from(self.is_cautious)]
    }

    /// Rows that a node returns.
    pub(super) fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        self.predictions().rows.get_or(plan, || self.rows_of(plan))
    }

    fn rows_of(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let known = self
            .statistics(plan)
            .and_then(|s| s.num_rows.get_value().copied());
        if let Some(rows) = known {
            return (rows as f64).min(self.most_rows(plan));
        }
        // An operator without an estimate by DataFusion is assumed to return as many rows as its largest
        // input.
        let inputs = plan.children().into_iter().map(|child| self.rows(child));
        let rows = inputs.reduce(f64::max).unwrap_or(UNKNOWN_ROWS);
        rows.min(self.most_rows(plan))
    }
}
