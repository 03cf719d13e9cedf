//! The pipelines of a query that run on a device or wait for it.

use super::PlanReport;

/// The pipelines of a query that run on a device or wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryAdmission {
    /// Number of pipelines that wait for admission.
    pub waiting: usize,
    /// Number of admitted pipelines.
    pub running: usize,
    /// Number of the latter that wait for device memory.
    pub starved: usize,
    /// Bytes of device memory that these pipelines are expected to use, including columns.
    pub demand: u64,
}

impl QueryAdmission {
    /// Whether the query has pipelines, and all of them wait.
    pub fn waits(&self) -> bool {
        self.waiting + self.starved > 0 && self.running == self.starved
    }
}

/// An admitted pipeline waits for device memory until this is dropped.
#[derive(Debug)]
pub(crate) struct StarvedPipeline<'r>(&'r PlanReport);

impl<'r> StarvedPipeline<'r> {
    pub(crate) fn of(report: &'r PlanReport) -> Self {
        report.update(|report| report.admission.starved += 1);
        Self(report)
    }
}

impl Drop for StarvedPipeline<'_> {
    fn drop(&mut self) {
        self.0.update(|report| {
            report.admission.starved = report.admission.starved.saturating_sub(1);
        });
    }
}

/// The demand of one pipeline in the report of its query, until it is dropped.
#[derive(Debug)]
pub(crate) struct PipelineDemand<'r> {
    report: &'r PlanReport,
    bytes: u64,
    is_admitted: bool,
}

impl<'r> PipelineDemand<'r> {
    /// Records that a pipeline waits for admission with this demand.
    pub(crate) fn wait(report: &'r PlanReport, bytes: u64) -> Self {
        report.update(|report| {
            report.admission.waiting += 1;
            report.admission.demand += bytes;
        });
        Self {
            report,
            bytes,
            is_admitted: false,
        }
    }

    /// Records that the pipeline was admitted.
    pub(crate) fn admitted(&mut self) {
        self.is_admitted = true;
        self.report.update(|report| {
            report.admission.waiting = report.admission.waiting.saturating_sub(1);
            report.admission.running += 1;
        });
    }
}

impl Drop for PipelineDemand<'_> {
    fn drop(&mut self) {
        self.report.update(|report| {
            let admission = &mut report.admission;
            // Planning may replace the report meanwhile.
            admission.demand = admission.demand.saturating_sub(self.bytes);
            let pipelines = match self.is_admitted {
                true => &mut admission.running,
                false => &mut admission.waiting,
            };
            *pipelines = pipelines.saturating_sub(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_reported_until_the_pipeline_ends() {
        let report = PlanReport::default();
        let admission = || {
            let QueryAdmission {
                waiting,
                running,
                demand,
                ..
            } = report.get().admission;
            (waiting, running, demand)
        };
        let mut first = PipelineDemand::wait(&report, 10);
        let second = PipelineDemand::wait(&report, 5);
        assert_eq!(admission(), (2, 0, 15));
        first.admitted();
        assert_eq!(admission(), (1, 1, 15));
        assert!(!report.get().admission.waits());
        drop(second);
        assert_eq!(admission(), (0, 1, 10));
        let starved = StarvedPipeline::of(&report);
        assert!(report.get().admission.waits());
        drop(starved);
        assert!(!report.get().admission.waits());
        drop(first);
        assert_eq!(admission(), (0, 0, 0));
    }
}
