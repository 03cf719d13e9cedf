//! A limit of the first rows from some of the chunks, so that a large table is read about once.
//!
//! ```text
//! last wanted row of one chunk in 64 ── rows up to its key, of the chunks that may hold any ──
//! ```
//!
//! Any chunks do: no wanted row comes after the last wanted row of these. Where zones tell, they are those
//! whose last rows come first, and chunks that begin after all of them are not read: of a table in the order
//! that is asked for, one chunk in 64 is.

use super::run::{Output, Run};
use crate::config::{GalateaConfig, RowOutput};
use crate::device::RunError;
use crate::report::RunReport;
use crate::results::queue::ResultQueue;
use galatea_base::policy::policy;
use galatea_codegen::TopRows;
use galatea_expression::Expr;
use galatea_store::Scalar;
use std::cmp::Ordering;

policy! {
    /// When a limit of the first rows is looked for in some of the chunks.
    pub(crate) struct TopPolicy {
        /// Chunks of which one is searched.
        chunks: usize = 64,
        /// Values that are returned at most: more of them take longer than another pass.
        values: usize = 64 << 10,
        /// Rows that are returned at most, where rows are expected.
        surplus: u64 = 4,
    }
}

const POLICY: TopPolicy = TopPolicy::DEFAULT;

/// Chunks to search.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    chunks: Vec<usize>,
    /// Rows that are returned at most on the strength of these chunks alone.
    most_rows: u64,
}

/// What no wanted row comes after.
#[derive(Debug, Clone)]
struct Limit {
    /// The greatest sort key.
    key: i64,
    /// The last value of the first column of the order, if zones tell.
    last: Option<Scalar>,
}

impl Run<'_> {
    /// The chunks to search first, if the table is large and few values are returned.
    pub(super) fn sample(&self, top: &TopRows, outputs: usize) -> Option<Sample> {
        let searched = self.chunks.len() / POLICY.chunks;
        let most_rows = (POLICY.values / outputs.max(1)) as u64;
        let expected = top.fetch.saturating_mul(POLICY.chunks as u64);
        if searched == 0 || expected.saturating_mul(POLICY.surplus) > most_rows {
            return None;
        }
        let chunks = match self.first_column(&top.key) {
            Some(first) => first.in_order(self.chunks),
            // All over the table.
            None => self.chunks.iter().copied().step_by(POLICY.chunks).collect(),
        };
        Some(Sample {
            chunks: chunks.into_iter().take(searched).collect(),
            most_rows,
        })
    }

    /// Runs a pipeline of which the first rows are wanted, where some of the chunks are to be searched first.
    pub(super) fn execute_by_sample(
        &self,
        sample: &Sample,
        outputs: &[Expr],
        top: &TopRows,
        passes: &mut Vec<RunReport>,
    ) -> Result<(Output, RunReport), RunError> {
        let config = self.few_rows();
        let few = Run {
            config: &config,
            ..*self
        };
        few.compile_for_top(outputs, top);
        let limit = few.limit_in(sample, top, passes)?;
        let chunks = match &limit {
            Some(limit) => self.chunks_up_to(top, limit),
            None => self.chunks.to_vec(),
        };
        if let Some(limit) = limit {
            let few = Run {
                chunks: &chunks,
                ..few
            };
            if let Some(done) = few.few_up_to(outputs, top, limit.key, sample.most_rows)? {
                return Ok(done);
            }
        }
        let all = Run {
            chunks: &chunks,
            ..*self
        };
        all.search(outputs, top, passes)
    }

    /// The settings where few of very many rows are returned: kernels that write them to columns read faster
    /// than those that write them to chains of pages.
    fn few_rows(&self) -> GalateaConfig {
        let row_output = match self.config.row_output {
            RowOutput::Auto => RowOutput::Direct,
            asked => asked,
        };
        GalateaConfig {
            row_output,
            ..self.config.clone()
        }
    }

    /// What no wanted row comes after, if these chunks have as many rows as are wanted.
    fn limit_in(
        &self,
        sample: &Sample,
        top: &TopRows,
        passes: &mut Vec<RunReport>,
    ) -> Result<Option<Limit>, RunError> {
        let run = Run {
            chunks: &sample.chunks,
            ..*self
        };
        let Some(all) = run.extent(&top.key, passes)? else {
            return Ok(None);
        };
        let Some(last) = run.narrowed(&top.key, all, top.fetch.max(1), passes)? else {
            return Ok(None);
        };
        let first = self.first_column(&top.key);
        Ok(Some(Limit {
            key: last.part.greatest,
            last: first.and_then(|first| first.last_of(&sample.chunks).cloned()),
        }))
    }

    /// The chunks that may hold rows that do not come after a limit.
    fn chunks_up_to(&self, top: &TopRows, limit: &Limit) -> Vec<usize> {
        let (Some(first), Some(last)) = (self.first_column(&top.key), &limit.last) else {
            return self.chunks.to_vec();
        };
        let after = |chunk: &usize| {
            let ends = first.ends(*chunk);
            ends.is_some_and(|ends| first.compare(ends.first, last) == Ordering::Greater)
        };
        self.chunks
            .iter()
            .copied()
            .filter(|chunk| !after(chunk))
            .collect()
    }

    /// The rows up to a key, if there are no more than `most`.
    fn few_up_to(
        &self,
        outputs: &[Expr],
        top: &TopRows,
        key: i64,
        most: u64,
    ) -> Result<Option<(Output, RunReport)>, RunError> {
        let plan = self.between(outputs, top, (0, key));
        let (view, result) = (self.view_of(&plan)?, ResultQueue::of_rows(most));
        let run = Run {
            result: &result,
            ..self.over(&plan, &view)
        };
        let done = match run.execute() {
            Err(RunError::ManyRows | RunError::Memory { .. }) => return Ok(None),
            outcome => outcome?,
        };
        let turns = self.runtime.memory().turns();
        while let Some(batch) = result.next() {
            self.result.push(batch, turns, self.cancelled)?;
        }
        Ok(Some(done))
    }
}
