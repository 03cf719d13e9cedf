//! The type of a CSV column, from its first values.
//!
//! Like Arrow's own inference, with two exceptions that produce a string column: a number with a leading zero
//! (`01234`, a postcode), because parsing it as a number would lose the zero, and a date or a time that does
//! not exist (`2021-02-30`), because it could not be parsed.

use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{DataType, Date32Type, TimeUnit};

/// The narrowest kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Float,
    Date,
    Seconds,
    Millis,
    Micros,
    Nanos,
    Text,
}

/// The kinds of the values of a column, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds(u16);

const fn bit(kind: Kind) -> u16 {
    1 << kind as u16
}

const TIMES: u16 = bit(Kind::Seconds) | bit(Kind::Millis) | bit(Kind::Micros) | bit(Kind::Nanos);

impl Kinds {
    /// The kind of one value.
    pub(super) fn of(value: &str) -> Self {
        Self(bit(kind(value)))
    }

    /// The kinds of the values of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether values exist, and none of them is only a string.
    pub(super) fn is_typed(self) -> bool {
        !matches!(self.data_type(), DataType::Null | DataType::Utf8)
    }

    /// The common type of all values; `Null` without values.
    pub(super) fn data_type(self) -> DataType {
        let only = |kinds: u16| self.0 & !kinds == 0;
        let has = |kind: Kind| self.0 & bit(kind) != 0;
        if self.0 == 0 {
            DataType::Null
        } else if only(bit(Kind::Boolean)) {
            DataType::Boolean
        } else if only(bit(Kind::Integer)) {
            DataType::Int64
        } else if only(bit(Kind::Integer) | bit(Kind::Float)) {
            DataType::Float64
        } else if only(bit(Kind::Date)) {
            DataType::Date32
        } else if only(bit(Kind::Date) | TIMES) {
            let unit = if has(Kind::Nanos) {
                TimeUnit::Nanosecond
            } else if has(Kind::Micros) {
                TimeUnit::Microsecond
            } else if has(Kind::Millis) {
                TimeUnit::Millisecond
            } else {
                TimeUnit::Second
            };
            DataType::Timestamp(unit, None)
        } else {
            DataType::Utf8
        }
    }
}

fn kind(value: &str) -> Kind {
    let bytes = value.as_bytes();
    let unsigned = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let Some(first) = unsigned.first() else {
        return Kind::Text;
    };
    if first.is_ascii_digit() || *first == b'.' {
        return if unsigned.iter().all(u8::is_ascii_digit) {
            integer(value, unsigned)
        } else if is_float(unsigned) {
            Kind::Float
        } else if unsigned.len() == bytes.len() {
            date_or_time(value)
        } else {
            Kind::Text
        };
    }
    match value {
        "NaN" | "nan" | "inf" | "-inf" => Kind::Float,
        _ if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => Kind::Boolean,
        _ => Kind::Text,
    }
}

fn integer(value: &str, digits: &[u8]) -> Kind {
    let has_zero_before = digits.len() > 1 && digits[0] == b'0';
    if has_zero_before || value.parse::<i64>().is_err() {
        return Kind::Text;
    }
    Kind::Integer
}

/// Digits with a decimal point, with an exponent, or both.
fn is_float(unsigned: &[u8]) -> bool {
    let mut parts = unsigned.splitn(2, |byte| matches!(byte, b'e' | b'E'));
    let mantissa = parts.next().unwrap_or_default();
    let exponent = parts.next();
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let mut halves = mantissa.splitn(2, |byte| *byte == b'.');
    let whole = halves.next().unwrap_or_default();
    let fraction = halves.next();
    let mantissa_fits = digits(whole)
        && fraction.is_none_or(digits)
        && whole.len() + fraction.map_or(0, <[u8]>::len) > 0
        && (fraction.is_some() || exponent.is_some());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent
            .strip_prefix(b"-")
            .or_else(|| exponent.strip_prefix(b"+"));
        let power = unsigned.unwrap_or(exponent);
        !power.is_empty() && digits(power)
    });
    mantissa_fits && exponent_fits
}

fn date_or_time(value: &str) -> Kind {
    let is_date = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
    };
    let bytes = value.as_bytes();
    if bytes.len() < 10 || !is_date(&bytes[..10]) {
        return Kind::Text;
    }
    if bytes.len() == 10 {
        return Date32Type::parse(value).map_or(Kind::Text, |_| Kind::Date);
    }
    let is_time = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            0 => matches!(byte, b'T' | b' '),
            3 | 6 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    };
    if bytes.len() < 19 || !is_time(&bytes[10..19]) {
        return Kind::Text;
    }
    let fraction = match bytes.get(19) {
        Some(b'.') => bytes[20..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count(),
        Some(byte) if byte.is_ascii_digit() => return Kind::Text,
        _ => 0,
    };
    let unit = match (bytes.get(19), fraction) {
        (Some(b'.'), 0) | (_, 10..) => return Kind::Text,
        (_, 0) => Kind::Seconds,
        (_, 1..=3) => Kind::Millis,
        (_, 4..=6) => Kind::Micros,
        (_, 7..=9) => Kind::Nanos,
    };
    string_to_datetime(&chrono::Utc, value).map_or(Kind::Text, |_| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[&str]) -> DataType {
        let kinds = values.iter().map(|value| Kinds::of(value));
        kinds.fold(Kinds::default(), Kinds::and).data_type()
    }

    #[test]
    fn inferred_type_fits_all_values() {
        assert_eq!(column(&[]), DataType::Null);
        assert_eq!(column(&["true", "FALSE"]), DataType::Boolean);
        assert_eq!(column(&["0", "-17", "9223372036854775807"]), DataType::Int64);
        assert_eq!(
            column(&["1", "2.5", ".5", "1.", "-1e3", "1.5E-7", "nan"]),
            DataType::Float64
        );
        assert_eq!(column(&["2021-02-28"]), DataType::Date32);
        let time = |unit| DataType::Timestamp(unit, None);
        assert_eq!(
            column(&["2021-02-28", "2021-02-28T01:02:03"]),
            time(TimeUnit::Second)
        );
        assert_eq!(
            column(&["2021-02-28 01:02:03.5", "2021-02-28 01:02:03.123456"]),
            time(TimeUnit::Microsecond)
        );
        assert_eq!(
            column(&["2021-02-28 01:02:03.123456789Z"]),
            time(TimeUnit::Nanosecond)
        );
    }

    #[test]
    fn lossy_values_are_inferred_as_strings() {
        for value in [
            "01234",
            "-01",
            "00",
            "9223372036854775808",
            "2021-02-30",
            "2021-13-01",
            "2021-02-28 25:00:00",
            "1-2",
            "-",
            ".",
            "1e",
            "e5",
            "1.2.3",
            "",
            "x",
            "-2021-02-28",
            "2021-02-28 01:02:03.",
        ] {
            assert_eq!(column(&[value]), DataType::Utf8, "{value:?}");
        }
        assert_eq!(column(&["1", "true"]), DataType::Utf8);
        assert_eq!(column(&["1", "2021-02-28"]), DataType::Utf8);
        assert_eq!(column(&["0"]), DataType::Int64);
        assert_eq!(column(&["0.5"]), DataType::Float64);
    }
}
