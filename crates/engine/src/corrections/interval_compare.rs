//! Comparisons of intervals with each other and with differences of timestamps compare lengths.
//!
//! DataFusion converts the difference to an interval of nanoseconds alone, and compares months first, then
//! days, then nanoseconds: three days were less than `INTERVAL '1 day'`. In PostgreSQL and DuckDB, a day has
//! 24 hours, and a month 30 days. The rule runs before type coercion. A constant interval beside a difference
//! becomes a difference, which the device compares.

use super::is_comparison;
use crate::checks::{input_schema, names_kept};
use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{
    DataType, DurationNanosecondType, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use galatea_expression::timestamp_units::per_second;
use std::sync::{Arc, LazyLock};

const DAY: i128 = 86_400_000_000_000;

/// The type of a length in nanoseconds.
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// The rule that compares lengths.
#[derive(Debug)]
pub(super) struct CompareLengths;

impl AnalyzerRule for CompareLengths {
    fn name(&self) -> &'static str {
        "galatea_interval_lengths"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            let schema = input_schema(&node);
            names_kept(node, |expr| expr.transform_up(|part| Ok(in_part(part, &schema))))
        });
        Ok(changed?.data)
    }
}

fn in_part(mut part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let changed = match &mut part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            compare([left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            compare([expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            compare([expr.as_mut()].into_iter().chain(list.iter_mut()), schema)
        }
        _ => false,
    };
    match changed {
        true => Transformed::yes(part),
        false => Transformed::no(part),
    }
}

/// Replaces compared operands by their lengths, if one of them is an interval and all have a length. Returns
/// whether it did.
fn compare<'e>(operands: impl IntoIterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    let operands = operands.into_iter().map(|operand| {
        let data_type = operand.get_type(schema).unwrap_or(DataType::Null);
        (operand, data_type)
    });
    let operands: Vec<(&mut Expr, DataType)> = operands.collect();
    let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
    let has_length = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Interval(_) | DataType::Duration(_) | DataType::Null
        )
    };
    if !operands.iter().any(|(_, own)| is_interval(own)) || !operands.iter().all(|(_, own)| has_length(own)) {
        return false;
    }
    let unit = operands.iter().find_map(|(_, own)| match own {
        DataType::Duration(unit) => Some(*unit),
        _ => None,
    });
    let constants = operands.iter().map(|(operand, own)| match unit {
        Some(unit) if is_interval(own) => duration(operand, unit),
        Some(_) => Some((*operand).clone()),
        None => None,
    });
    let constants: Option<Vec<Expr>> = constants.collect();
    for (number, (operand, own)) in operands.into_iter().enumerate() {
        match &constants {
            Some(constants) => operand.clone_from(&constants[number]),
            None if own != DataType::Null => *operand = FUNCTION.call(vec![std::mem::take(operand)]),
            None => {}
        }
    }
    true
}

/// A constant interval as a duration of that unit; `None` if it has parts of the unit.
fn duration(operand: &Expr, unit: TimeUnit) -> Option<Expr> {
    let Expr::Literal(value, _) = operand else {
        return None;
    };
    let array = value.to_array().ok()?;
    let length = *lengths(&array)
        .ok()?
        .values()
        .first()
        .filter(|_| !value.is_null())?;
    let scale = i128::from(per_second(TimeUnit::Nanosecond) / per_second(unit));
    if length % scale != 0 {
        return None;
    }
    let length = ScalarValue::Int64(Some(i64::try_from(length / scale).ok()?));
    let length = length.cast_to(&DataType::Duration(unit)).ok()?;
    Some(Expr::Literal(length, None))
}

/// The lengths of intervals or durations in nanoseconds.
fn lengths(values: &ArrayRef) -> Result<Decimal128Array> {
    let lengths: Decimal128Array = match values.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = values.as_primitive::<IntervalMonthDayNanoType>();
            values.unary(|value| {
                (30 * i128::from(value.months) + i128::from(value.days)) * DAY + i128::from(value.nanoseconds)
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let values = values.as_primitive::<IntervalDayTimeType>();
            values.unary(|value| i128::from(value.days) * DAY + i128::from(value.milliseconds) * 1_000_000)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            let values = values.as_primitive::<IntervalYearMonthType>();
            values.unary(|months| 30 * i128::from(months) * DAY)
        }
        DataType::Duration(_) => {
            let values = cast_array(values, &DataType::Duration(TimeUnit::Nanosecond))?;
            values.as_primitive::<DurationNanosecondType>().unary(i128::from)
        }
        other => return internal_err!("{other} has no length"),
    };
    Ok(lengths.with_precision_and_scale(38, 0)?)
}

/// The length of an interval or a duration in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length(Signature);

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(Length(Signature::any(1, Volatility::Immutable)).into()));

impl ScalarUDFImpl for Length {
    fn name(&self) -> &'static str {
        "galatea_length"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [values] = arrays.as_slice() else {
            return internal_err!("one argument");
        };
        let lengths = lengths(values)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(Arc::new(lengths)),
        })
    }
}
