//! Top-k by radix select on the sort key: histograms find the largest key that can be among the first k rows.
//!
//! ```text
//! least and greatest key ── rows in each of 4096 equal parts between ── in each part of the part with the last wanted row ── ...
//! ```
//!
//! It ends at a part with few enough rows. Then the pipeline returns the rows up to there; where very many
//! have the last key, those before it, and as many of the others as are wanted. Passes before the last read
//! the columns of filters and keys alone, so wide rows are made for few (late materialisation).
//!
//! In a large table some of the chunks are searched first: no wanted row has a greater key than the last
//! wanted row of those ([`top_sample`](super::top_sample)). Then one pass reads the others, if at all.

use super::key_ranges::KeyRange;
use super::run::{Output, Run};
use crate::device::RunError;
use crate::device::prepared::Prepared;
use crate::report::RunReport;
use galatea_base::reason::Reason;
use galatea_codegen::{PipelinePlan, SinkPlan, TopRows};
use galatea_expression::Expr;
use std::sync::Arc;

/// Rows beyond the wanted ones that are returned rather than told apart.
const MORE: u64 = 256;

/// Rows whose texts begin alike that are returned whatever their share of all rows.
const FEW_ALIKE: u64 = 1 << 16;

/// The sort keys of the wanted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Up to this one; not many more rows have them.
    UpTo(i64),
    /// Those before this one, of `before` rows, and its own, of which so many rows are wanted: all of them
    /// are equal in the order.
    Ties { key: i64, rows: u64, before: u64 },
}

/// Where the last of some first rows is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    /// Of its keys the last one may be the row's.
    pub part: KeyRange,
    /// Its number among the rows of the part, from 1 on.
    pub rows: u64,
    /// Rows before the part.
    pub before: u64,
}

impl Run<'_> {
    /// Runs a pipeline of which the first rows are wanted.
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

    /// The pipeline with the rows of which the keys are between these two, both included.
    pub(super) fn between(
        &self,
        outputs: &[Expr],
        top: &TopRows,
        (least, greatest): (i64, i64),
    ) -> PipelinePlan {
        let sink = SinkPlan::Materialise {
            outputs: outputs.to_vec(),
            order: None,
        };
        let output = Arc::clone(&self.plan.output);
        self.plan_of(sink, output, [top.key.within(least, greatest)])
    }

    /// Compiles what a search needs, in parallel, unless that is there. Literals are kernel arguments, so any
    /// bounds give the same kernel.
    pub(super) fn compile_for_top(&self, outputs: &[Expr], top: &TopRows) {
        let plans = [
            self.counting_plan(&top.key, KeyRange::ALL),
            self.extent_plan(&top.key),
            self.between(outputs, top, (0, i64::MAX)),
        ];
        let new: Vec<_> = (plans.into_iter())
            .filter(|plan| !self.runtime.prepared().knows(plan))
            .collect();
        if new.is_empty() {
            return;
        }
        std::thread::scope(|scope| {
            for plan in &new {
                // A failure comes again where the kernel is needed.
                scope.spawn(move || self.over(plan, &self.view_of(plan)?).prepare().map(drop));
            }
        });
    }

    /// Finds the last of the first rows, and returns them.
    pub(super) fn search(
        &self,
        outputs: &[Expr],
        top: &TopRows,
        passes: &mut Vec<RunReport>,
    ) -> Result<(Output, RunReport), RunError> {
        let (plan, fetch) = match self.wanted(top, passes)? {
            Wanted::UpTo(last) => (self.between(outputs, top, (0, last)), None),
            Wanted::Ties { key, rows, before } => {
                if before > 0 {
                    let plan = self.between(outputs, top, (0, key - 1));
                    passes.push(self.over(&plan, &self.view_of(&plan)?).execute()?.1);
                    self.result.settle();
                }
                (self.between(outputs, top, (key, key)), Some(rows))
            }
        };
        let view = self.view_of(&plan)?;
        let run = Run {
            fetch,
            ..self.over(&plan, &view)
        };
        run.execute()
    }

    /// The sort keys of the wanted rows.
    fn wanted(&self, top: &TopRows, passes: &mut Vec<RunReport>) -> Result<Wanted, RunError> {
        let enough = top.fetch.saturating_add(MORE);
        let all = match self.extent(&top.key, passes)? {
            Some(all) if all.rows > enough => all,
            _ => return Ok(Wanted::UpTo(i64::MAX)),
        };
        let Some(Last { part, rows, before }) = self.narrowed(&top.key, all, top.fetch.max(1), passes)?
        else {
            return Ok(Wanted::UpTo(i64::MAX));
        };
        if part.rows - rows > MORE {
            let counted = self.counted(top)?;
            let parameters = &counted.bound.parameters;
            if top.whole && !parameters.cuts_order {
                let key = part.least;
                return Ok(Wanted::Ties { key, rows, before });
            }
            let limit = (all.rows / 4).max(FEW_ALIKE);
            if parameters.cuts_texts && part.rows > limit {
                return Err(RunError::Unsupported(Reason::Limit {
                    expression: "ORDER BY of texts".into(),
                    asked: part.rows,
                    limit,
                    unit: "rows whose texts begin alike",
                }));
            }
        }
        Ok(Wanted::UpTo(part.greatest))
    }

    /// The part of a range, of few rows beyond or of one key, that holds the `rows`-th row; `None` if the
    /// range has fewer.
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

    /// The pipeline that counted rows, whose binding has found out what the sort key leaves out of the order.
    fn counted(&self, top: &TopRows) -> Result<Arc<Prepared>, RunError> {
        let plan = self.counting_plan(&top.key, KeyRange::ALL);
        Ok(self.over(&plan, &self.view_of(&plan)?).prepare()?.pipeline)
    }
}
