//! Checks whether two results are equal.
//!
//! Integers, decimals, strings, booleans, dates, times and NULLs must be identical, and so must names and
//! types of the columns. Floats may differ by a relative tolerance, because their sums depend on the order of
//! addition; NaN equals NaN, and the zeros equal each other. If the query has an ORDER BY that determines the
//! order, rows are compared in order. Otherwise both results are first sorted by their exact columns, so that
//! small differences of floats do not change the pairs of compared rows.

use std::cmp::Ordering;
use std::fmt;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema};
use arrow::row::{OwnedRow, RowConverter, SortField};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;

/// The maximum difference of two 64-bit floats, relative to the larger.
pub const RELATIVE_TOLERANCE: f64 = 1e-9;

/// The same for floats of 32 and 16 bits, which are less precise.
pub const RELATIVE_TOLERANCE_SMALL: f64 = 1e-5;

/// Whether the order of rows is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// Compares row by row.
    Fixed,
    /// Compares multisets of rows.
    Any,
}

/// The first difference between two results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Columns differ in number, name or type.
    Columns {
        /// The expected one.
        expected: String,
        /// The actual one.
        actual: String,
    },
    /// The numbers of rows differ.
    Rows {
        /// The expected one.
        expected: usize,
        /// The actual one.
        actual: usize,
    },
    /// A value differs.
    Value {
        /// The row, from 0; after sorting if the order is free.
        row: usize,
        /// The column's name.
        column: String,
        /// The expected one.
        expected: String,
        /// The actual one.
        actual: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { expected, actual } => write!(f, "columns: expected {expected}, got {actual}"),
            Self::Rows { expected, actual } => write!(f, "rows: expected {expected}, got {actual}"),
            Self::Value {
                row,
                column,
                expected,
                actual,
            } => {
                write!(f, "row {row}, column {column}: expected {expected}, got {actual}")
            }
        }
    }
}

impl std::error::Error for Difference {}

/// Compares `actual` with `expected`. Both may have any number of batches, or none for no rows.
pub fn compare(expected: &[RecordBatch], actual: &[RecordBatch], order: RowOrder) -> Result<(), Difference> {
    let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    // A result without batches has no rows and no schema to compare.
    if let (Some(first), Some(second)) = (expected.first(), actual.first()) {
        let (expected, actual) = (columns(&first.schema()), columns(&second.schema()));
        if expected != actual {
            return Err(Difference::Columns { expected, actual });
        }
    }
    if rows(expected) != rows(actual) {
        return Err(Difference::Rows {
            expected: rows(expected),
            actual: rows(actual),
        });
    }
    if rows(expected) == 0 {
        return Ok(());
    }
    let (expected, actual) = (Table::new(expected), Table::new(actual));
    let permutations = match order {
        RowOrder::Fixed => None,
        RowOrder::Any => Some((expected.sorted(), actual.sorted())),
    };
    for row in 0..expected.rows {
        let (e, a) = permutations
            .as_ref()
            .map_or((row, row), |(e, a)| (e[row], a[row]));
        for (i, (x, y)) in expected.columns.iter().zip(&actual.columns).enumerate() {
            if !same(x, e, y, a) {
                return Err(Difference::Value {
                    row,
                    column: expected.names[i].clone(),
                    expected: show(x, e),
                    actual: show(y, a),
                });
            }
        }
    }
    Ok(())
}

fn columns(schema: &Schema) -> String {
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|f| format!("{} {}", f.name(), f.data_type()))
        .collect();
    format!("({})", columns.join(", "))
}

/// A result in a single batch.
struct Table {
    rows: usize,
    names: Vec<String>,
    columns: Vec<ArrayRef>,
}

impl Table {
    fn new(batches: &[RecordBatch]) -> Self {
        let schema = batches[0].schema();
        let whole = concat_batches(&schema, batches).expect("the batches of one result have one schema");
        Self {
            rows: whole.num_rows(),
            names: schema.fields().iter().map(|field| field.name().clone()).collect(),
            columns: whole.columns().to_vec(),
        }
    }

    /// Row numbers, ordered by the exact columns, then by the floats.
    fn sorted(&self) -> Vec<usize> {
        let (floats, exact): (Vec<_>, Vec<_>) = self
            .columns
            .iter()
            .cloned()
            .partition(|column| is_float(column.data_type()));
        let exact = keys(&exact, self.rows);
        let floats: Vec<Vec<f64>> = floats
            .iter()
            .map(|column| (0..self.rows).map(|row| float(column, row)).collect())
            .collect();
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.sort_by(|a, b| {
            let first = match &exact {
                Some(keys) => keys[*a].cmp(&keys[*b]),
                None => Ordering::Equal,
            };
            floats.iter().fold(first, |order, column| {
                order.then_with(|| column[*a].total_cmp(&column[*b]))
            })
        });
        order
    }
}

/// Comparable keys of columns; `None` if there are no columns.
fn keys(columns: &[ArrayRef], rows: usize) -> Option<Vec<OwnedRow>> {
    if columns.is_empty() {
        return None;
    }
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()))
        .collect();
    let converter = RowConverter::new(fields).and_then(|converter| converter.convert_columns(columns));
    let keys = converter.expect("every type that a query returns has an order");
    Some((0..rows).map(|row| keys.row(row).owned()).collect())
}

fn is_float(kind: &DataType) -> bool {
    matches!(kind, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

/// A float for sorting. NULL sorts like a separate NaN.
fn float(column: &ArrayRef, row: usize) -> f64 {
    match ScalarValue::try_from_array(column, row) {
        Ok(ScalarValue::Float64(Some(value))) => value,
        Ok(ScalarValue::Float32(Some(value))) => value.into(),
        Ok(ScalarValue::Float16(Some(value))) => value.into(),
        _ => -f64::NAN,
    }
}

fn same(x: &ArrayRef, i: usize, y: &ArrayRef, j: usize) -> bool {
    if x.is_null(i) || y.is_null(j) {
        return x.is_null(i) && y.is_null(j);
    }
    if is_float(x.data_type()) {
        let tolerance = if *x.data_type() == DataType::Float64 {
            RELATIVE_TOLERANCE
        } else {
            RELATIVE_TOLERANCE_SMALL
        };
        let (a, b) = (float(x, i), float(y, j));
        return a == b
            || (a.is_nan() && b.is_nan())
            || (a.is_finite() && b.is_finite() && (a - b).abs() <= tolerance * a.abs().max(b.abs()));
    }
    x.slice(i, 1).as_ref() == y.slice(j, 1).as_ref()
}

fn show(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".to_string();
    }
    array_value_to_string(column, row).unwrap_or_else(|_| "?".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .expect("a batch")
    }

    fn table(ints: &[Option<i64>], floats: &[f64], texts: &[&str]) -> RecordBatch {
        let decimals = Decimal128Array::from_iter_values(ints.iter().map(|i| i128::from(i.unwrap_or(0))));
        batch(vec![
            ("i", Arc::new(Int64Array::from(ints.to_vec()))),
            ("f", Arc::new(Float64Array::from(floats.to_vec()))),
            ("t", Arc::new(StringArray::from(texts.to_vec()))),
            (
                "d",
                Arc::new(decimals.with_precision_and_scale(15, 2).expect("fits")),
            ),
        ])
    }

    fn base() -> RecordBatch {
        table(
            &[Some(1), None, Some(3)],
            &[0.1, f64::NAN, -0.0],
            &["a", "b", "c"],
        )
    }

    fn column_of(difference: Result<(), Difference>) -> String {
        match difference {
            Err(Difference::Value { column, .. }) => column,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn comparison_ignores_batch_boundaries() {
        let whole = base();
        let parts = [whole.slice(0, 1), whole.slice(1, 2)];
        for order in [RowOrder::Fixed, RowOrder::Any] {
            assert_eq!(compare(std::slice::from_ref(&whole), &parts, order), Ok(()));
        }
        assert_eq!(compare(&[], &[], RowOrder::Fixed), Ok(()));
        assert_eq!(compare(&[whole.slice(0, 0)], &[], RowOrder::Any), Ok(()));
    }

    #[test]
    fn comparison_detects_injected_differences() {
        let planted = [
            (
                "i",
                table(&[Some(2), None, Some(3)], &[0.1, f64::NAN, 0.0], &["a", "b", "c"]),
            ),
            (
                "i",
                table(
                    &[Some(1), Some(0), Some(3)],
                    &[0.1, f64::NAN, 0.0],
                    &["a", "b", "c"],
                ),
            ),
            (
                "f",
                table(
                    &[Some(1), None, Some(3)],
                    &[0.1 + 1e-9, f64::NAN, 0.0],
                    &["a", "b", "c"],
                ),
            ),
            (
                "f",
                table(&[Some(1), None, Some(3)], &[0.1, 1.0, 0.0], &["a", "b", "c"]),
            ),
            (
                "f",
                table(
                    &[Some(1), None, Some(3)],
                    &[f64::INFINITY, f64::NAN, 0.0],
                    &["a", "b", "c"],
                ),
            ),
            (
                "t",
                table(&[Some(1), None, Some(3)], &[0.1, f64::NAN, 0.0], &["a", "B", "c"]),
            ),
        ];
        for (column, other) in planted {
            assert_eq!(column_of(compare(&[base()], &[other], RowOrder::Fixed)), column);
        }
        let fewer = base().slice(0, 2);
        assert_eq!(
            compare(&[base()], &[fewer], RowOrder::Any),
            Err(Difference::Rows {
                expected: 3,
                actual: 2
            })
        );
        let renamed = batch(vec![("j", Arc::new(Int64Array::from(vec![1])))]);
        let original = batch(vec![("i", Arc::new(Int64Array::from(vec![1])))]);
        assert!(matches!(
            compare(&[original], &[renamed], RowOrder::Any),
            Err(Difference::Columns { .. })
        ));
    }

    #[test]
    fn float_tolerance_depends_on_precision() {
        let near = table(
            &[Some(1), None, Some(3)],
            &[0.1 + 1e-13, f64::NAN, 0.0],
            &["a", "b", "c"],
        );
        assert_eq!(compare(&[base()], &[near], RowOrder::Any), Ok(()));
        let small = |value: f32| [batch(vec![("f", Arc::new(Float32Array::from(vec![value])))])];
        assert_eq!(compare(&small(1.0), &small(1.000_001), RowOrder::Fixed), Ok(()));
        assert!(compare(&small(1.0), &small(1.001), RowOrder::Fixed).is_err());
    }

    #[test]
    fn row_order_is_compared_only_if_fixed() {
        let turned = table(&[Some(3), Some(1), None], &[0.0, 0.1, f64::NAN], &["c", "a", "b"]);
        assert_eq!(
            compare(&[base()], std::slice::from_ref(&turned), RowOrder::Any),
            Ok(())
        );
        assert_eq!(column_of(compare(&[base()], &[turned], RowOrder::Fixed)), "i");
        // One row twice, compared with two different rows.
        let twice = |rows: &[i64]| [batch(vec![("i", Arc::new(Int64Array::from(rows.to_vec())))])];
        assert!(compare(&twice(&[1, 1, 2]), &twice(&[1, 2, 2]), RowOrder::Any).is_err());
    }
}
