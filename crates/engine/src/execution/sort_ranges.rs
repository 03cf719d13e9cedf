//! Sorts more rows than can be sorted in device memory, one range of the order at a time.
//!
//! ```text
//! rows in each of 4096 equal parts of the sort key ── neighbours merged up to the limit ── each range: scanned, sorted, returned
//! ```
//!
//! Ranges are disjoint and ordered, so nothing is merged, and rows are returned as soon as the first range is
//! sorted. Each range scans the pipeline's input again and keeps the rows in the range: input on the device
//! is read at the bandwidth of its memory, and rows outside the range are not written.
//!
//! Rows with one sort key may be more than fit. If the key has the whole order, these rows may be returned in
//! any order, so they are divided by the chunks of the input.

use super::attempt::{Shrinking, repeat};
use super::key_ranges::KeyRange;
use super::pipeline_run::{Output, Run};
use crate::device::RunError;
use crate::report::RunReport;
use crate::sort::sorting_bytes;
use galatea_base::policy::policy;
use galatea_codegen::bound::ResultPlan;
use galatea_codegen::output;
use galatea_codegen::strategy::Strategy;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_expression::Expr;
use std::ops::Range;
use std::sync::Arc;

policy! {
    /// How rows that do not fit device memory at once are sorted.
    pub(super) struct RangePolicy {
        /// Divisor of free memory: the rows of a range may use the quotient, besides the input.
        memory: u64 = 2,
        /// Divisor of that memory after an attempt that failed for lack of memory.
        less: u64 = 4,
        /// Number of attempts, with smaller ranges each time.
        tries: u32 = 4,
        /// Maximum number of counting passes: if more are needed, a few keys have nearly all rows.
        passes: usize = 64,
    }
}

const POLICY: RangePolicy = RangePolicy::DEFAULT;

/// Ranges of the sort key. The rows of each range fit device memory.
struct Ranges {
    key: Expr,
    ranges: Vec<SortRange>,
    /// The passes that counted their rows.
    passes: Vec<RunReport>,
    /// The memory that the rows of a range may use.
    memory: Shrinking,
}

/// Rows that are sorted at once.
struct SortRange {
    keys: KeyRange,
    /// The chunks that are scanned, by their number among those of the run.
    chunks: Range<usize>,
}

/// Number of rows in the computation of the bytes per row.
const ROWS: u64 = 1 << 20;

impl Run<'_> {
    /// Runs a pipeline that returns all of its rows in the order of `words`: at once, or in ranges if memory
    /// is too small for that.
    pub(super) fn execute_sorted(
        &self,
        outputs: &[Expr],
        words: &[Expr],
    ) -> Result<(Output, RunReport), RunError> {
        repeat(
            None,
            |ranges: &mut Option<Ranges>| match ranges {
                None => self.admitted(),
                Some(ranges) => self.sorted_ranges(outputs, words, ranges),
            },
            |before, failure| self.ranges_after(words, before, failure).map(Some),
        )
    }

    /// The ranges of the next attempt, smaller than those before. Fails if rows with equal leading digits of
    /// the order are more than fit, and once rows were read.
    fn ranges_after(
        &self,
        words: &[Expr],
        before: Option<Ranges>,
        failure: RunError,
    ) -> Result<Ranges, RunError> {
        let Some(key) = Expr::sort_key_of(words).filter(|_| matches!(failure, RunError::Memory { .. }))
        else {
            return Err(failure);
        };
        let memory = match before {
            None => Shrinking::new(self.runtime.room() / POLICY.memory, POLICY.less, POLICY.tries),
            Some(before) => before.memory.next(),
        };
        let Some(memory) = memory.filter(|_| self.result.restart_all()) else {
            return Err(failure);
        };
        let mut passes = Vec::new();
        let rows = (memory.bytes / self.sorted_row()?).min(u32::MAX.into());
        match self.ranges(&key, rows, &mut passes) {
            Ok(Some(ranges)) => Ok(Ranges {
                key,
                ranges,
                passes,
                memory,
            }),
            Ok(None) | Err(RunError::Memory { .. } | RunError::Unsupported(_)) => Err(failure),
            Err(error) => Err(error),
        }
    }

    /// Bytes of device memory that a row uses while it is sorted.
    fn sorted_row(&self) -> Result<u64, RunError> {
        let bound = &self.prepare()?.pipeline.bound;
        Ok(match (&bound.strategy, &bound.result) {
            (Strategy::Sort { words, .. }, ResultPlan::Rows(plan)) => {
                let row = output::row_bytes(&plan.columns);
                row + sorting_bytes(&plan.columns, *words, ROWS).div_ceil(ROWS)
            }
            _ => 1,
        })
    }

    /// Adjacent ranges that cover all sort keys, with at most `most` rows each; `None` if one key has more
    /// rows and is not the whole order.
    fn ranges(
        &self,
        key: &Expr,
        most: u64,
        passes: &mut Vec<RunReport>,
    ) -> Result<Option<Vec<SortRange>>, RunError> {
        let mut ranges: Vec<SortRange> = Vec::new();
        // The remaining ranges, in descending order.
        let mut left: Vec<KeyRange> = self.extent(key, passes)?.into_iter().collect();
        while let Some(part) = left.pop() {
            if part.rows > most && part.least == part.greatest {
                let slices = self.chunks_of_at_most(most);
                let (Some(slices), false) = (slices, self.cuts_order(key)?) else {
                    return Ok(None);
                };
                ranges.extend(slices.into_iter().map(|chunks| SortRange { keys: part, chunks }));
                continue;
            }
            if part.rows > most {
                if passes.len() >= POLICY.passes {
                    return Ok(None);
                }
                let mut counts = self.counts(key, part, passes)?;
                counts.sort_unstable_by(|one, other| other.cmp(one));
                left.extend(counts.into_iter().map(|(number, rows)| part.bucket(number, rows)));
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.keys.rows + part.rows <= most => {
                    last.keys.greatest = part.greatest;
                    last.keys.rows += part.rows;
                }
                _ => ranges.push(SortRange {
                    keys: part,
                    chunks: 0..self.chunks.len(),
                }),
            }
        }
        Ok(Some(ranges))
    }

    /// Ranges of consecutive chunks with at most `most` rows each; `None` if a chunk has more.
    fn chunks_of_at_most(&self, most: u64) -> Option<Vec<Range<usize>>> {
        let mut slices = Vec::new();
        let (mut first, mut held) = (0, 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            let rows = u64::from(self.view.chunk_rows[*chunk]);
            if rows > most {
                return None;
            }
            if held + rows > most {
                slices.push(first..number);
                (first, held) = (number, 0);
            }
            held += rows;
        }
        slices.push(first..self.chunks.len());
        Some(slices)
    }

    /// Whether rows with equal sort keys may differ in their order.
    fn cuts_order(&self, key: &Expr) -> Result<bool, RunError> {
        let plan = self.counting_plan(key, KeyRange::ALL);
        let prepared = self.over(&plan, &self.view_of(&plan)?).prepare()?;
        Ok(prepared.pipeline.bound.parameters.cuts_order)
    }

    /// Sorts and returns the rows of one range after another.
    fn sorted_ranges(
        &self,
        outputs: &[Expr],
        words: &[Expr],
        Ranges {
            key, ranges, passes, ..
        }: &Ranges,
    ) -> Result<(Output, RunReport), RunError> {
        // Without rows there is no range: one run over an empty range creates the report.
        let none = [SortRange {
            keys: KeyRange {
                rows: 0,
                ..KeyRange::ALL
            },
            chunks: 0..self.chunks.len(),
        }];
        let ranges = if ranges.is_empty() { &none } else { &ranges[..] };
        let mut done: Option<(Output, RunReport)> = None;
        for range in ranges {
            let returned = done.as_ref().map_or(0, |(output, _)| output.rows());
            let fetch = self.fetch.map(|fetch| fetch.saturating_sub(returned));
            if let (Some(0), true) = (fetch, done.is_some()) {
                break;
            }
            let sink = SinkPlan::Rows {
                outputs: outputs.to_vec(),
                order: Some(RowOrder::All(words.to_vec())),
            };
            let within = key.within(range.keys.least, range.keys.greatest);
            let plan = self.plan_of(sink, Arc::clone(&self.plan.output), [within]);
            let view = self.view_of(&plan)?;
            let run = Run {
                fetch,
                chunks: &self.chunks[range.chunks.clone()],
                ..self.over(&plan, &view)
            };
            let (output, mut report) = run.admitted()?;
            self.result.settle();
            report.sort_ranges = 1;
            done = Some(match done {
                None => (output, report),
                Some((before, mut all)) => {
                    all.add_part(&report);
                    (before.and(output), all)
                }
            });
        }
        let (output, mut report) = done.ok_or_else(|| RunError::Ended("it sorted ranges".into()))?;
        passes.iter().for_each(|pass| report.passed_before(pass));
        Ok((output, report))
    }
}
