//! Names of functions, their fields and units in SQL, for EXPLAIN and reasons.

use std::fmt;

use super::function::{DatePart, Elementary, Function, Rounding, TruncateUnit};

impl fmt::Display for Function {
    /// Displays the name in SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "abs",
            Self::Ceiling => "ceil",
            Self::Floor => "floor",
            Self::Round { .. } => "round",
            Self::TruncateTo { .. } | Self::Truncate => "trunc",
            Self::Multiple { rounding, .. } => match rounding {
                Rounding::Down => "floor",
                Rounding::Up => "ceil",
                Rounding::ToZero => "trunc",
                Rounding::HalfAway => "round",
            },
            Self::GreatestCommonDivisor => "gcd",
            Self::LeastCommonMultiple => "lcm",
            Self::Factorial => "factorial",
            Self::MakeDate => "make_date",
            Self::MakeTime => "make_time",
            Self::SquareRoot => "sqrt",
            Self::Sign => "signum",
            Self::Elementary(function) => return function.fmt(f),
            Self::IsNan => "isnan",
            Self::DatePart(_) => "date_part",
            Self::DateTrunc(_) => "date_trunc",
            Self::DateBin { .. } | Self::DateBinMonths { .. } => "date_bin",
            Self::AddInterval { .. } => "+",
            Self::Like => "LIKE",
            Self::StartsWith => "starts_with",
            Self::EndsWith => "ends_with",
            Self::Contains => "contains",
            Self::OctetLength => "octet_length",
            Self::CharacterLength => "character_length",
            Self::Position => "strpos",
            Self::FirstCharacter => "ascii",
            Self::Trim {
                start: true,
                end: true,
            } => "btrim",
            Self::Trim { start: true, .. } => "ltrim",
            Self::Trim { .. } => "rtrim",
            Self::Substring { .. } | Self::From => "substr",
            Self::Left => "left",
            Self::Right => "right",
            Self::Piece(_) => "split_part",
            Self::Join { .. } => "concat",
            Self::JoinBy => "concat_ws",
            Self::Upper => "upper",
            Self::Lower => "lower",
            Self::Repeat => "repeat",
            Self::Pad { left: true } => "lpad",
            Self::Pad { .. } => "rpad",
            Self::Replace => "replace",
            Self::Reverse => "reverse",
            Self::Hex => "to_hex",
            Self::Matches(_) => "regexp_like",
            Self::CountMatches(_) => "regexp_count",
            Self::SortKey(_) | Self::SortWord { .. } => "sort key",
            Self::Within => "within",
            Self::Bucket => "bucket",
            Self::Drawn { .. } => "TABLESAMPLE",
            Self::KeyHash { .. } => "hash",
            Self::KeyOrder => "order",
        })
    }
}

impl fmt::Display for Elementary {
    /// Displays the name in SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acos => "acos",
            Self::Acosh => "acosh",
            Self::Asin => "asin",
            Self::Asinh => "asinh",
            Self::Atan => "atan",
            Self::Atan2 => "atan2",
            Self::Atanh => "atanh",
            Self::Cbrt => "cbrt",
            Self::Cos => "cos",
            Self::Cosh => "cosh",
            Self::Cot => "cot",
            Self::Exp => "exp",
            Self::Log => "ln",
            Self::Log2 => "log2",
            Self::Log10 => "log10",
            Self::LogBase => "log",
            Self::Pow => "power",
            Self::Sin => "sin",
            Self::Sinh => "sinh",
            Self::Tan => "tan",
            Self::Tanh => "tanh",
        })
    }
}

impl fmt::Display for DatePart {
    /// Displays the name of the field in SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Week => "week",
            Self::IsoYear => "isoyear",
            Self::Day => "day",
            Self::DayOfWeek => "dow",
            Self::IsoDayOfWeek => "isodow",
            Self::DayOfYear => "doy",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Millisecond => "millisecond",
            Self::Microsecond => "microsecond",
            Self::Nanosecond => "nanosecond",
            Self::Epoch => "epoch",
        })
    }
}

impl fmt::Display for TruncateUnit {
    /// Displays the name of the unit in SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Microsecond => "microsecond",
            Self::Millisecond => "millisecond",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        })
    }
}
