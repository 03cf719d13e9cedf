//! Top-k by radix select on the sort key: histograms find the largest key that can be among the first k rows.
//!
//! ```text
//! least and greatest key ── rows in each of 4096 equal parts between ── the same in the part with the last of the k rows ── ...
//! ```
//!
//! The search ends at a part with few enough rows. Then the pipeline returns the rows up to that part. If
//! very many rows have the last key, it returns the rows before that key and only the required number of rows
//! with it. Passes before the last read only the columns of filters and keys, so wide rows are materialised
//! only for few rows (late materialisation).
//!
//! In a large table some of the chunks are searched first: no row of the result has a greater key than the
//! last result row of those chunks ([`top_sample`](super::top_sample)). Then one pass reads the other chunks,
//! if any.

use super::key_ranges::KeyRange;
use super::pipeline_run::{Output, Run};
use crate::device::RunError;
use crate::device::prepared::Prepared;
use crate::report::RunReport;
use galatea_base::reason::Reason;
use galatea_codegen::options::KernelOptions;
use galatea_codegen::{PipelinePlan, SinkPlan, TopRows};
use galatea_expression::Expr;
use galatea_store::TableView;
use std::sync::Arc;

/// Number of excess rows that are returned rather than separated by a further pass.
const MORE: u64 = 256;

/// Number of rows with a common string prefix that are returned regardless of their share of all rows.
const FEW_ALIKE: u64 = 1 << 16;

/// The sort keys of the required rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Keys up to this one, which `rows` rows have, if they were counted: not many more than required.
    UpTo { last: i64, rows: Option<u64> },
    /// Keys before this one, which `before` rows have, and `rows` rows with this key itself. All rows with
    /// this key are equal in the order.
    Ties { key: i64, rows: u64, before: u64 },
}

impl Wanted {
    /// All keys.
    const ALL: Self = Self::UpTo {
        last: i64::MAX,
        rows: None,
    };
}

/// Position of the last of the first k rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    /// The range of keys that contains the row's key.
    pub part: KeyRange,
    /// The row's number among the rows of the range, from 1.
    pub rows: u64,
    /// Number of rows before the range.
    pub before: u64,
}

impl Run<'_> {
    /// Runs a top-k pipeline.
    pub(super) fn execute_top(
        &self,
        outputs: &[Expr],
        top: &TopRows,
    ) -> Result<(Output, RunReport), RunError> {
        let mut passes = Vec::new();
        let (output, mut report) = match self.sample(top, outputs.len()) {
            None => {
                self.compile_for_top(outputs, top);
                self.search(outputs, top, &mut passes)?
            }
            Some(sample) => self.execute_by_sample(&sample, outputs, top, &mut passes)?,
        };
        for pass in &passes {
            report.passed_before(pass);
        }
        Ok((output, report))
    }

    /// The pipeline restricted to rows with keys between these two, both included.
    pub(super) fn between(
        &self,
        outputs: &[Expr],
        top: &TopRows,
        (least, greatest): (i64, i64),
    ) -> PipelinePlan {
        let sink = SinkPlan::Rows {
            outputs: outputs.to_vec(),
            order: None,
        };
        let output = Arc::clone(&self.plan.output);
        self.plan_of(sink, output, [top.key.within(least, greatest)])
    }

    /// The pipelines of a search. Literals are kernel arguments, so any bounds use the same kernel.
    fn search_plans(&self, outputs: &[Expr], top: &TopRows) -> [PipelinePlan; 3] {
        [
            self.counting_plan(&top.key, KeyRange::ALL),
            self.extent_plan(&top.key),
            self.between(outputs, top, (0, i64::MAX)),
        ]
    }

    /// The pipelines of the first search, their tables and options, for compilation before the run.
    pub(super) fn kernels_for_top(
        &self,
        outputs: &[Expr],
        top: &TopRows,
    ) -> Vec<(PipelinePlan, TableView, KernelOptions)> {
        let few_rows = self.sample(top, outputs.len()).map(|_| self.few_rows());
        let run = Run {
            config: few_rows.as_ref().unwrap_or(self.config),
            ..*self
        };
        let plans = run.search_plans(outputs, top).into_iter();
        let kernels = plans.filter_map(|plan| {
            let view = run.view_of(&plan).ok()?;
            let options = run.over(&plan, &view).kernel_options();
            Some((plan, view, options))
        });
        kernels.collect()
    }

    /// Compiles the kernels of a search in parallel, unless they are cached.
    pub(super) fn compile_for_top(&self, outputs: &[Expr], top: &TopRows) {
        let new: Vec<_> = (self.search_plans(outputs, top).into_iter())
            .filter(|plan| !self.runtime.prepared().knows(plan))
            .collect();
        if new.is_empty() {
            return;
        }
        std::thread::scope(|scope| {
            for plan in &new {
                // A failure is raised again when the kernel is needed.
                scope.spawn(move || self.over(plan, &self.view_of(plan)?).prepare().map(drop));
            }
        });
    }

    /// Finds the last of the first k rows, and returns the rows up to it.
    pub(super) fn search(
        &self,
        outputs: &[Expr],
        top: &TopRows,
        passes: &mut Vec<RunReport>,
    ) -> Result<(Output, RunReport), RunError> {
        let (plan, fetch, counted) = match self.wanted(top, passes)? {
            Wanted::UpTo { last, rows } => (self.between(outputs, top, (0, last)), None, rows),
            Wanted::Ties { key, rows, before } => {
                if before > 0 {
                    let plan = self.between(outputs, top, (0, key - 1));
                    passes.push(self.over(&plan, &self.view_of(&plan)?).execute()?.1);
                    self.result.settle();
                }
                (self.between(outputs, top, (key, key)), Some(rows), None)
            }
        };
        let view = self.view_of(&plan)?;
        let run = Run {
            fetch,
            counted,
            ..self.over(&plan, &view)
        };
        run.execute()
    }

    /// The sort keys of the required rows.
    fn wanted(&self, top: &TopRows, passes: &mut Vec<RunReport>) -> Result<Wanted, RunError> {
        let enough = top.fetch.saturating_add(MORE);
        let all = match self.extent(&top.key, passes)? {
            Some(all) if all.rows > enough => all,
            _ => return Ok(Wanted::ALL),
        };
        let Some(Last { part, rows, before }) = self.narrowed(&top.key, all, top.fetch.max(1), passes)?
        else {
            return Ok(Wanted::ALL);
        };
        if part.rows - rows > MORE {
            let counted = self.counted(top)?;
            let parameters = &counted.bound.parameters;
            if top.whole && !parameters.cuts_order {
                let key = part.least;
                return Ok(Wanted::Ties { key, rows, before });
            }
            let limit = (all.rows / 4).max(FEW_ALIKE);
            if parameters.cuts_strings && part.rows > limit {
                return Err(RunError::Unsupported(Reason::Limit {
                    expression: "ORDER BY of strings".into(),
                    asked: part.rows,
                    limit,
                    unit: "rows with the same first bytes",
                }));
            }
        }
        Ok(Wanted::UpTo {
            last: part.greatest,
            rows: Some(before + part.rows),
        })
    }

    /// The part of a range that contains row number `rows`. It has few excess rows, or one key. `None` if the
    /// range has fewer rows.
    pub(super) fn narrowed(
        &self,
        key: &Expr,
        mut part: KeyRange,
        mut rows: u64,
        passes: &mut Vec<RunReport>,
    ) -> Result<Option<Last>, RunError> {
        let mut before = 0;
        loop {
            let counts = self.counts(key, part, passes)?;
            let Some((within, less)) = part.with_row(rows, counts) else {
                return Ok(None);
            };
            let one_key = part.shift() == 0;
            (part, rows, before) = (within, rows - less, before + less);
            if one_key || part.rows - rows <= MORE {
                return Ok(Some(Last { part, rows, before }));
            }
        }
    }

    /// The pipeline that counted rows. Its binding determines which part of the order the sort key omits.
    fn counted(&self, top: &TopRows) -> Result<Arc<Prepared>, RunError> {
        let plan = self.counting_plan(&top.key, KeyRange::ALL);
        Ok(self.over(&plan, &self.view_of(&plan)?).prepare()?.pipeline)
    }
}
