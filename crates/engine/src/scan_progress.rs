//! How far a query on the CPU is: the rows that its scans have read, of those that statistics promise.
//!
//! Operators above a scan take rows as they come, or collect them all first: while scans read, their share is
//! that of the query, and after them the query computes on for an unknown time. A plan with GPU subtrees
//! reports progress of its own (`report.rs`).

use crate::nodes::GpuExec;
use crate::report::{QueryProgress, QueryStep};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// The scans of a plan. It keeps them, not the operators above, whose memory goes when they end.
#[derive(Debug)]
pub struct ScanProgress(Vec<Scan>);

#[derive(Debug)]
struct Scan {
    plan: Arc<dyn ExecutionPlan>,
    /// Rows that it is going to return, by its statistics.
    rows: Option<u64>,
}

impl ScanProgress {
    /// Of a plan that is about to run; none where a GPU subtree is in it.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut scans = Vec::new();
        collect(plan, &mut scans).then_some(Self(scans))
    }

    /// As far as the plan has run.
    pub fn get(&self) -> QueryProgress {
        let (mut done, mut total) = (0, Some(0));
        for Scan { plan, rows } in &self.0 {
            let read = plan.metrics().and_then(|metrics| metrics.output_rows());
            let read = read.unwrap_or_default() as u64;
            // Statistics may be estimates.
            done += rows.map_or(read, |rows| read.min(rows));
            total = total.zip(*rows).map(|(total, rows)| total + rows);
        }
        match total {
            Some(total) if done >= total => QueryProgress {
                step: QueryStep::Computing,
                done,
                total: None,
            },
            total => QueryProgress {
                step: QueryStep::Reading,
                done,
                total,
            },
        }
    }
}

/// Adds the scans below `plan`; false if a GPU subtree is among its nodes.
fn collect(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<Scan>) -> bool {
    if plan.is::<GpuExec>() {
        return false;
    }
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        let rows = statistics
            .ok()
            .and_then(|statistics| statistics.num_rows.get_value().copied());
        scans.push(Scan {
            plan: Arc::clone(plan),
            rows: rows.map(|rows| rows as u64),
        });
    }
    children.into_iter().all(|child| collect(child, scans))
}
