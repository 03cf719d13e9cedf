//! Properties of a query's result: its order, which leaves ties open, and whether the number of rows is
//! limited.

use crate::compare::{same, same_in_order};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, Scalar};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::compute::{SortOptions, and, concat, concat_batches, filter_record_batch, not, sort};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::Result;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use std::sync::Arc;

/// The outermost ORDER BY, LIMIT and OFFSET of a query.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RowOrder {
    /// Indices of the result columns by which it is sorted, if they are part of it.
    keys: Vec<usize>,
    /// The sort options of each.
    options: Vec<SortOptions>,
    /// Whether the result is sorted by exactly these columns.
    complete: bool,
    /// Whether the query has a LIMIT or OFFSET.
    limited: bool,
    /// Whether lists are collected in an undefined order.
    lists: bool,
}

impl RowOrder {
    /// Reads the order below projections and limits.
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let mut order = Self {
            complete: true,
            lists: collects_lists(plan),
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
                Expr::Column(column) => output.maybe_index_of_column(column).or_else(|| {
                    let named = output.index_of_column_by_name(None, &column.name)?;
                    // A column of that name may belong to another table.
                    let (table, _) = output.qualified_field(named);
                    (column.relation.is_none() || table.is_none()).then_some(named)
                }),
                _ => None,
            };
            let Some(index) = found else {
                self.complete = false;
                return;
            };
            self.keys.push(index);
            self.options.push(SortOptions {
                descending: !key.asc,
                nulls_first: key.nulls_first,
            });
        }
    }

    /// The first difference other than ties.
    pub(super) fn difference(&self, expected: &[RecordBatch], actual: &[RecordBatch]) -> Option<String> {
        if self.lists {
            let sorted =
                |batches: &[RecordBatch]| batches.iter().map(with_sorted_lists).collect::<Result<Vec<_>>>();
            let lists = Self {
                lists: false,
                ..self.clone()
            };
            return match (sorted(expected), sorted(actual)) {
                (Ok(expected), Ok(actual)) => lists.difference(&expected, &actual),
                (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
            };
        }
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
        if !self.is_in_order(&expected)? {
            // DataFusion's piecewise merge join does not preserve its required order.
            return Ok(!self.limited && self.is_in_order(&actual)? && same(&[expected], &[actual]).is_ok());
        }
        let keys = |batch: &RecordBatch| batch.project(&self.keys);
        let sorted = expected.num_rows() == actual.num_rows()
            && (self.keys.is_empty() || same_in_order(&[keys(&expected)?], &[keys(&actual)?]).is_ok());
        if !sorted || !self.limited {
            return Ok(sorted && same(&[expected], &[actual]).is_ok());
        }
        // The query does not determine which ties of the first and the last row are returned.
        let inner = [self.between_ends(&expected)?, self.between_ends(&actual)?];
        Ok(!self.complete || self.keys.is_empty() || same(&inner[..1], &inner[1..]).is_ok())
    }

    /// Whether rows are in the required order.
    fn is_in_order(&self, batch: &RecordBatch) -> Result<bool> {
        let keys = batch.project(&self.keys)?;
        let fields = keys.columns().iter().zip(&self.options);
        let fields =
            fields.map(|(column, options)| SortField::new_with_options(column.data_type().clone(), *options));
        let rows = RowConverter::new(fields.collect())?.convert_columns(keys.columns())?;
        Ok(self.keys.is_empty() || rows.iter().is_sorted())
    }

    /// The rows with keys that differ from those of the first and the last row.
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

/// Whether a plan calls `array_agg` without an order.
fn collects_lists(plan: &LogicalPlan) -> bool {
    let unordered = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) => call.func.name() == "array_agg" && call.params.order_by.is_empty(),
        _ => false,
    };
    let mut found = false;
    let visited = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(unordered(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    });
    visited.is_ok() && found
}

/// A batch with each of its lists sorted, if the values are sortable.
fn with_sorted_lists(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| {
        let DataType::List(field) = column.data_type() else {
            return Ok(ArrayRef::clone(column));
        };
        if field.data_type().is_nested() {
            return Ok(ArrayRef::clone(column));
        }
        let lists = column.as_list::<i32>();
        let sorted = (lists.iter().flatten())
            .map(|list| sort(&list, None))
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn Array> = sorted.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(ArrayRef::clone(column));
        }
        let lengths = lists.iter().map(|list| list.map_or(0, |list| list.len()));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls = lists.nulls().cloned();
        Ok(Arc::new(ListArray::try_new(
            field.clone(),
            offsets,
            concat(&parts)?,
            nulls,
        )?) as ArrayRef)
    });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)
}
