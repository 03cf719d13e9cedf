//! Estimates the share of rows that a filter keeps.

use super::JoinOrderPolicy;
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use std::collections::BTreeMap;
use std::sync::Arc;

const UNKNOWN: f64 = JoinOrderPolicy::DEFAULT.unknown;
const UNKNOWN_EQUALITY: f64 = JoinOrderPolicy::DEFAULT.unknown_equality;

/// The share of rows of an input with these statistics that pass a predicate. Conditions on different columns
/// are assumed to be independent; those on one column are the bounds of an interval.
pub(super) fn share(predicate: &Arc<dyn PhysicalExpr>, input: &Statistics) -> f64 {
    let mut intervals: BTreeMap<usize, Interval> = BTreeMap::new();
    let mut share = 1.0;
    for conjunct in split_conjunction(predicate) {
        match Bound::of(conjunct, input) {
            Some(bound) => bound.narrow(intervals.entry(bound.column).or_insert(bound.all)),
            None => share *= share_of(conjunct, input),
        }
    }
    intervals
        .values()
        .fold(share, |share, interval| share * interval.share())
}

/// Distinct values of a column of `rows` rows, if they were counted or are integers in a known range.
pub(crate) fn distinct_values(column: &ColumnStatistics, rows: f64) -> Option<f64> {
    let counted = column.distinct_count.get_value().map(|count| *count as f64);
    let range = || {
        let [least, greatest] = bounds(column)?;
        let kind = column.min_value.get_value()?.data_type();
        let whole = kind.is_integer() || matches!(kind, DataType::Date32 | DataType::Boolean);
        whole.then_some(greatest - least + 1.0)
    };
    Some(counted.or_else(range)?.min(rows).max(1.0))
}

fn share_of(condition: &Arc<dyn PhysicalExpr>, input: &Statistics) -> f64 {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        let side = |expression| share(expression, input);
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::Or => {
                let (left, right) = (side(left), side(right));
                left + right - left * right
            }
            Operator::Eq => equal(left, right, input),
            Operator::NotEq => 1.0 - equal(left, right, input),
            _ => UNKNOWN,
        };
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return 1.0 - share(not.arg(), input);
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let one = column_of(list.expr(), input).map_or(UNKNOWN_EQUALITY, |values| 1.0 / values);
        let share = (one * list.list().len() as f64).min(1.0);
        return if list.negated() { 1.0 - share } else { share };
    }
    let nulls = |argument: &Arc<dyn PhysicalExpr>| {
        let column = argument.downcast_ref::<Column>()?;
        let nulls = input
            .column_statistics
            .get(column.index())?
            .null_count
            .get_value()
            .copied()?;
        Some(nulls as f64 / rows(input)?.max(1.0))
    };
    if let Some(null) = condition.downcast_ref::<IsNullExpr>() {
        return nulls(null.arg()).unwrap_or(UNKNOWN);
    }
    if let Some(not_null) = condition.downcast_ref::<IsNotNullExpr>() {
        return 1.0 - nulls(not_null.arg()).unwrap_or(0.0);
    }
    if let Some(Some(holds)) = condition.downcast_ref::<Literal>().map(|literal| {
        let ScalarValue::Boolean(value) = literal.value() else {
            return None;
        };
        *value
    }) {
        return f64::from(u8::from(holds));
    }
    UNKNOWN
}

/// The share of rows with two equal values, at least one of them a column.
fn equal(left: &Arc<dyn PhysicalExpr>, right: &Arc<dyn PhysicalExpr>, input: &Statistics) -> f64 {
    match (column_of(left, input), column_of(right, input)) {
        (Some(left), Some(right)) => 1.0 / left.max(right),
        (left, right) => left.or(right).map_or(UNKNOWN_EQUALITY, |values| 1.0 / values),
    }
}

/// Distinct values of a column, if known.
fn column_of(expression: &Arc<dyn PhysicalExpr>, input: &Statistics) -> Option<f64> {
    let column = expression.downcast_ref::<Column>()?;
    let statistics = input.column_statistics.get(column.index())?;
    distinct_values(statistics, rows(input)?)
}

fn rows(input: &Statistics) -> Option<f64> {
    input.num_rows.get_value().map(|rows| *rows as f64)
}

/// An interval of a column's values, within the range of all values.
#[derive(Clone, Copy)]
struct Interval {
    least: f64,
    greatest: f64,
    from: f64,
    to: f64,
    /// The distance of neighbouring values.
    step: f64,
}

impl Interval {
    fn share(&self) -> f64 {
        let all = self.greatest - self.least + self.step;
        let kept = self.to.min(self.greatest) - self.from.max(self.least) + self.step;
        if all <= 0.0 {
            1.0
        } else {
            (kept / all).clamp(0.0, 1.0)
        }
    }
}

/// A comparison of a column with a number.
#[derive(Clone, Copy)]
struct Bound {
    column: usize,
    all: Interval,
    upper: bool,
    value: f64,
}

impl Bound {
    fn of(condition: &Arc<dyn PhysicalExpr>, input: &Statistics) -> Option<Self> {
        let binary = condition.downcast_ref::<BinaryExpr>()?;
        let (column, literal, operator) = match (
            binary.left().downcast_ref::<Column>(),
            binary.right().downcast_ref::<Literal>(),
        ) {
            (Some(column), Some(literal)) => (column, literal, *binary.op()),
            _ => (
                binary.right().downcast_ref::<Column>()?,
                binary.left().downcast_ref::<Literal>()?,
                binary.op().swap()?,
            ),
        };
        let (upper, open) = match operator {
            Operator::Lt => (true, true),
            Operator::LtEq => (true, false),
            Operator::Gt => (false, true),
            Operator::GtEq => (false, false),
            _ => return None,
        };
        let statistics = input.column_statistics.get(column.index())?;
        let [least, greatest] = bounds(statistics)?;
        let step = match literal.value() {
            ScalarValue::Float32(_) | ScalarValue::Float64(_) => 0.0,
            _ => 1.0,
        };
        let inward = match (open, upper) {
            (false, _) => 0.0,
            (true, true) => -step,
            (true, false) => step,
        };
        Some(Self {
            column: column.index(),
            all: Interval {
                least,
                greatest,
                from: least,
                to: greatest,
                step,
            },
            upper,
            value: number(literal.value())? + inward,
        })
    }

    fn narrow(&self, interval: &mut Interval) {
        if self.upper {
            interval.to = interval.to.min(self.value);
        } else {
            interval.from = interval.from.max(self.value);
        }
    }
}

/// Minimum and maximum of a column, as numbers.
fn bounds(column: &ColumnStatistics) -> Option<[f64; 2]> {
    let known = |value: &Precision<ScalarValue>| number(value.get_value()?);
    Some([known(&column.min_value)?, known(&column.max_value)?])
}

/// A value as a number: dates and times by their position among those of their type, decimals without their
/// point.
fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as S;
    Some(match value {
        S::Boolean(value) => f64::from(u8::from((*value)?)),
        S::Int8(value) => f64::from((*value)?),
        S::Int16(value) => f64::from((*value)?),
        S::Int32(value)
        | S::Date32(value)
        | S::Time32Second(value)
        | S::Time32Millisecond(value)
        | S::Decimal32(value, ..) => f64::from((*value)?),
        S::UInt8(value) => f64::from((*value)?),
        S::UInt16(value) => f64::from((*value)?),
        S::UInt32(value) => f64::from((*value)?),
        S::Int64(value)
        | S::Date64(value)
        | S::Time64Microsecond(value)
        | S::Time64Nanosecond(value)
        | S::TimestampSecond(value, _)
        | S::TimestampMillisecond(value, _)
        | S::TimestampMicrosecond(value, _)
        | S::TimestampNanosecond(value, _)
        | S::Decimal64(value, ..) => (*value)? as f64,
        S::UInt64(value) => (*value)? as f64,
        S::Float32(value) => f64::from((*value)?),
        S::Float64(value) => (*value)?,
        S::Decimal128(value, ..) => (*value)? as f64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, in_list, is_null, like, lit, not};

    /// 1000 rows of a number from 0 to 99, a string with 4 values, a float from 0 to 1, and a key without
    /// statistics.
    fn input() -> (Schema, Statistics) {
        let schema = Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8, true),
            Field::new("float", DataType::Float64, true),
            Field::new("key", DataType::Int64, true),
        ]);
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Exact(1000);
        let column = |least: ScalarValue, greatest: ScalarValue| ColumnStatistics {
            min_value: Precision::Exact(least),
            max_value: Precision::Inexact(greatest),
            null_count: Precision::Exact(100),
            ..ColumnStatistics::new_unknown()
        };
        statistics.column_statistics[0] = column(0_i64.into(), 99_i64.into());
        statistics.column_statistics[1].distinct_count = Precision::Inexact(4);
        statistics.column_statistics[2] = column(0.0.into(), 1.0.into());
        (schema, statistics)
    }

    #[test]
    fn selectivity_of_conditions() {
        let (schema, statistics) = input();
        let of = |name: &str| col(name, &schema).expect("a column");
        let compare = |left, operator, right| binary(left, operator, right, &schema).expect("comparable");
        let number = |operator, value: i64| compare(of("number"), operator, lit(value));
        let from_20 = number(Operator::GtEq, 20);
        let below_30 = compare(lit(30_i64), Operator::Gt, of("number"));
        let three = in_list(
            of("number"),
            vec![lit(1_i64), lit(5_i64), lit(7_i64)],
            &false,
            &schema,
        );
        let name = like(false, false, of("text"), lit("%x%"), &schema);
        let cases = [
            (number(Operator::Eq, 7), 0.01),
            (number(Operator::NotEq, 7), 0.99),
            (number(Operator::Lt, 50), 0.5),
            (number(Operator::Gt, 400), 0.0),
            (number(Operator::LtEq, 400), 1.0),
            (compare(Arc::clone(&from_20), Operator::And, below_30), 0.1),
            (compare(from_20, Operator::Or, number(Operator::Lt, 50)), 0.9),
            (three.expect("a list"), 0.03),
            (compare(of("text"), Operator::Eq, lit("a")), 0.25),
            (compare(of("float"), Operator::Lt, lit(0.3)), 0.3),
            (compare(of("number"), Operator::Eq, of("text")), 0.01),
            (compare(of("key"), Operator::Eq, lit(3_i64)), UNKNOWN_EQUALITY),
            (
                not(compare(of("key"), Operator::Lt, lit(3_i64))).expect("a boolean"),
                1.0 - UNKNOWN,
            ),
            (is_null(of("number")).expect("a column"), 0.1),
            (name.expect("a pattern"), UNKNOWN),
            (lit(true), 1.0),
        ];
        for (condition, expected) in cases {
            let share = share(&condition, &statistics);
            assert!(
                (share - expected).abs() < 1e-9,
                "{condition}: {share} instead of {expected}"
            );
        }
    }

    #[test]
    fn distinct_values_come_from_statistics_or_integer_range() {
        let (_, statistics) = input();
        let values = |column: usize, rows| distinct_values(&statistics.column_statistics[column], rows);
        assert_eq!(values(0, 1000.0), Some(100.0));
        assert_eq!(values(0, 30.0), Some(30.0));
        assert_eq!(values(1, 1000.0), Some(4.0));
        assert_eq!(values(2, 1000.0), None);
        assert_eq!(values(3, 1000.0), None);
    }
}
