//! Functions with device code.

use std::fmt;

use super::automaton::Automaton;

/// A device function. The variant is chosen during lowering: it contains the constants that affect the code,
/// and all other constants are arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Function {
    /// Absolute value of a number; an error for the least integer.
    Absolute,
    /// The least integer that is not less than a float.
    Ceiling,
    /// The greatest integer that is not greater than a float.
    Floor,
    /// A float rounded to decimal places, half away from zero: `round(x * 10^places) / 10^places` in its own
    /// type.
    Round {
        /// Digits after the point; negative: zeros before it.
        places: i32,
    },
    /// A float truncated to decimal places: `trunc(x * 10^places) / 10^places` in its own type.
    TruncateTo {
        /// Digits after the point; negative: zeros before it.
        places: i32,
    },
    /// An integer or decimal divided by `divisor`, a power of ten, rounded, and multiplied by `factor`; an
    /// error if the result exceeds the type or has more than `digits` digits.
    Multiple {
        /// Rounding of the quotient.
        rounding: Rounding,
        /// The rounding unit, in the unit of the argument.
        divisor: i128,
        /// The rounding unit, in the unit of the result.
        factor: i128,
        /// Maximum number of digits of the result, if it is checked.
        digits: Option<u8>,
    },
    /// Of two 64-bit integers; an error if the result exceeds 64 bits.
    GreatestCommonDivisor,
    /// Of two 64-bit integers; an error if the result exceeds 64 bits.
    LeastCommonMultiple,
    /// Of an integer; an error if it is negative or the result exceeds 64 bits.
    Factorial,
    /// The date of a year, month and day; an error if it is invalid.
    MakeDate,
    /// The time of an hour, minute and second; an error if it is invalid.
    MakeTime,
    /// Square root of a float (correctly rounded); an error for negative numbers.
    SquareRoot,
    /// -1, 0 or 1 as a float, or a positive NaN.
    Sign,
    /// A float without its fraction; positive zero for both zeros.
    Truncate,
    /// A function of one or two doubles, computed by the device's library. On a GPU the result may differ
    /// from the host's by at most 2 units of the last place; on the emulated device it is the same.
    Elementary(Elementary),
    /// Whether a float is NaN.
    IsNan,
    /// A field of a date or timestamp.
    DatePart(DatePart),
    /// A date or timestamp truncated to a unit.
    DateTrunc(TruncateUnit),
    /// A timestamp rounded down to a multiple of a stride after an origin, both in its own unit; NULL if
    /// nanoseconds would exceed 64 bits.
    DateBin {
        /// The stride; positive.
        stride: i64,
        /// The start of any bin.
        origin: i64,
    },
    /// The same with a stride of months: a bin starts on the origin's day, limited to the length of the
    /// month.
    DateBinMonths {
        /// The stride; positive.
        months: i32,
        /// The start of any bin, in the timestamp's unit.
        origin: i64,
    },
    /// A date or timestamp plus months, then days, then nanoseconds.
    AddInterval {
        /// Months, applied first; the day is limited to the length of the month.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
    /// `LIKE` with a general pattern: (string, pattern).
    Like,
    /// (string, prefix).
    StartsWith,
    /// (string, suffix).
    EndsWith,
    /// (string, substring).
    Contains,
    /// Number of bytes.
    OctetLength,
    /// Number of UTF-8 characters.
    CharacterLength,
    /// (string, substring): the number of the character at which the substring begins, counted from 1; 0 if
    /// it is not in the string.
    Position,
    /// The code point of the first character; 0 for the empty string.
    FirstCharacter,
    /// A string without the spaces at its ends: a slice of the same bytes.
    Trim {
        /// At the start.
        start: bool,
        /// At the end.
        end: bool,
    },
    /// `substr(string, start[, length])` in characters, both constant: a slice of the same bytes.
    Substring {
        /// Position of the first character, counted from 1; lesser positions are before the string.
        start: i64,
        /// Number of characters from `start`.
        length: Option<i64>,
    },
    /// (string, number): the first n characters, or all but the last n if negative.
    Left,
    /// (string, number): the last n characters, or all but the first n if negative.
    Right,
    /// (string, number): the rest of a string from a character on, counted from 1.
    From,
    /// The field of a string between two delimiters, counted from 1, or from the last one if negative.
    Piece(i64),
    /// Concatenation of strings.
    Join {
        /// Whether NULLs are skipped; otherwise the result is NULL if any argument is.
        skips_nulls: bool,
    },
    /// Concatenation of the strings that are not NULL, with the first argument as the separator.
    JoinBy,
    /// A string with its letters in upper case.
    Upper,
    /// A string with its letters in lower case.
    Lower,
    /// (string, number): the string repeated `number` times.
    Repeat,
    /// (string, number, fill): the string padded to `number` characters.
    Pad {
        /// Whether to pad on the left; otherwise on the right.
        left: bool,
    },
    /// (string, from, to): the string with each occurrence of `from` replaced by `to`.
    Replace,
    /// A string with its characters in reverse order.
    Reverse,
    /// The hexadecimal digits of an integer; in two's complement if negative.
    Hex,
    /// Whether a regular expression matches a part of a string.
    Matches(Automaton),
    /// The number of non-overlapping matches. The expression never matches the empty string.
    CountMatches(Automaton),
    /// The position of a row in an order by its arguments, as a 63-bit integer: of two rows with different
    /// keys, the one with the lesser key sorts first. Rows that differ only in bits that do not fit have the
    /// same key.
    SortKey(Vec<SortOrder>),
    /// A 64-bit word of the complete sort key of a row by its arguments. Rows are sorted by their words,
    /// compared as unsigned integers from the most significant word on. Words that the values do not need are
    /// zero.
    SortWord {
        /// The sort order of each argument.
        orders: Vec<SortOrder>,
        /// Number of the word, counted from the least significant.
        word: u32,
        /// Number of words.
        words: u32,
    },
    /// (sort key, least, greatest): whether the key is within the two constants.
    Within,
    /// (sort key, least, shift): the number of the key's bucket, among 4096 equal ranges from the least key
    /// on.
    Bucket,
    /// (row number, state, bound): whether TABLESAMPLE selects the row.
    Drawn {
        /// Binary logarithm of the number of rows that are selected together.
        shift: u32,
    },
    /// A 32-bit unsigned hash of the values of a key: equal values have equal hashes whatever their
    /// encodings.
    KeyHash {
        /// Whether a key with NULL matches no other key and is hashed by the number of the row in its table;
        /// otherwise all NULLs have one hash.
        spreads: bool,
    },
    /// An integer key as an unsigned 64-bit word in the order of the values. NULL has the least word.
    KeyOrder,
}

/// Rounding of a quotient to an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Towards negative infinity.
    Down,
    /// Towards positive infinity.
    Up,
    /// Towards zero.
    ToZero,
    /// To the nearest integer, half away from zero.
    HalfAway,
}

/// Number of buckets of [`Function::Bucket`]; greater keys are in the last one.
pub const BUCKETS: u32 = 4096;

/// Sort order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortOrder {
    /// Greatest first.
    pub descending: bool,
    /// Whether NULLs sort before all values; otherwise after them.
    pub nulls_first: bool,
}

impl SortOrder {
    /// Ascending, NULLs last.
    pub const ASCENDING: Self = Self {
        descending: false,
        nulls_first: false,
    };
}

impl fmt::Display for SortOrder {
    /// Displays the SQL keywords after a sort key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.descending { " DESC" } else { "" };
        let nulls = match (self.nulls_first, self.descending) {
            (true, false) => " NULLS FIRST",
            (false, true) => " NULLS LAST",
            _ => "",
        };
        write!(f, "{direction}{nulls}")
    }
}

/// Functions of doubles that no processor rounds correctly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the C library")]
pub enum Elementary {
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    /// Correctly rounded.
    Cbrt,
    Cos,
    Cosh,
    /// One divided by the tangent.
    Cot,
    Exp,
    Log,
    Log2,
    Log10,
    /// To a base, which is the second argument.
    LogBase,
    /// An error for zero to a negative power.
    Pow,
    Sin,
    Sinh,
    Tan,
    Tanh,
}

/// Fields of dates and timestamps, as DataFusion's `date_part` numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the fields of SQL")]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    Week,
    IsoYear,
    Day,
    /// Sunday = 0.
    DayOfWeek,
    /// Monday = 1.
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
    /// Of the minute, including seconds.
    Millisecond,
    /// Of the minute, including seconds.
    Microsecond,
    /// Of the minute, including seconds.
    Nanosecond,
    /// Seconds since 1970 as a float.
    Epoch,
}

/// Units of `date_trunc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the units of SQL")]
pub enum TruncateUnit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    /// Starts on Monday.
    Week,
    Month,
    Quarter,
    Year,
}

impl Function {
    /// Approximate number of instructions.
    pub fn cost(&self) -> u32 {
        match self {
            Self::Absolute | Self::OctetLength | Self::IsNan | Self::KeyOrder => 1,
            Self::Ceiling | Self::Floor | Self::Sign | Self::Within | Self::Bucket => 2,
            Self::KeyHash { .. } | Self::Drawn { .. } => 8,
            Self::MakeTime => 6,
            Self::SquareRoot | Self::Truncate | Self::FirstCharacter | Self::Trim { .. } => 10,
            Self::Elementary(_) | Self::DateBinMonths { .. } => 40,
            Self::DatePart(_)
            | Self::DateTrunc(_)
            | Self::AddInterval { .. }
            | Self::Round { .. }
            | Self::TruncateTo { .. }
            | Self::Multiple { .. }
            | Self::MakeDate
            | Self::Factorial => 20,
            Self::Substring { .. } | Self::StartsWith | Self::EndsWith | Self::DateBin { .. } => 30,
            Self::SortKey(orders) | Self::SortWord { orders, .. } => 4 * orders.len() as u32,
            Self::Left | Self::Right | Self::From => 60,
            Self::CharacterLength | Self::Like | Self::Contains | Self::Position | Self::Piece(_) => 200,
            Self::Join { .. } | Self::JoinBy | Self::Repeat | Self::Reverse | Self::Hex => 100,
            Self::Upper | Self::Lower | Self::Pad { .. } | Self::Replace => 300,
            Self::Matches(_)
            | Self::CountMatches(_)
            | Self::GreatestCommonDivisor
            | Self::LeastCommonMultiple => 400,
        }
    }
}
