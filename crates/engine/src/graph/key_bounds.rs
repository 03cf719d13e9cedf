//! Bounds of the values of columns: of the keys of a partition, and of the keys of build sides.
//!
//! Zone maps skip chunks without these values, and loads of files skip row groups and pages without them.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use galatea_store::{KeyZones, TableView};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Values of an integer column of a pipeline's source. Rows with other values do not belong to the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBounds {
    /// The column, by its index in the source.
    column: usize,
    keys: RangeInclusive<i128>,
    /// Values below this one, and NULL, are included as well.
    outside: Option<i64>,
}

impl KeyBounds {
    /// The values `keys` of a column. `outside`: also the values below this one, and NULL.
    pub(super) fn new(column: usize, keys: RangeInclusive<i128>, outside: Option<i64>) -> Self {
        Self {
            column,
            keys,
            outside,
        }
    }

    /// Whether a chunk of a view with these columns of the source may have such a value.
    pub(crate) fn may_hold(&self, view: &TableView, columns: &[usize], chunk: usize) -> bool {
        let at = columns.binary_search(&self.column).ok();
        let Some(column) = at.and_then(|at| view.columns.get(at)) else {
            return true;
        };
        let below = |least: i64| i128::MIN..=i128::from(least) - 1;
        KeyZones::may_hold(column, chunk, &self.keys)
            || self.outside.is_some_and(|least| {
                column.chunks[chunk].zone.null_count > 0 || KeyZones::may_hold(column, chunk, &below(least))
            })
    }

    /// The bounds as predicates over the source's schema, to compare with the statistics of files. Empty for
    /// types other than integers and dates, and for bounds that include NULL.
    pub(crate) fn predicates(&self, schema: &Schema) -> Vec<Arc<dyn PhysicalExpr>> {
        let field = schema.field(self.column);
        let bound = |value: i128| {
            let value = ScalarValue::Int64(Some(i64::try_from(value).ok()?));
            match field.data_type() {
                DataType::Date32 => value
                    .cast_to(&DataType::Int32)
                    .ok()?
                    .cast_to(&DataType::Date32)
                    .ok(),
                data_type if data_type.is_integer() => value.cast_to(data_type).ok(),
                _ => None,
            }
        };
        let column = || Arc::new(Column::new(field.name(), self.column)) as Arc<dyn PhysicalExpr>;
        let predicate = |operator, value: i128| {
            let bound = Arc::new(Literal::new(bound(value)?));
            Some(Arc::new(BinaryExpr::new(column(), operator, bound)) as Arc<dyn PhysicalExpr>)
        };
        match self.outside {
            None => [
                predicate(Operator::GtEq, *self.keys.start()),
                predicate(Operator::LtEq, *self.keys.end()),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Some(_) => Vec::new(),
        }
    }
}
