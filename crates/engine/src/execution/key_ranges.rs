//! Ranges of sort keys and their row counts. Top-k search uses them, and so does the division of sorts that
//! do not fit memory.

use super::pipeline_run::Run;
use crate::device::RunError;
use crate::report::RunReport;
use crate::results::queue::ResultQueue;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use galatea_codegen::aggregate::{AggregateCall, AggregateFunction};
use galatea_codegen::{PipelinePlan, SinkPlan};
use galatea_expression::{BUCKETS, Expr};
use std::sync::Arc;

/// A range of sort keys, with both ends included, and its number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub least: i64,
    pub greatest: i64,
    pub rows: u64,
}

impl KeyRange {
    /// The range of all keys.
    pub(super) const ALL: Self = Self {
        least: 0,
        greatest: i64::MAX,
        rows: u64::MAX,
    };

    /// Right shift of keys that numbers the equal parts of a range.
    pub(super) fn shift(self) -> u32 {
        let span = self.greatest.wrapping_sub(self.least) as u64;
        (u64::BITS - span.leading_zeros()).saturating_sub(BUCKETS.ilog2())
    }

    /// The bucket (given as number, row count) that holds the row number `wanted`, and the number of rows in
    /// the buckets before it.
    pub(super) fn with_row(self, wanted: u64, mut parts: Vec<(i32, u64)>) -> Option<(Self, u64)> {
        parts.sort_unstable();
        let mut before = 0;
        for (number, rows) in parts {
            if before + rows >= wanted {
                return Some((self.bucket(number, rows), before));
            }
            before += rows;
        }
        None
    }

    /// The bucket with this number and this number of rows.
    pub(super) fn bucket(self, number: i32, rows: u64) -> Self {
        let shift = self.shift();
        let least = self.least + (i64::from(number) << shift);
        Self {
            least,
            greatest: least.saturating_add((1 << shift) - 1).min(self.greatest),
            rows,
        }
    }
}

impl Run<'_> {
    /// The range of all keys; `None` if there are no rows.
    pub(super) fn extent(
        &self,
        key: &Expr,
        passes: &mut Vec<RunReport>,
    ) -> Result<Option<KeyRange>, RunError> {
        let plan = self.extent_plan(key);
        let batches = self.groups(&plan, passes)?;
        let Some(row) = batches.iter().find(|batch| batch.num_rows() > 0) else {
            return Ok(None);
        };
        let value = |column: usize| {
            let column = row.column(column).as_primitive::<Int64Type>();
            column.is_valid(0).then(|| column.value(0))
        };
        Ok(match (value(0), value(1), value(2)) {
            (Some(rows), Some(least), Some(greatest)) => Some(KeyRange {
                least,
                greatest,
                rows: rows as u64,
            }),
            _ => None,
        })
    }

    /// The pipeline that finds the least and the greatest key.
    pub(super) fn extent_plan(&self, key: &Expr) -> PipelinePlan {
        let call = |function, name, nullable| AggregateCall {
            function,
            argument: (function != AggregateFunction::Count).then(|| key.clone()),
            filter: None,
            field: Arc::new(Field::new(name, DataType::Int64, nullable)),
        };
        let calls = vec![
            call(AggregateFunction::Count, "rows", false),
            call(AggregateFunction::Min, "least", true),
            call(AggregateFunction::Max, "greatest", true),
        ];
        let fields: Vec<_> = calls.iter().map(|call| Arc::clone(&call.field)).collect();
        let sink = SinkPlan::Aggregate {
            keys: Vec::new(),
            aggregates: calls,
            kept: false,
        };
        self.plan_of(sink, Arc::new(Schema::new(fields)), [])
    }

    /// The number of rows in each nonempty equal part of a range.
    pub(super) fn counts(
        &self,
        key: &Expr,
        part: KeyRange,
        passes: &mut Vec<RunReport>,
    ) -> Result<Vec<(i32, u64)>, RunError> {
        let batches = self.groups(&self.counting_plan(key, part), passes)?;
        let counts = batches.iter().flat_map(|batch| {
            let numbers = batch.column(0).as_primitive::<Int32Type>().values();
            let rows = batch.column(1).as_primitive::<Int64Type>().values();
            numbers
                .iter()
                .zip(rows)
                .map(|(number, rows)| (*number, *rows as u64))
        });
        Ok(counts.collect())
    }

    /// The pipeline that counts the rows in the equal parts of a range.
    pub(super) fn counting_plan(&self, key: &Expr, part: KeyRange) -> PipelinePlan {
        let within = key.within(part.least, part.greatest);
        let number = key.bucket(part.least, part.shift());
        PipelinePlan::counts(self.filters_and([within]), Some(number))
    }

    /// The filters of the pipeline and these additional ones.
    fn filters_and<const N: usize>(&self, more: [Expr; N]) -> Vec<Expr> {
        self.plan.filters.iter().cloned().chain(more).collect()
    }

    /// The pipeline restricted to rows that also pass these filters.
    pub(super) fn plan_of<const N: usize>(
        &self,
        sink: SinkPlan,
        output: SchemaRef,
        filters: [Expr; N],
    ) -> PipelinePlan {
        PipelinePlan {
            filters: self.filters_and(filters),
            sink,
            output,
        }
    }

    /// The groups that a pipeline returns.
    fn groups(&self, plan: &PipelinePlan, passes: &mut Vec<RunReport>) -> Result<Vec<RecordBatch>, RunError> {
        let (view, result) = (self.view_of(plan)?, ResultQueue::whole());
        let run = Run {
            result: &result,
            ..self.over(plan, &view)
        };
        passes.push(run.execute()?.1);
        Ok(std::iter::from_fn(|| result.next()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::KeyRange;

    #[test]
    fn key_range_narrows_to_the_bucket_with_row_k() {
        let all = KeyRange {
            least: 0,
            greatest: i64::MAX,
            rows: 30,
        };
        assert_eq!(all.shift(), 63 - 12);
        let (part, before) = all.with_row(15, vec![(4095, 10), (7, 10), (0, 10)]).unwrap();
        assert_eq!((part.least, before, part.rows), (7 << 51, 10, 10));
        assert_eq!(part.greatest, (8 << 51) - 1);
        assert_eq!(part.shift(), 51 - 12);
        let (last, _) = all.with_row(30, vec![(4095, 10), (7, 10), (0, 10)]).unwrap();
        assert_eq!(last.greatest, i64::MAX);
        assert_eq!(all.with_row(31, vec![(0, 30)]), None);
    }

    #[test]
    fn single_key_range_has_shift_zero() {
        for key in [0, 17, i64::MAX] {
            let one = KeyRange {
                least: key,
                greatest: key,
                rows: 9,
            };
            assert_eq!(one.shift(), 0);
            assert_eq!(one.with_row(3, vec![(0, 9)]), Some((one, 0)));
        }
    }
}
