//! Ranks of floats: integers in the order of the values. Every NaN has one rank, above infinity, and both
//! zeros have one.

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use std::sync::Arc;

/// The rank of a float: ranks have the order of the values, with NaN last.
fn rank(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    // Negative zero becomes zero.
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The float of a rank.
pub(super) fn value_of(rank: i64) -> f64 {
    if rank == i64::MAX {
        return f64::NAN;
    }
    let bits = rank ^ ((rank >> 63).cast_unsigned() >> 1).cast_signed();
    f64::from_bits(bits.cast_unsigned())
}

/// The ranks of arrays of floats.
pub(super) fn ranks(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let ranks = values.iter().map(|values| {
        let ranks: Int64Array = match values.data_type() {
            DataType::Float16 => values
                .as_primitive::<Float16Type>()
                .unary(|value| rank(f64::from(value))),
            DataType::Float32 => values
                .as_primitive::<Float32Type>()
                .unary(|value| rank(f64::from(value))),
            DataType::Float64 => values.as_primitive::<Float64Type>().unary(rank),
            other => return internal_err!("ranks need floats, but the values are {other}"),
        };
        Ok(Arc::new(ranks) as ArrayRef)
    });
    ranks.collect()
}

/// The result of `make` for a function with ranks as arguments instead of floats.
pub(super) fn with_rank_arguments<T>(
    args: AccumulatorArgs,
    make: impl FnOnce(AccumulatorArgs) -> Result<T>,
) -> Result<T> {
    let field: FieldRef = Arc::new(Field::new(args.name, DataType::Int64, true));
    make(AccumulatorArgs {
        expr_fields: &[field],
        ..args
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_order_values_with_nan_last() {
        let ordered = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        let ranks: Vec<i64> = ordered.iter().map(|value| rank(*value)).collect();
        assert!(ranks.is_sorted_by(|one, next| one < next), "{ranks:?}");
        for value in ordered {
            let back = value_of(rank(value));
            assert!(
                back == value || back.is_nan() && value.is_nan(),
                "{value} became {back}"
            );
        }
        assert_eq!(rank(-0.0), rank(0.0), "both zeros are equal");
        assert_eq!(rank(-f64::NAN), i64::MAX, "a negative NaN is a NaN");
    }
}
