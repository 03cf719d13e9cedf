//! The runs of a pipeline over the partitions of a join, one after another. All of them fill one sink.

use super::error::Failure;
use super::executor::{Executor, Work, chunks};
use super::part_run::{Carried, PartRun};
use super::pipeline_run::{Output, Run};
use crate::graph::PipelineRef;
use crate::joins::build_table::{BuiltTable, SideRows};
use crate::report::RunReport;
use galatea_codegen::PipelinePlan;
use galatea_store::TableView;
use parking_lot::Mutex;
use std::sync::Arc;

/// The runs so far.
pub(super) struct PartRuns {
    /// The sink, between two runs.
    carried: Arc<Mutex<Option<Carried>>>,
    /// Number of times that all partitions were restarted because memory for strings was insufficient.
    begun_again: u32,
    /// Maximum number of rows that the runs which fill one sink scan together.
    rows: u64,
    /// The output and the report of all runs.
    done: Option<(Output, RunReport)>,
}

impl PartRuns {
    /// No runs yet, after `begun_again` restarts for lack of memory for strings. `rows`: the maximum number
    /// of rows that the runs which fill one sink scan together; 0 if one run fills it.
    pub(super) fn new(begun_again: u32, rows: u64) -> Self {
        Self {
            carried: Arc::default(),
            begun_again,
            rows,
            done: None,
        }
    }

    /// The next sink is filled by runs that scan at most `rows` rows together.
    pub(super) fn expect(&mut self, rows: u64) {
        self.rows = rows;
    }

    /// Number of rows that are left of the first `fetch` rows; `None` if all rows are returned.
    pub(super) fn left(&self, fetch: Option<usize>) -> Option<u64> {
        let rows = self.done.as_ref().map_or(0, |(output, _)| output.rows());
        fetch.map(|fetch| (fetch as u64).saturating_sub(rows))
    }

    /// The output and the report of all runs. At least one has ended.
    pub(super) fn finish(self) -> (Output, RunReport) {
        let Some(done) = self.done else {
            unreachable!("a join has a partition at least");
        };
        done
    }

    /// The table that the runs have left, joined with the table of `sides` that it refers to. Their report is
    /// added to `total`.
    pub(super) fn into_table(self, total: &mut Option<RunReport>, sides: &mut [SideRows]) -> BuiltTable {
        let (output, report) = self.finish();
        match total {
            Some(total) => total.add_part(&report),
            None => *total = Some(report),
        }
        let Output::Built(table) = output.joined(sides) else {
            unreachable!("a sink of a join leaves a table");
        };
        *table
    }

    fn add(&mut self, output: Output, report: RunReport) {
        self.done = Some(match self.done.take() {
            None => (output, report),
            Some((before, mut total)) => {
                total.add_part(&report);
                (before.and(output), total)
            }
        });
    }
}

impl Executor<'_> {
    /// Runs the plan of a pipeline over the rows of a partition and its build sides, which are returned.
    pub(super) async fn run_over(
        &self,
        runs: &mut PartRuns,
        (pipeline, plan, view, keep): (PipelineRef<'_>, PipelinePlan, TableView, bool),
        sides: Vec<SideRows>,
        is_last: bool,
    ) -> Result<Vec<SideRows>, Failure> {
        let matches = pipeline.match_bounds(&plan, |number| sides.get(number)?.key_range());
        let work = Work {
            pipeline: pipeline.id(),
            chunks: chunks(&pipeline, &plan, &view, &matches),
            fetch: runs.left(pipeline.fetch_in_any_order()),
            plan,
            view,
            keep,
        };
        self.run_part(runs, work, sides, is_last).await
    }

    /// Runs a pipeline over a partition and its build sides, which are returned. After the last run, the sink
    /// is complete.
    pub(super) async fn run_part(
        &self,
        runs: &mut PartRuns,
        work: Work,
        sides: Vec<SideRows>,
        is_last: bool,
    ) -> Result<Vec<SideRows>, Failure> {
        let (carried, begun_again, rows) = (Arc::clone(&runs.carried), runs.begun_again, runs.rows);
        let returns = work.pipeline == self.returns;
        let (output, report, sides) = self
            .launch(work, move |run| {
                let part = PartRun::new(&carried, is_last, begun_again, rows);
                let (output, report) = Run {
                    sides: &sides,
                    part: Some(part),
                    ..*run
                }
                .execute()?;
                Ok((output, report, sides))
            })
            .await?;
        if returns {
            self.result.settle();
        }
        runs.add(output, report);
        Ok(sides)
    }
}
