//! Functions that have device code.

use std::fmt;

use super::automaton::Automaton;

/// A function of the device; its variants are chosen while lowering, so that constants which decide the code
/// are in it and all other constants are arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Function {
    /// Absolute value of a number; of the least integer, an error.
    Absolute,
    /// Least integer that is not less, of a float.
    Ceiling,
    /// Greatest integer that is not greater, of a float.
    Floor,
    /// A float rounded to decimal places, halves away from zero: `round(x * 10^places) / 10^places` in its
    /// own type.
    Round {
        /// Digits after the point; negative: zeros before it.
        places: i32,
    },
    /// A float without the digits behind those decimal places: `trunc(x * 10^places) / 10^places` in its own
    /// type.
    TruncateTo {
        /// Digits after the point; negative: zeros before it.
        places: i32,
    },
    /// An integer or decimal by `divisor`, a power of ten, rounded, and times `factor`; an error where the
    /// type, or so many digits, cannot hold it.
    Multiple {
        /// Which integer a quotient becomes.
        rounding: Rounding,
        /// What one digit of the result is.
        divisor: i128,
        /// What it is in the unit of the result.
        factor: i128,
        /// Digits that are counted.
        digits: Option<u8>,
    },
    /// Of two integers of 64 bits; an error where 64 bits cannot hold it.
    GreatestCommonDivisor,
    /// Of two integers of 64 bits; an error where 64 bits cannot hold it.
    LeastCommonMultiple,
    /// Of an integer; an error where it is negative, or 64 bits cannot hold the result.
    Factorial,
    /// The date of year, month and day; an error where there is none.
    MakeDate,
    /// The time of hour, minute and second; an error where there is none.
    MakeTime,
    /// Square root of a float (correctly rounded); of a negative number, an error.
    SquareRoot,
    /// -1, 0 or 1 as a float, or a positive NaN.
    Sign,
    /// A float without its fraction; of both zeros the positive one.
    Truncate,
    /// Of a double, or two: as the device's library computes it, which on a GPU may be another double than
    /// the host's, 2 units of the last place away at most, and the same on the emulated device.
    Elementary(Elementary),
    /// Whether a float is NaN.
    IsNan,
    /// A field of a date or timestamp.
    DatePart(DatePart),
    /// A date or timestamp cut to a unit.
    DateTrunc(TruncateUnit),
    /// A timestamp cut to a multiple of a stride after an origin, both in its own unit; where nanoseconds
    /// would leave 64 bits, NULL.
    DateBin {
        /// Positive.
        stride: i64,
        /// Any of the cuts.
        origin: i64,
    },
    /// The same with a stride of months: the day of a cut is the origin's, cut to the length of the month.
    DateBinMonths {
        /// Positive.
        months: i32,
        /// Any of the cuts, in the timestamp's unit.
        origin: i64,
    },
    /// A date or timestamp plus months, then days, then nanoseconds.
    AddInterval {
        /// Months, applied first; the day is cut to the length of the month.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
    /// `LIKE` with a general pattern: (text, pattern).
    Like,
    /// (text, prefix).
    StartsWith,
    /// (text, suffix).
    EndsWith,
    /// (text, part).
    Contains,
    /// Number of bytes.
    OctetLength,
    /// Number of UTF-8 characters.
    CharacterLength,
    /// (text, part): the number of the character where the part begins, from 1; 0 where it is not in the
    /// text.
    Position,
    /// The code point of the first character; 0 of no character.
    FirstCharacter,
    /// A text without the spaces at its ends: a part of the same bytes.
    Trim {
        /// At the start.
        start: bool,
        /// At the end.
        end: bool,
    },
    /// `substr(text, start[, length])` in characters, both constant: a part of the same bytes.
    Substring {
        /// Position of the first character, from 1; less is before the text.
        start: i64,
        /// Number of characters from `start`.
        length: Option<i64>,
    },
    /// The first so many characters of a text, or all but the last ones.
    Left,
    /// The last so many characters of a text, or all but the first ones.
    Right,
    /// A text from a character on, counted from 1.
    From,
    /// The piece of a text between two delimiters, counted from 1, or from the last one where negative.
    Piece(i64),
    /// Texts one behind the other.
    Join {
        /// Whether those that are NULL are left out; else the whole is NULL.
        skips_nulls: bool,
    },
    /// Texts that are not NULL one behind the other, the first argument between them.
    JoinBy,
    /// A text with its letters in upper case.
    Upper,
    /// A text with its letters in lower case.
    Lower,
    /// (text, number): the text so many times.
    Repeat,
    /// (text, number, filling): the text with as many characters as the number says, filled up where it has
    /// fewer.
    Pad {
        /// In front; else behind.
        left: bool,
    },
    /// (text, part, other): the text with another one for each part.
    Replace,
    /// A text with its characters from the last to the first.
    Reverse,
    /// The digits of an integer by base 16; of a negative one those of its two's complement.
    Hex,
    /// Whether a regular expression matches a part of a text.
    Matches(Automaton),
    /// How often it does, without overlaps; no match is empty.
    CountMatches(Automaton),
    /// The place of a row in an order by its arguments, as an integer from 0 on: of two rows with different
    /// numbers the one with the lesser comes first. Has 63 bits; rows that differ in what does not fit them
    /// have the same number.
    SortKey(Vec<SortOrder>),
    /// A word of 64 bits of the whole place of a row in an order by its arguments: of two rows the one with
    /// the lesser words, compared as unsigned integers from the most significant word on, comes first.
    /// Words that the values turn out not to need are zero.
    SortWord {
        /// How each argument is ordered.
        orders: Vec<SortOrder>,
        /// Which word, counted from the least significant.
        word: u32,
        /// How many words there are.
        words: u32,
    },
    /// Of a sort key: whether it is between the least and the greatest of the constants.
    Within,
    /// Of a sort key and constants (least, shift): which of 4096 equal parts it is in, counted from
    /// the least.
    Bucket,
    /// Of the number of a row and constants (state, bound): whether TABLESAMPLE draws it.
    Drawn {
        /// Rows that are drawn together, as a power of two.
        shift: u32,
    },
    /// A hash of the values of a key, an integer of 32 bits without a sign: values that are equal have equal
    /// ones whatever their encodings.
    KeyHash {
        /// Whether a key with NULL is equal to none, and has the hash of its row's number; else all NULLs
        /// have one hash.
        spreads: bool,
    },
}

/// Which integer a quotient becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The greatest that is not greater.
    Down,
    /// The least that is not less.
    Up,
    /// The next one towards zero.
    ToZero,
    /// The nearest; halves away from zero.
    HalfAway,
}

/// Parts that [`Function::Bucket`] tells apart; keys beyond the last are in the last.
pub const BUCKETS: u32 = 4096;

/// How values are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortOrder {
    /// Greatest first.
    pub descending: bool,
    /// NULL before all values; else behind.
    pub nulls_first: bool,
}

impl SortOrder {
    /// The least first, NULL behind all values.
    pub const ASCENDING: Self = Self {
        descending: false,
        nulls_first: false,
    };
}

impl fmt::Display for SortOrder {
    /// What SQL writes behind a key.
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
    /// The nearest double.
    Cbrt,
    Cos,
    Cosh,
    /// One by the tangent.
    Cot,
    Exp,
    Log,
    Log2,
    Log10,
    /// To a base, the second argument.
    LogBase,
    /// Of zero to a negative power, an error.
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
    /// Of the minute, seconds included.
    Millisecond,
    /// Of the minute, seconds included.
    Microsecond,
    /// Of the minute, seconds included.
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
    /// From Monday.
    Week,
    Month,
    Quarter,
    Year,
}

impl Function {
    /// Rough number of instructions.
    pub fn cost(&self) -> u32 {
        match self {
            Self::Absolute | Self::OctetLength | Self::IsNan => 1,
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

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DatePart(part) => write!(f, "date_part {part:?}"),
            Self::DateTrunc(unit) => write!(f, "date_trunc {unit:?}"),
            Self::KeyHash { .. } => f.write_str("hash"),
            Self::Join { .. } => f.write_str("concat"),
            Self::JoinBy => f.write_str("concat_ws"),
            Self::Upper => f.write_str("upper"),
            Self::Lower => f.write_str("lower"),
            Self::Repeat => f.write_str("repeat"),
            Self::Pad { left } => f.write_str(if *left { "lpad" } else { "rpad" }),
            Self::Replace => f.write_str("replace"),
            Self::Reverse => f.write_str("reverse"),
            Self::Hex => f.write_str("to_hex"),
            other => write!(f, "{other:?}"),
        }
    }
}
