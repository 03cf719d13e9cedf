//! Interval arithmetic over mathematical integers.
//!
//! Every integer-like value (integers, dates, timestamps, unscaled decimals) has an interval of possible
//! values. The emitter derives the C++ type from it, omits wrapping that cannot happen, and detects where 128
//! bits could overflow. An operation that may exceed `i128` has no interval: `None`.

use arrow::datatypes::DataType;

use super::kind::Kind;

/// All integers from `low` to `high`, inclusive; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The least.
    pub low: i128,
    /// The greatest.
    pub high: i128,
}

/// Whether the range of `from` is within the range of `to`, for two integer types.
pub fn widens(from: &DataType, to: &DataType) -> bool {
    let domains = domain(from).zip(domain(to));
    from.is_integer() && to.is_integer() && domains.is_some_and(|(from, to)| from.within(to))
}

/// A primitive integer type with its range.
pub trait Bounds {
    const INTERVAL: Interval;
}
macro_rules! bounds {
    ($($t:ty),*) => {$(impl Bounds for $t {
        const INTERVAL: Interval = Interval { low: <$t>::MIN as i128, high: <$t>::MAX as i128 };
    })*};
}
bounds!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl Interval {
    /// The single value `value`.
    pub fn point(value: i128) -> Self {
        Self {
            low: value,
            high: value,
        }
    }

    /// All values of a primitive type.
    pub fn of<T: Bounds>() -> Self {
        T::INTERVAL
    }

    /// The narrowest C++ type that holds all values.
    pub fn kind(self) -> Kind {
        if self.within(Self::of::<i32>()) {
            Kind::I32
        } else if self.within(Self::of::<i64>()) {
            Kind::I64
        } else {
            Kind::I128
        }
    }

    /// The narrowest C++ type of a device table with such values, and its bytes.
    pub fn table_type(self) -> (&'static str, usize) {
        if self.within(Self::of::<u8>()) {
            ("u8", 1)
        } else if self.within(Self::of::<i16>()) {
            ("i16", 2)
        } else if self.within(Self::of::<i32>()) {
            ("i32", 4)
        } else if self.within(Self::of::<i64>()) {
            ("i64", 8)
        } else {
            ("i128", 16)
        }
    }

    /// Whether `other` contains all integers of `self`.
    pub fn within(self, other: Self) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    /// Whether it contains the integer.
    pub fn contains(self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// The smallest interval that contains both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// The intersection; if it is empty, the nearest end of `other`.
    pub fn clamp(self, other: Self) -> Self {
        Self {
            low: self.low.clamp(other.low, other.high),
            high: self.high.clamp(other.low, other.high),
        }
    }

    /// The negated integers; `None` if they exceed 128 bits, as for the operations below.
    pub fn negate(self) -> Option<Self> {
        Some(Self {
            low: self.high.checked_neg()?,
            high: self.low.checked_neg()?,
        })
    }

    /// All sums.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_add(other.low)?,
            high: self.high.checked_add(other.high)?,
        })
    }

    /// All differences.
    pub fn subtract(self, other: Self) -> Option<Self> {
        Some(Self {
            low: self.low.checked_sub(other.high)?,
            high: self.high.checked_sub(other.low)?,
        })
    }

    /// The smallest interval that contains all products.
    pub fn multiply(self, other: Self) -> Option<Self> {
        let products = [
            self.low.checked_mul(other.low)?,
            self.low.checked_mul(other.high)?,
            self.high.checked_mul(other.low)?,
            self.high.checked_mul(other.high)?,
        ];
        Some(Self::of_all(&products))
    }

    /// Quotients truncated towards zero, for all nonzero divisors; zero if the divisor is always zero.
    pub fn divide(self, other: Self) -> Option<Self> {
        let mut divisors = Vec::with_capacity(4);
        if other.low < 0 {
            divisors.extend([other.low, other.high.min(-1)]);
        }
        if other.high > 0 {
            divisors.extend([other.low.max(1), other.high]);
        }
        let mut quotients = vec![0];
        if !divisors.is_empty() {
            quotients.clear();
        }
        for divisor in divisors {
            quotients.extend([self.low.checked_div(divisor)?, self.high.checked_div(divisor)?]);
        }
        let mut result = Self::of_all(&quotients);
        if self.contains(0) {
            result = result.hull(Self::point(0));
        }
        Some(result)
    }

    /// Remainders with the sign of the dividend.
    pub fn remainder(self, other: Self) -> Self {
        // `unsigned_abs - 1` fits: the largest value is 2^127 - 1.
        let largest = other
            .low
            .unsigned_abs()
            .max(other.high.unsigned_abs())
            .saturating_sub(1) as i128;
        Self {
            low: if self.low < 0 { self.low.max(-largest) } else { 0 },
            high: if self.high > 0 { self.high.min(largest) } else { 0 },
        }
    }

    /// Absolute values.
    pub fn absolute(self) -> Option<Self> {
        if self.low >= 0 {
            return Some(self);
        }
        let negated = self.negate()?;
        Some(if self.high <= 0 {
            negated
        } else {
            Self {
                low: 0,
                high: negated.high.max(self.high),
            }
        })
    }

    fn of_all(values: &[i128]) -> Self {
        let low = values.iter().copied().min().unwrap_or(0);
        let high = values.iter().copied().max().unwrap_or(0);
        Self { low, high }
    }
}

/// Whether arithmetic may exceed the precision of a decimal type because it is already the maximum of its
/// kind.
pub fn is_capped(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal32(precision, _) => *precision == 9,
        DataType::Decimal64(precision, _) => *precision == 18,
        DataType::Decimal128(precision, _) => *precision == 38,
        DataType::Decimal256(precision, _) => *precision == 76,
        _ => false,
    }
}

/// Values of an integer type, or of a decimal type within its precision; `None` for other types.
pub fn result_range(data_type: &DataType) -> Option<Interval> {
    let precision = match data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _) => *precision,
        data_type if data_type.is_integer() => return domain(data_type),
        _ => return None,
    };
    let largest = 10i128.checked_pow(precision.into())? - 1;
    Some(Interval {
        low: -largest,
        high: largest,
    })
}

/// Values of the machine integer that Arrow stores for an integer-like type; `None` for other types.
pub fn domain(data_type: &DataType) -> Option<Interval> {
    Some(match data_type {
        DataType::Int8 => Interval::of::<i8>(),
        DataType::Int16 => Interval::of::<i16>(),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(_, _) => {
            Interval::of::<i32>()
        }
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Decimal64(_, _) => Interval::of::<i64>(),
        DataType::UInt8 => Interval::of::<u8>(),
        DataType::UInt16 => Interval::of::<u16>(),
        DataType::UInt32 => Interval::of::<u32>(),
        DataType::UInt64 => Interval::of::<u64>(),
        DataType::Decimal128(_, _) => Interval::of::<i128>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: i128, high: i128) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn interval_operations_contain_all_results() {
        let ends: &[i128] = &[-5, -2, -1, 0, 1, 3, 7];
        let pairs = || ends.iter().flat_map(|a| ends.iter().map(move |b| (*a, *b)));
        for ((a, b), (c, d)) in pairs().flat_map(|left| pairs().map(move |right| (left, right))) {
            if a > b || c > d {
                continue;
            }
            let (left, right) = (interval(a, b), interval(c, d));
            let sum = left.add(right).expect("small");
            let difference = left.subtract(right).expect("small");
            let product = left.multiply(right).expect("small");
            let quotient = left.divide(right).expect("small");
            let remainder = left.remainder(right);
            let absolute = left.absolute().expect("small");
            for x in a..=b {
                assert!(absolute.contains(x.abs()), "|{x}| in {absolute:?}");
                for y in c..=d {
                    assert!(
                        sum.contains(x + y) && difference.contains(x - y) && product.contains(x * y),
                        "{x} {y}"
                    );
                    if y != 0 {
                        assert!(quotient.contains(x / y), "{x} / {y} in {quotient:?}");
                        assert!(remainder.contains(x % y), "{x} % {y} in {remainder:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn overflow_of_128_bits_has_no_interval() {
        let all = Interval::of::<i128>();
        assert_eq!(all.add(Interval::point(1)), None);
        assert_eq!(all.negate(), None);
        assert_eq!(interval(0, 1 << 100).multiply(interval(0, 1 << 30)), None);
        assert_eq!(all.divide(interval(-1, 1)), None);
        assert!(all.remainder(all).within(all));
    }

    #[test]
    fn kind_is_narrowest_type_that_fits() {
        assert!(matches!(
            interval(i128::from(i32::MIN), i128::from(i32::MAX)).kind(),
            Kind::I32
        ));
        assert!(matches!(interval(0, i128::from(i32::MAX) + 1).kind(), Kind::I64));
        assert!(matches!(interval(0, i128::from(u64::MAX)).kind(), Kind::I128));
    }
}
