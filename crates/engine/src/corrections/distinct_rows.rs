//! DISTINCT in aggregate functions of several arguments: each row of arguments counts once.
//!
//! DataFusion's `corr`, `covar_samp`, `covar_pop`, `regr_*` and `approx_percentile_cont` ignore DISTINCT. Its
//! `stddev` and `approx_median` refuse DISTINCT unless the optimizer can rewrite it to a GROUP BY.

use arrow::array::{ArrayRef, AsArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::{
    approx_median::ApproxMedian, approx_percentile_cont::ApproxPercentileCont,
    approx_percentile_cont_with_weight::ApproxPercentileContWithWeight, nth_value::NthValueAgg, regr::Regr,
};
use datafusion::logical_expr::function::StateFieldsArgs;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl};
use std::collections::HashMap;
use std::sync::Arc;

/// Whether DataFusion's accumulators of a function ignore or refuse DISTINCT. Functions with accumulators of
/// ours are not among these.
pub(super) fn ignores_distinct(function: &dyn AggregateUDFImpl) -> bool {
    function.is::<Regr>()
        || function.is::<ApproxPercentileCont>()
        || function.is::<ApproxPercentileContWithWeight>()
        || function.is::<ApproxMedian>()
}

/// Whether a function needs the order of its rows beside their values, and ignores DISTINCT.
pub(super) fn needs_order(function: &dyn AggregateUDFImpl) -> bool {
    function.is::<NthValueAgg>()
}

/// Passes each different row of arguments to another accumulator once.
#[derive(Debug)]
pub(super) struct DistinctRows {
    inner: Box<dyn Accumulator>,
    converter: RowConverter,
    fields: Fields,
    /// The number of times that each row was added and not retracted.
    rows: HashMap<OwnedRow, u64>,
    /// Heap memory of the rows, in bytes.
    row_bytes: usize,
}

impl DistinctRows {
    /// An accumulator of rows of these arguments.
    pub(super) fn new(inner: Box<dyn Accumulator>, arguments: &[FieldRef]) -> Result<Self> {
        let fields = row_fields(arguments);
        let sort_fields = fields
            .iter()
            .map(|field| SortField::new(field.data_type().clone()));
        Ok(Self {
            inner,
            converter: RowConverter::new(sort_fields.collect())?,
            fields,
            rows: HashMap::new(),
            row_bytes: 0,
        })
    }
}

/// The state: a list of rows.
pub(super) fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
    let item = Field::new_list_field(DataType::Struct(row_fields(args.input_fields)), true);
    let name = format_state_name(args.name, "distinct rows");
    vec![Arc::new(Field::new_list(name, item, true))]
}

fn row_fields(arguments: &[FieldRef]) -> Fields {
    let number = arguments.iter().enumerate();
    number
        .map(|(number, field)| Field::new(number.to_string(), field.data_type().clone(), true))
        .collect()
}

impl Accumulator for DistinctRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.converter.convert_columns(values)?;
        let mut added = Vec::new();
        for row in &rows {
            let row = row.owned();
            match self.rows.get_mut(&row) {
                Some(count) => *count += 1,
                None => {
                    self.row_bytes += row.as_ref().len();
                    added.push(row.clone());
                    self.rows.insert(row, 1);
                }
            }
        }
        if added.is_empty() {
            return Ok(());
        }
        let columns = self.converter.convert_rows(added.iter().map(OwnedRow::row))?;
        self.inner.update_batch(&columns)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.converter.convert_columns(values)?;
        let mut removed = Vec::new();
        for row in &rows {
            let row = row.owned();
            let Some(count) = self.rows.get_mut(&row) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.rows.remove(&row);
                self.row_bytes -= row.as_ref().len();
                removed.push(row);
            }
        }
        if removed.is_empty() {
            return Ok(());
        }
        let columns = self.converter.convert_rows(removed.iter().map(OwnedRow::row))?;
        self.inner.retract_batch(&columns)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for rows in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(rows.as_struct().columns())?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.converter.convert_rows(self.rows.keys().map(OwnedRow::row))?;
        let rows = StructArray::try_new_with_length(self.fields.clone(), columns, None, self.rows.len())?;
        let list = SingleRowListArrayBuilder::new(Arc::new(rows)).build_list_scalar();
        Ok(vec![list])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<(OwnedRow, u64)>() + self.row_bytes;
        size_of_val(self) + rows + self.converter.size() + self.inner.size()
    }
}
