//! How result columns are computed from the words of a group.

use crate::moments::{Moment, MomentSum};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_expression::{Interval, StringForm};

/// A result column computed from the words of a group.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The computation and the words that it reads.
    pub form: FinishForm,
    /// Word that counts the values of the result; the result is NULL if the count is zero. `None`: never
    /// NULL.
    pub valid: Option<usize>,
    /// Type of the result column.
    pub data_type: DataType,
    /// The limit that the result is checked against, if it may exceed its type.
    pub limit: Option<Limit>,
}

/// The range of a type that a sum is checked against.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The values.
    pub range: Interval,
    /// The aggregate call, for the error message.
    pub call: String,
}

/// The computation of a [`Finish`].
#[derive(Debug, Clone)]
pub enum FinishForm {
    /// The word, unsigned.
    Count(usize),
    /// A 64-bit sum, sign-extended if the result is wider.
    Sum64(usize),
    /// A 64-bit sum plus a constant for each of its values.
    SumPlus {
        /// Word of the sum.
        sum: usize,
        /// Word of the count.
        count: usize,
        /// The constant.
        each: i64,
    },
    /// The result of a bitwise aggregate; complemented for AND.
    Bits {
        /// Word of the bits.
        word: usize,
        /// Whether this is AND.
        complement: bool,
    },
    /// A 128-bit sum.
    Sum128(usize),
    /// A sum that may overflow 128 bits: the 128-bit sums of the upper and the lower 64 bits of its values.
    SumHalves {
        /// First word of the sum of the upper halves.
        high: usize,
        /// First word of the sum of the lower halves.
        low: usize,
    },
    /// A sum of doubles.
    SumF64(usize),
    /// Decimal average: the sum at the argument's scale and its accumulator, divided by the count word.
    AverageDecimal {
        /// First word of the sum.
        sum: usize,
        /// Whether the sum takes two words.
        wide: bool,
        /// Word of the count.
        count: usize,
        /// Scale of the argument.
        scale: i8,
    },
    /// Double average.
    AverageF64 {
        /// Word of the sum.
        sum: usize,
        /// Word of the count.
        count: usize,
    },
    /// A function of moments.
    Moment {
        /// The function.
        moment: Moment,
        /// Word that counts the rows without a NULL argument.
        count: usize,
        /// The sums: the first word of each, and whether it takes two words.
        sums: Vec<(MomentSum, usize, bool)>,
        /// Scales of the arguments.
        scales: [i8; 2],
    },
    /// Rank of a 64-bit integer; complemented for MIN.
    RankInteger {
        /// Word of the rank.
        word: usize,
        /// Whether this is MIN.
        complement: bool,
    },
    /// An unsigned 64-bit integer, which is its own rank; complemented for MIN.
    RankUnsigned {
        /// Word of the rank.
        word: usize,
        /// Whether this is MIN.
        complement: bool,
    },
    /// Rank of a double; complemented for MIN.
    RankFloat {
        /// Word of the rank.
        word: usize,
        /// Whether this is MIN.
        complement: bool,
    },
    /// Place of an interned string; 0 if the group has no value.
    Place {
        /// Word of the place.
        word: usize,
        /// The encoding of the value in the string.
        form: StringForm,
    },
    /// Rank of a dictionary code; complemented for MIN.
    RankCode {
        /// Word of the rank.
        word: usize,
        /// Whether this is MIN.
        complement: bool,
        /// The dictionary.
        values: ArrayRef,
    },
}
