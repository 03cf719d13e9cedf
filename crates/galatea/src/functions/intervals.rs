//! Multiples of intervals: `n * INTERVAL '1 day'`, `INTERVAL '1 hour' * 0.5`.
//!
//! Months are multiplied first, and their fractions are days of a month of 30, as in PostgreSQL; fractions of
//! days are hours.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{DFSchema, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY: f64 = 86_400e9;

/// Plans products and quotients of an interval and a number.
#[derive(Debug)]
pub(super) struct Multiples;

impl ExprPlanner for Multiples {
    fn plan_binary_op(
        &self,
        binary: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_interval = |value: &Expr| {
            value
                .get_type(schema)
                .is_ok_and(|own| matches!(own, DataType::Interval(_)))
        };
        let is_number = |value: &Expr| {
            let own = value.get_type(schema);
            own.is_ok_and(|own| own.is_numeric() || own == DataType::Null)
        };
        let (left, right) = (&binary.left, &binary.right);
        let (interval, number) = match binary.op {
            BinaryOperator::Multiply if is_interval(left) && is_number(right) => (left, right.clone()),
            BinaryOperator::Multiply if is_interval(right) && is_number(left) => (right, left.clone()),
            BinaryOperator::Divide if is_interval(left) && is_number(right) => {
                let one = Expr::Literal(ScalarValue::Float64(Some(1.0)), None);
                let number = datafusion::logical_expr::cast(right.clone(), DataType::Float64);
                (left, one / number)
            }
            _ => return Ok(PlannerResult::Original(binary)),
        };
        Ok(PlannerResult::Planned(
            FUNCTION.call(vec![interval.clone(), number]),
        ))
    }
}

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![INTERVAL, DataType::Float64], Volatility::Immutable);
    Arc::new(Multiple(signature).into())
});

/// The multiple of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Multiple(Signature);

impl ScalarUDFImpl for Multiple {
    fn name(&self) -> &'static str {
        "interval_multiple"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args
            .args
            .iter()
            .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
        let numbers = cast(&arrays[1], &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let multiples =
            (0..intervals.len()).map(|row| match intervals.is_null(row) || numbers.is_null(row) {
                true => Ok(None),
                false => multiple(intervals.value(row), numbers.value(row)).map(Some),
            });
        let multiples: ArrayRef = Arc::new(multiples.collect::<Result<IntervalMonthDayNanoArray>>()?);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&multiples, 0)?),
            false => ColumnarValue::Array(multiples),
        })
    }
}

fn multiple(interval: IntervalMonthDayNano, number: f64) -> Result<IntervalMonthDayNano> {
    let months = f64::from(interval.months) * number;
    let days = f64::from(interval.days) * number + months.fract() * 30.0;
    // Products of decimal fractions are exact to a nanosecond.
    let nanoseconds = (interval.nanoseconds as f64 * number + days.fract() * DAY).round();
    let whole = |value: f64| {
        let value = value.trunc();
        let fits = value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
        fits.then_some(value as i32)
    };
    let exact = number.fract() == 0.0 && number.abs() < 9e15;
    let nanoseconds = match exact {
        true => interval.nanoseconds.checked_mul(number as i64),
        false => (nanoseconds.abs() < 9e18).then_some(nanoseconds as i64),
    };
    let parts = whole(months).zip(whole(days)).zip(nanoseconds);
    let ((months, days), nanoseconds) = parts
        .ok_or_else(|| exec_datafusion_err!("the multiple of an interval by {number} is out of range"))?;
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}
