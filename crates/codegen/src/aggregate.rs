//! Aggregate calls and the accumulator words they need.

use super::moments::Moment;
use arrow::datatypes::{DataType, FieldRef};
use galatea_base::reason::Reason;
use galatea_expression::Expr;
use galatea_kernels::MergeWord;

/// The aggregate functions a pipeline computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// `COUNT(x)`, and `COUNT(*)` without an argument.
    Count,
    /// `SUM(x)`: exact for integers and decimals, with an error if the result exceeds its type; computed in
    /// doubles for floats.
    Sum,
    /// `SUM(x)` that wraps for integers and does not check the precision of decimals.
    SumWrapping,
    /// `AVG(x)` of decimals (exact) and doubles.
    Avg,
    /// `MIN(x)`, and `BOOL_AND(x)`.
    Min,
    /// `MAX(x)`, and `BOOL_OR(x)`.
    Max,
    /// `BIT_AND(x)`.
    BitAnd,
    /// `BIT_OR(x)`.
    BitOr,
    /// `BIT_XOR(x)`.
    BitXor,
    /// A function of moments. Two arguments are encoded as a tuple, like a compound key.
    Moment(Moment),
}

impl AggregateFunction {
    /// The aggregate function of this DataFusion name, if pipelines support it.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "min" | "bool_and" => Self::Min,
            "max" | "bool_or" => Self::Max,
            "bit_and" => Self::BitAnd,
            "bit_or" => Self::BitOr,
            "bit_xor" => Self::BitXor,
            name => {
                let mut moments = Moment::ALL.iter();
                Self::Moment(moments.find(|(known, _)| *known == name)?.1)
            }
        })
    }

    /// The function's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum | Self::SumWrapping => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::Moment(moment) => {
                let mut moments = Moment::ALL.iter();
                moments
                    .find(|(_, known)| *known == moment)
                    .map_or("", |(name, _)| name)
            }
        }
    }

    /// Whether results are computed only on the host, so that other pipelines cannot read them on the device.
    pub fn finishes_on_host(self) -> bool {
        matches!(self, Self::Moment(_))
    }

    /// Whether duplicate values do not change the result, so that DISTINCT can be dropped.
    pub fn ignores_repeats(self) -> bool {
        self.orders_values() || matches!(self, Self::BitAnd | Self::BitOr)
    }

    /// Whether the function compares values (strings then need order-preserving codes).
    pub fn orders_values(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }
}

/// One aggregate of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// The aggregate function.
    pub function: AggregateFunction,
    /// The argument; `None` for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE ...)`.
    pub filter: Option<Expr>,
    /// Name and type of the result, as planned by DataFusion.
    pub field: FieldRef,
}

impl AggregateCall {
    /// Checks that a pipeline computes this call exactly as DataFusion does.
    pub fn supports(&self) -> Result<(), Reason> {
        let Some(argument) = &self.argument else {
            return Ok(());
        };
        let data_type = argument.data_type();
        let fits = match self.function {
            AggregateFunction::Count | AggregateFunction::Moment(Moment::RegrCount) => true,
            AggregateFunction::Sum | AggregateFunction::SumWrapping => matches!(
                (data_type, self.field.data_type()),
                (DataType::Int64, DataType::Int64)
                    | (DataType::UInt64, DataType::UInt64)
                    | (DataType::Float64, DataType::Float64)
                    | (DataType::Decimal128(..), DataType::Decimal128(..))
            ),
            AggregateFunction::Avg => matches!(
                (data_type, self.field.data_type()),
                (DataType::Float64, DataType::Float64) | (DataType::Decimal128(..), DataType::Decimal128(..))
            ),
            AggregateFunction::Min | AggregateFunction::Max => {
                data_type == self.field.data_type() && (is_string(data_type) || is_ordered(data_type))
            }
            AggregateFunction::Moment(_) => argument.parts().iter().all(|part| is_exact(part.data_type())),
            AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor => {
                data_type == self.field.data_type() && data_type.is_integer()
            }
        };
        if fits {
            Ok(())
        } else {
            Err(Reason::Function {
                name: self.function.name().to_owned(),
                detail: format!(
                    "{data_type} to {} is not an aggregate of a pipeline",
                    self.field.data_type()
                ),
            })
        }
    }
}

/// Whether sums of products of values of this type are exact.
pub fn is_exact(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128};
    data_type.is_integer() || matches!(data_type, Decimal32(..) | Decimal64(..) | Decimal128(..))
}

/// Whether values of this type are strings or binary.
pub fn is_string(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether MIN and MAX map values of this type to ranks.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Date64, Decimal128, Duration, Float32, Float64, Time32, Time64, Timestamp,
    };
    data_type.is_integer()
        || matches!(
            data_type,
            Boolean
                | Date32
                | Date64
                | Decimal128(..)
                | Duration(_)
                | Float32
                | Float64
                | Time32(_)
                | Time64(_)
                | Timestamp(..)
        )
}

/// How one or two words accumulate values; the device twin is `aggregate.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// Number of rows.
    Count,
    /// Wrapping 64-bit sum.
    Sum64,
    /// Wrapping 128-bit sum in two words.
    Sum128,
    /// A sum that fits 64 bits within a block of a launch, but not over all rows: one word in registers and
    /// shared memory, two in global memory.
    SumWidening,
    /// Sum of doubles.
    SumF64,
    /// Maximum of order-preserving 64-bit ranks; zero is the identity.
    Max64,
    /// Bitwise OR of all values.
    Or64,
    /// Bitwise XOR of all values.
    Xor64,
}

impl Accumulator {
    /// Number of words in global memory.
    pub fn words(self) -> usize {
        if matches!(self, Self::Sum128 | Self::SumWidening) {
            2
        } else {
            1
        }
    }

    /// Number of words in a block's partial result.
    pub fn partial_words(self) -> usize {
        if self == Self::Sum128 { 2 } else { 1 }
    }

    /// The function of `PrivateWords` that updates a partial result.
    pub fn update_partial(self) -> &'static str {
        match self {
            Self::Count | Self::Sum64 | Self::SumWidening => "sum64",
            Self::Sum128 => "sum128",
            Self::SumF64 => "sum_f64",
            Self::Max64 => "max64",
            Self::Or64 => "or64",
            Self::Xor64 => "xor64",
        }
    }

    /// The function of `GlobalWords` that updates the words in global memory.
    pub fn update_global(self) -> &'static str {
        if self == Self::SumWidening {
            "sum128"
        } else {
            self.update_partial()
        }
    }

    /// The merge operation of its first word in global memory.
    pub fn merge_word(self) -> MergeWord {
        match self {
            Self::Count | Self::Sum64 => MergeWord::Sum64,
            Self::Sum128 | Self::SumWidening => MergeWord::Sum128,
            Self::SumF64 => MergeWord::SumF64,
            Self::Max64 => MergeWord::Max64,
            Self::Or64 => MergeWord::Or64,
            Self::Xor64 => MergeWord::Xor64,
        }
    }

    /// The corresponding enumerator of `galatea::Merge`.
    pub fn merge(self) -> &'static str {
        match self {
            Self::Count | Self::Sum64 => "Merge::Sum64",
            Self::Sum128 => "Merge::Sum128",
            Self::SumWidening => "Merge::SumWidening",
            Self::SumF64 => "Merge::SumF64",
            Self::Max64 => "Merge::Max64",
            Self::Or64 => "Merge::Or64",
            Self::Xor64 => "Merge::Xor64",
        }
    }
}

/// Maximum number of rows that a block of a launch collects before it merges. The interval of a widening sum
/// is multiplied by it. Counts of a block fit 32 bits.
pub const BLOCK_ROWS: u64 = 1 << 24;

/// The width of a sum of integers, such that it cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumWidth {
    /// 64 bits over all rows.
    Narrow,
    /// 64 bits within a block of a launch.
    Widening,
    /// 128 bits.
    Wide,
}

/// The width that a sum of `rows` values needs, given the largest absolute value; `None` if it exceeds 128
/// bits.
pub(super) fn sum_width(largest: u128, rows: u64) -> Option<SumWidth> {
    let bound = |rows: u64| largest.checked_mul(u128::from(rows.max(1)));
    if bound(rows)? > i128::MAX as u128 {
        return None;
    }
    let narrow = |rows: u64| bound(rows).is_some_and(|bound| bound <= i64::MAX as u128);
    Some(match (narrow(rows), narrow(BLOCK_ROWS)) {
        (true, _) => SumWidth::Narrow,
        (_, true) => SumWidth::Widening,
        _ => SumWidth::Wide,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_width_fits_all_rows() {
        assert_eq!(sum_width(1, u64::MAX / 2), Some(SumWidth::Narrow));
        assert_eq!(sum_width(1 << 38, 1 << 30), Some(SumWidth::Widening));
        assert_eq!(sum_width(1 << 62, 1 << 30), Some(SumWidth::Wide));
        assert_eq!(sum_width(1 << 100, 1 << 30), None);
    }
}
