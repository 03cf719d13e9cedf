//! Top-k by radix select on the sort key: histograms find the largest key that can be among the first k rows.
//!
//! ```text
//! least and greatest key ── rows in each of 4096 equal parts between ── in each part of the part with the last wanted row ── ...
//! ```
//!
//! It ends at a part with few enough rows. Then the pipeline returns the rows up to there; where very many
//! have the last key, those before it, and as many of the others as are wanted. Passes before the last read
//! the columns of filters and keys alone, so wide rows are made for few (late materialisation).

use super::error::RunError;
use super::key_ranges::KeyRange;
use super::prepared::Prepared;
use super::run::{Output, Run};
use super::run_report::RunReport;
use crate::expression::Expr;
use crate::pipeline::{SinkPlan, TopRows};
use crate::reason::Reason;
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

impl Run<'_> {
    /// Runs a pipeline of which the first rows are wanted.
    pub(super) fn execute_top(
        &self,
        outputs: &[Expr],
        top: &TopRows,
    ) -> Result<(Output, RunReport), RunError> {
        let mut passes = Vec::new();
        let within = |least, greatest| {
            let sink = SinkPlan::Materialise {
                outputs: outputs.to_vec(),
                order: None,
            };
            self.plan_of(
                sink,
                Arc::clone(&self.plan.output),
                [top.key.within(least, greatest)],
            )
        };
        let wanted = std::thread::scope(|scope| {
            // The first run compiles three kernels: in parallel. Literals are kernel arguments, so any bounds
            // give the same kernel.
            for plan in [self.counting_plan(&top.key, KeyRange::ALL), within(0, i64::MAX)] {
                if !self.runtime.prepared().knows(&plan) {
                    // A failure comes again where the kernel is needed.
                    scope.spawn(move || self.over(&plan, &self.view_of(&plan)?).prepare().map(drop));
                }
            }
            self.wanted(top, &mut passes)
        })?;
        let (plan, fetch) = match wanted {
            Wanted::UpTo(last) => (within(0, last), None),
            Wanted::Ties { key, rows, before } => {
                if before > 0 {
                    let plan = within(0, key - 1);
                    passes.push(self.over(&plan, &self.view_of(&plan)?).execute()?.1);
                    self.result.settle();
                }
                (within(key, key), Some(rows))
            }
        };
        let view = self.view_of(&plan)?;
        let run = Run {
            fetch,
            ..self.over(&plan, &view)
        };
        let (output, mut report) = run.execute()?;
        for pass in &passes {
            report.passed_before(pass);
        }
        Ok((output, report))
    }

    /// The sort keys of the wanted rows.
    fn wanted(&self, top: &TopRows, passes: &mut Vec<RunReport>) -> Result<Wanted, RunError> {
        let enough = top.fetch.saturating_add(MORE);
        let mut part = match self.extent(&top.key, passes)? {
            Some(part) if part.rows > enough => part,
            _ => return Ok(Wanted::UpTo(i64::MAX)),
        };
        let all = part.rows;
        let (mut rows, mut before) = (top.fetch.max(1), 0);
        loop {
            let counts = self.counts(&top.key, part, passes)?;
            let Some((within, less)) = part.with_row(rows, counts) else {
                return Ok(Wanted::UpTo(i64::MAX));
            };
            let few = within.rows - (rows - less) <= MORE;
            let one_key = part.shift() == 0;
            (part, rows, before) = (within, rows - less, before + less);
            if one_key && !few {
                let counted = self.counted(top)?;
                let parameters = &counted.bound.parameters;
                if top.whole && !parameters.cuts_order {
                    let key = part.least;
                    return Ok(Wanted::Ties { key, rows, before });
                }
                let limit = (all / 4).max(FEW_ALIKE);
                if parameters.cuts_texts && part.rows > limit {
                    return Err(RunError::Unsupported(Reason::Limit {
                        expression: "ORDER BY of texts".into(),
                        asked: part.rows,
                        limit,
                        unit: "rows whose texts begin alike",
                    }));
                }
            }
            if few || one_key {
                return Ok(Wanted::UpTo(part.greatest));
            }
        }
    }

    /// The pipeline that counted rows, whose binding has found out what the sort key leaves out of the order.
    fn counted(&self, top: &TopRows) -> Result<Arc<Prepared>, RunError> {
        let plan = self.counting_plan(&top.key, KeyRange::ALL);
        Ok(self.over(&plan, &self.view_of(&plan)?).prepare()?.pipeline)
    }
}
