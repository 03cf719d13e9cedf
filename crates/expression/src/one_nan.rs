//! The function that maps every NaN of a float to one bit pattern, and negative zero to zero.
//!
//! Rewrite rules for operators of the CPU insert it where floats are compared by their bits (`corrections` of
//! the engine). Kernels normalise floats themselves when they compare them, so lowering removes it.

use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

fn is_float(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let data_type = expr.data_type(schema)?;
    Ok(argument(expr).is_none() && matches!(data_type, DataType::Float32 | DataType::Float64))
}

/// The float argument of a call of this function; `None` for other expressions. Kernels normalise floats
/// themselves.
pub fn argument(expr: &Arc<dyn PhysicalExpr>) -> Option<&Arc<dyn PhysicalExpr>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let is_one_nan = call.fun().inner().is::<OneNanFunction>();
    call.args().first().filter(|_| is_one_nan)
}

/// Whether an expression of a logical plan is a call of this function.
pub fn is_one_nan(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().is::<OneNanFunction>(),
        _ => false,
    }
}

/// Wraps a float expression in this function; `None` for other types, and for floats that are already
/// normalised.
pub fn of_one_nan(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if !is_float(expr, schema)? {
        return Ok(None);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        let value = match literal.value() {
            ScalarValue::Float32(Some(value)) => ScalarValue::from(one_single(*value)),
            ScalarValue::Float64(Some(value)) => ScalarValue::from(one_double(*value)),
            _ => return Ok(None),
        };
        return Ok(Some(Arc::new(Literal::new(value))));
    }
    let function = ScalarUDF::new_from_impl(OneNanFunction::default());
    let field = expr.return_field(schema)?;
    Ok(Some(Arc::new(ScalarFunctionExpr::new(
        function.inner().name(),
        Arc::new(function.clone()),
        vec![Arc::clone(expr)],
        field,
        Arc::clone(options),
    ))))
}

fn one_single(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

fn one_double(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// Normalises a float: one bit pattern for every NaN, and zero for negative zero.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct OneNanFunction {
    signature: Signature,
}

impl Default for OneNanFunction {
    /// The function, for floats of both widths.
    fn default() -> Self {
        let types = vec![DataType::Float32, DataType::Float64];
        Self {
            signature: Signature::uniform(1, types, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OneNanFunction {
    fn name(&self) -> &'static str {
        "one_nan"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    /// The bounds of the argument. The default has another type, so that a comparison of the result would
    /// have no order.
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs {
            [bounds] => Interval::make_unbounded(&bounds.data_type()),
            _ => internal_err!("one_nan has one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let one: ArrayRef = match values.data_type() {
            DataType::Float32 => {
                let one: Float32Array = values.as_primitive::<Float32Type>().unary(one_single);
                Arc::new(one)
            }
            DataType::Float64 => {
                let one: Float64Array = values.as_primitive::<Float64Type>().unary(one_double);
                Arc::new(one)
            }
            other => return internal_err!("one_nan of {other}"),
        };
        Ok(ColumnarValue::Array(one))
    }
}
