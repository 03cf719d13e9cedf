//! Finds a limit of the first rows in some of the chunks, so that a large table is read about once.
//!
//! ```text
//! last required row of one chunk in 64 ── rows up to its key, of the chunks that may contain any ──
//! ```
//!
//! Any chunks are correct: no required row sorts after the last required row of these chunks. If zone maps
//! are available, the chunks with the smallest last rows in the order are used, and chunks that begin after
//! all of them are not read. If the table is stored in the requested order, one chunk in 64 is read.

use super::pipeline_run::{Output, Run};
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
    /// When a limit of the first rows is searched in some of the chunks.
    pub(crate) struct TopPolicy {
        /// One chunk of this number is searched.
        chunks: usize = 64,
        /// Maximum number of returned values: returning more takes longer than another pass.
        values: usize = 64 << 10,
        /// Ratio of the maximum number of returned rows to the expected number.
        surplus: u64 = 4,
    }
}

const POLICY: TopPolicy = TopPolicy::DEFAULT;

/// Chunks to search.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    chunks: Vec<usize>,
    /// Maximum number of rows that are returned based only on these chunks.
    most_rows: u64,
}

/// A limit that no required row exceeds.
#[derive(Debug, Clone)]
struct Limit {
    /// The greatest sort key.
    key: i64,
    /// The last value of the first column of the order, if zone maps are available.
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
            // Spread over the whole table.
            None => self.chunks.iter().copied().step_by(POLICY.chunks).collect(),
        };
        Some(Sample {
            chunks: chunks.into_iter().take(searched).collect(),
            most_rows,
        })
    }

    /// Runs a top-k pipeline that searches some of the chunks first.
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

    /// The settings for returning few of very many rows: kernels that write them to columns read faster than
    /// kernels that write them to chains of pages.
    pub(super) fn few_rows(&self) -> GalateaConfig {
        let row_output = match self.config.row_output {
            RowOutput::Auto => RowOutput::Direct,
            asked => asked,
        };
        GalateaConfig {
            row_output,
            ..self.config.clone()
        }
    }

    /// The limit, if these chunks have the required number of rows.
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

    /// The chunks that may contain rows that do not sort after a limit.
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

    /// The rows up to a key, if there are at most `most` of them.
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
        let admission = self.runtime.memory().admission();
        while let Some(batch) = result.next() {
            self.result.push(batch, admission, self.cancelled)?;
        }
        Ok(Some(done))
    }
}
