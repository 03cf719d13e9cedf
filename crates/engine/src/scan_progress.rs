//! Progress of a query on the CPU: the rows that its scans have read, relative to the estimates of
//! statistics.
//!
//! Operators above a scan process rows as they arrive, or collect them all first. While scans read, their
//! progress is the progress of the query; after them the query continues to compute for an unknown time. A
//! plan with GPU subtrees reports progress of its own (`report.rs`), except while CPU operators feed a
//! subtree.

use crate::nodes::GpuExec;
use crate::report::{QueryProgress, QueryStep};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// The scans of a plan. They are kept without the operators above them, so that the memory of those operators
/// is freed when they end.
#[derive(Debug)]
pub struct ScanProgress(Vec<Scan>);

#[derive(Debug)]
struct Scan {
    plan: Arc<dyn ExecutionPlan>,
    /// Number of rows that the scan will return, according to its statistics.
    rows: Option<u64>,
}

impl ScanProgress {
    /// The scans of a plan that is about to run; `None` if the plan contains a GPU subtree.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut scans = Vec::new();
        collect(plan, &mut scans).then_some(Self(scans))
    }

    /// The current progress of the plan.
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

/// Rows that the scans of a running plan have read so far, also those that feed a GPU subtree; `None` before
/// the first row.
pub fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> Option<QueryProgress> {
    let done = rows_of_scans(plan);
    (done > 0).then_some(QueryProgress {
        step: QueryStep::Reading,
        done,
        total: None,
    })
}

fn rows_of_scans(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let children = plan.children();
    if children.is_empty() {
        let read = plan.metrics().and_then(|metrics| metrics.output_rows());
        return read.unwrap_or_default() as u64;
    }
    children.into_iter().map(rows_of_scans).sum()
}

/// Adds the scans below `plan`. Returns false if its nodes include a GPU subtree.
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
