//! What a query says about its rows: their order, which ties leave open, and how many there may be.

use crate::compare::{same, same_in_order};
use datafusion::arrow::array::{BooleanArray, Scalar};
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::compute::{and, concat_batches, filter_record_batch, not};
use datafusion::arrow::error::Result;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};

/// The outermost ORDER BY, LIMIT and OFFSET of a query.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RowOrder {
    /// Columns of the result that it is sorted by, as far as they are in it.
    keys: Vec<usize>,
    /// Whether the result is sorted by these columns and nothing else.
    complete: bool,
    /// Whether rows beyond a number are left out.
    limited: bool,
}

impl RowOrder {
    /// Looks below projections and limits.
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let mut order = Self {
            complete: true,
            ..Self::default()
        };
        let mut below = plan;
        loop {
            match below {
                LogicalPlan::Sort(sort) => {
                    order.limited |= sort.fetch.is_some();
                    order.sorted_by(&sort.expr, plan.schema());
                    return order;
                }
                LogicalPlan::Limit(_) => order.limited = true,
                LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {}
                _ => return order,
            }
            match below.inputs().first() {
                Some(input) => below = input,
                None => return order,
            }
        }
    }

    fn sorted_by(&mut self, keys: &[SortExpr], output: &DFSchema) {
        for key in keys {
            let found = match &key.expr {
                Expr::Column(column) => output
                    .maybe_index_of_column(column)
                    .or_else(|| output.index_of_column_by_name(None, &column.name)),
                _ => None,
            };
            let Some(index) = found else {
                self.complete = false;
                return;
            };
            self.keys.push(index);
        }
    }

    /// The first difference that is not one of ties.
    pub(super) fn difference(&self, expected: &[RecordBatch], actual: &[RecordBatch]) -> Option<String> {
        let strict = if self.keys.is_empty() {
            same(expected, actual)
        } else {
            same_in_order(expected, actual)
        };
        let difference = strict.err()?;
        match self.alike_but_ties(expected, actual) {
            Ok(true) => None,
            Ok(false) => Some(difference),
            Err(error) => Some(format!("{difference}\n{error}")),
        }
    }

    fn alike_but_ties(&self, expected: &[RecordBatch], actual: &[RecordBatch]) -> Result<bool> {
        let (Some(first), Some(other)) = (expected.first(), actual.first()) else {
            return Ok(false);
        };
        let expected = concat_batches(&first.schema(), expected)?;
        let actual = concat_batches(&other.schema(), actual)?;
        let keys = |batch: &RecordBatch| batch.project(&self.keys);
        let sorted = expected.num_rows() == actual.num_rows()
            && (self.keys.is_empty() || same_in_order(&[keys(&expected)?], &[keys(&actual)?]).is_ok());
        if !sorted || !self.limited {
            return Ok(sorted && same(&[expected], &[actual]).is_ok());
        }
        // Which of the rows that tie with the first and the last are returned is open.
        let inner = [self.between_ends(&expected)?, self.between_ends(&actual)?];
        Ok(!self.complete || self.keys.is_empty() || same(&inner[..1], &inner[1..]).is_ok())
    }

    /// The rows whose keys are neither the first row's nor the last one's.
    fn between_ends(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut batch = batch.clone();
        for last in [true, false] {
            if batch.num_rows() == 0 {
                break;
            }
            let row = if last { batch.num_rows() - 1 } else { 0 };
            let mut tied = BooleanArray::from(vec![true; batch.num_rows()]);
            for key in &self.keys {
                let column = batch.column(*key);
                tied = and(&tied, &not_distinct(column, &Scalar::new(column.slice(row, 1)))?)?;
            }
            batch = filter_record_batch(&batch, &not(&tied)?)?;
        }
        Ok(batch)
    }
}
