//! Group tables that stay on the device: the words of each group at its key's index, or in a slot of a hash
//! table. Keys are decoded, and aggregates are finished, by the pipelines that look them up.
//!
//! ```text
//! word of entry e:  words[e * stride + word]        one of them is 0 if the entry has no group: its row count, or the first word of its key
//! ```

use super::dictionary::CodedStrings;
use super::interval::Interval;
use std::collections::BTreeMap;

/// The words of the groups of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupWords {
    /// Number of words per group.
    pub stride: usize,
    /// The word that is 0 if the entry has no group; `None`: every entry has a group.
    pub occupied: Option<usize>,
    /// Key parts and aggregates, by column number.
    pub columns: BTreeMap<usize, GroupColumn>,
}

/// A part of the key, or an aggregate of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupColumn {
    /// Computation from the words.
    pub form: GroupForm,
    /// Condition for NULL.
    pub null: GroupNull,
}

/// Condition for a column of groups to be NULL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GroupNull {
    /// Never NULL.
    Never,
    /// NULL if the word, which counts the values, is 0.
    Counted(usize),
    /// NULL if the bit of the word is set.
    Bit {
        /// Number of the word.
        word: usize,
        /// Number of the bit in the word.
        bit: usize,
    },
    /// NULL if the digit is the last one of its part.
    LastDigit,
}

/// Computation of a [`GroupColumn`] from the words of its group.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupForm {
    /// A digit of the group's number. The number is the index, or a word minus one.
    Digit {
        /// Number of the word; `None`: the index is the number.
        number: Option<usize>,
        /// The product of the radices of the less significant digits.
        divisor: u64,
        /// Radix of the digit.
        radix: u64,
        /// The value that the digit encodes.
        value: DigitValue,
    },
    /// A count, a sum or a key of 64 bits, within the interval.
    Integer {
        /// Number of the word.
        word: usize,
        /// Interval of the values.
        interval: Interval,
    },
    /// A wrapping 64-bit sum plus a constant for each of its values.
    SumPlus {
        /// Number of the sum's word.
        sum: usize,
        /// Number of the word that counts the values.
        count: usize,
        /// The constant.
        each: i64,
    },
    /// A sum or a key of 128 bits, within the interval.
    Wide {
        /// Number of the word.
        word: usize,
        /// Interval of the values.
        interval: Interval,
    },
    /// A sum like `Wide` that raises an error outside the limits of its type.
    Checked {
        /// Number of the word.
        word: usize,
        /// Interval of the values.
        interval: Interval,
        /// Limits of the type.
        limit: Interval,
        /// The aggregate call, for the error message.
        name: String,
    },
    /// A sum that may overflow 128 bits, in two sums of the upper and the lower 64 bits of its values; it
    /// raises the same error.
    PartitionPasses {
        /// Number of the first word of the sum of the upper halves.
        high: usize,
        /// Number of the first word of the sum of the lower halves.
        low: usize,
        /// Limits of the type.
        limit: Interval,
        /// The aggregate call, for the error message.
        name: String,
    },
    /// A sum or a key of type double.
    Float {
        /// Number of the word.
        word: usize,
    },
    /// The rank of an integer within the interval, complemented for MIN.
    Rank {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
        /// Interval of the values.
        interval: Interval,
    },
    /// The rank of an unsigned 64-bit integer, which is the integer itself, complemented for MIN.
    RankUnsigned {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
    },
    /// Bits of an integer within the interval, complemented for AND.
    Bits {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
        /// Interval of the values.
        interval: Interval,
    },
    /// The rank of a boolean, complemented for MIN.
    RankBoolean {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
    },
    /// The rank of a double, complemented for MIN.
    RankFloat {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
    },
    /// A code of the dictionary, complemented for MIN.
    Code {
        /// Number of the word.
        word: usize,
        /// Whether the word is complemented.
        complement: bool,
        /// The dictionary.
        values: CodedStrings,
    },
    /// The place of an interned string: a group key, or the result of MIN or MAX.
    Text {
        /// Number of the word.
        word: usize,
        /// The encoding of the value in the string.
        form: StringForm,
    },
    /// A decimal average: the sum times the factor, divided by the count, truncated towards zero.
    Average {
        /// Number of the sum's word.
        sum: usize,
        /// Number of the word that counts the values.
        count: usize,
        /// The factor.
        factor: i64,
        /// Width of the product.
        product: Product,
        /// Interval of the values.
        interval: Interval,
    },
    /// An average of doubles.
    AverageFloat {
        /// Number of the sum's word.
        sum: usize,
        /// Number of the word that counts the values.
        count: usize,
    },
}

/// The value that an interned string encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringForm {
    /// The string itself.
    Text,
    /// An integer: 16 bytes, the highest first, with the sign bit flipped (`WideBytes` in `interned.cuh`).
    Integer,
}

/// The value that a digit of a key encodes.
#[derive(Debug, Clone, PartialEq)]
pub enum DigitValue {
    /// The least of these integers plus the digit.
    Integer(Interval),
    /// 0 or 1.
    Boolean,
    /// A code of the dictionary.
    Code(CodedStrings),
}

/// Widths in bits of a sum, and of the sum times a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// 64 and 64 bits.
    Narrow,
    /// 64 and 128 bits.
    Widened,
    /// 128 and 128 bits.
    Wide,
}
