//! Lists, structs and maps as strings, for formats that cannot represent them: CSV.
//!
//! Arrow's CSV writer refuses them when it writes the header. [`NestedAsText`] converts them for COPY to the
//! strings that a printed table shows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Converts each value to the string that a printed table shows. NULL stays NULL.
///
/// # Errors
/// Those of Arrow's formatter, for a value that has no string.
pub fn nested_as_text(values: &dyn Array, options: &FormatOptions<'_>) -> Result<ArrayRef, ArrowError> {
    let formatter = ArrayFormatter::try_new(values, options)?;
    let mut texts = StringBuilder::new();
    for row in 0..values.len() {
        match values.is_null(row) {
            true => texts.append_null(),
            false => texts.append_value(formatter.value(row).try_to_string()?),
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// [`nested_as_text`] as a scalar function of plans.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Text(Signature);

impl ScalarUDFImpl for Text {
    fn name(&self) -> &'static str {
        "galatea_nested_text"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&call.args)?;
        let options = (&call.config_options.format).try_into()?;
        Ok(ColumnarValue::Array(nested_as_text(
            values[0].as_ref(),
            &options,
        )?))
    }
}

/// Converts nested columns to strings in a COPY to CSV.
#[derive(Debug)]
pub(crate) struct NestedAsText;

impl OptimizerRule for NestedAsText {
    fn name(&self) -> &'static str {
        "galatea_nested_as_text"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Copy(copy) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let schema = copy.input.schema();
        let is_csv = copy.file_type.get_ext() == "csv";
        if !is_csv || !schema.fields().iter().any(|field| field.data_type().is_nested()) {
            return Ok(Transformed::no(plan));
        }
        let text = ScalarUDF::from(Text(Signature::any(1, Volatility::Immutable)));
        let columns = schema.iter().map(|(relation, field)| {
            let column = Expr::Column(Column::from((relation, field)));
            match field.data_type().is_nested() {
                true => text
                    .call(vec![column])
                    .alias_qualified(relation.cloned(), field.name()),
                false => column,
            }
        });
        let input = LogicalPlanBuilder::from(LogicalPlan::clone(&copy.input));
        let input = input.project(columns.collect::<Vec<_>>())?.build()?;
        Ok(Transformed::yes(LogicalPlan::Copy(CopyTo::new(
            Arc::new(input),
            copy.output_url.clone(),
            copy.partition_by.clone(),
            Arc::clone(&copy.file_type),
            copy.options.clone(),
        ))))
    }
}
