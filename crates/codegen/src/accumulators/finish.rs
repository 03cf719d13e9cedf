//! How result columns are made from the words of a group.

use crate::moments::{Moment, MomentSum};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_expression::{Interval, TextForm};

/// How a result column is made from a group's words.
#[derive(Debug, Clone)]
pub struct Finish {
    /// From which words, and how.
    pub form: FinishForm,
    /// Word that counts the values behind the result; NULL when it is zero. `None`: never NULL.
    pub valid: Option<usize>,
    /// Type of the result column.
    pub data_type: DataType,
    /// What the result must fit, where it may not.
    pub limit: Option<Limit>,
}

/// The values of a type that a sum must not leave.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The values.
    pub range: Interval,
    /// The call, for the error.
    pub call: String,
}

/// See [`Finish`].
#[derive(Debug, Clone)]
pub enum FinishForm {
    /// The word, unsigned.
    Count(usize),
    /// A 64-bit sum, sign extended where the result is wider.
    Sum64(usize),
    /// A 64-bit sum, and a constant for each of its values.
    SumPlus {
        /// Word of the sum.
        sum: usize,
        /// Word of the count.
        count: usize,
        /// The constant.
        each: i64,
    },
    /// Bits of integers; complemented for AND.
    Bits {
        /// The word.
        word: usize,
        /// AND.
        complement: bool,
    },
    /// A 128-bit sum.
    Sum128(usize),
    /// A sum that may leave 128 bits: the 128-bit sums of the upper and of the lower 64 bits of its values.
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
        /// Which.
        moment: Moment,
        /// Word that counts the rows without NULL.
        count: usize,
        /// The sums: the first word of each, and whether it takes two.
        sums: Vec<(MomentSum, usize, bool)>,
        /// Scales of the arguments.
        scales: [i8; 2],
    },
    /// Rank of a 64-bit integer; complemented for MIN.
    RankInteger {
        /// The word.
        word: usize,
        /// MIN.
        complement: bool,
    },
    /// A 64-bit integer without sign, which is its rank; complemented for MIN.
    RankUnsigned {
        /// The word.
        word: usize,
        /// MIN.
        complement: bool,
    },
    /// Rank of a double; complemented for MIN.
    RankFloat {
        /// The word.
        word: usize,
        /// MIN.
        complement: bool,
    },
    /// Place of a text; the group has no value where it is 0.
    Place {
        /// The word.
        word: usize,
        /// What the text says.
        form: TextForm,
    },
    /// Rank of a dictionary code; complemented for MIN.
    RankCode {
        /// The word.
        word: usize,
        /// MIN.
        complement: bool,
        /// The dictionary.
        values: ArrayRef,
    },
}
