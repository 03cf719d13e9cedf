//! Group tables that stay on the device: the words of each group at its key's index, or in a slot of a hash
//! table. Keys are decoded, and aggregates finished, where they are looked up.
//!
//! ```text
//! word of entry e:  words[e * stride + word]        one of them is 0 where there is no group: the count of its rows, or the first of its key
//! ```

use super::dictionary::CodedStrings;
use super::interval::Interval;
use std::collections::BTreeMap;

/// The words of the groups of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupWords {
    /// Words of a group.
    pub stride: usize,
    /// The word that is 0 where there is no group; `None`: every entry is one.
    pub occupied: Option<usize>,
    /// Parts of the key and aggregates, by column.
    pub columns: BTreeMap<usize, GroupColumn>,
}

/// A part of the key, or an aggregate of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupColumn {
    /// How it is made from the words.
    pub form: GroupForm,
    /// Where it is NULL.
    pub null: GroupNull,
}

/// Where a column of groups is NULL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GroupNull {
    /// Nowhere.
    Never,
    /// Where the word, which counts its values, is 0.
    Counted(usize),
    /// Where the bit of the word is set.
    Bit {
        /// Number of the word.
        word: usize,
        /// Its number in the word.
        bit: usize,
    },
    /// Where its digit is the last of its part.
    LastDigit,
}

/// See [`GroupColumn`].
#[derive(Debug, Clone, PartialEq)]
pub enum GroupForm {
    /// A digit of the group's number, which is the index, or one less than a word.
    Digit {
        /// Number of the word; `None`: the index is the number.
        number: Option<usize>,
        /// The product of the radices of the digits behind it.
        divisor: u64,
        /// Values of the digit.
        radix: u64,
        /// The value that a digit stands for.
        value: DigitValue,
    },
    /// A count, a sum or a key of 64 bits, within the interval.
    Integer {
        /// Number of the word.
        word: usize,
        /// Values that it has.
        interval: Interval,
    },
    /// A wrapping sum of 64 bits, and a constant for each of its values.
    SumPlus {
        /// Number of the word of the sum.
        sum: usize,
        /// Number of the word that counts its values.
        count: usize,
        /// The constant.
        each: i64,
    },
    /// A sum or a key of 128 bits, within the interval.
    Wide {
        /// Number of the word.
        word: usize,
        /// Values that it has.
        interval: Interval,
    },
    /// The same of a sum that raises an error outside of the limits of its type, with the name of the call.
    Checked {
        /// Number of the word.
        word: usize,
        /// Values that it has.
        interval: Interval,
        /// Values of its type.
        limit: Interval,
        /// The call, for the error.
        name: String,
    },
    /// A sum that may leave 128 bits, by the sums of the upper and of the lower 64 bits of its values; it
    /// raises the same error.
    Halves {
        /// Number of the first word of the sum of the upper halves.
        high: usize,
        /// Number of the first word of the sum of the lower halves.
        low: usize,
        /// Values of its type.
        limit: Interval,
        /// The call, for the error.
        name: String,
    },
    /// A sum or a key that is a double.
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
        /// Values that it has.
        interval: Interval,
    },
    /// The rank of an integer of 64 bits without sign, which is itself, complemented for MIN.
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
        /// Values that it has.
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
        /// The strings of the codes.
        values: CodedStrings,
    },
    /// The place of a text that is a group key, or the least or greatest of a group.
    Text {
        /// Number of the word.
        word: usize,
        /// Where the string is.
        form: TextForm,
    },
    /// A decimal average: the sum times the factor, divided by the count towards zero.
    Average {
        /// Number of the word of the sum.
        sum: usize,
        /// Number of the word that counts its values.
        count: usize,
        /// The factor.
        factor: i64,
        /// Width of the product.
        product: Product,
        /// Values that it has.
        interval: Interval,
    },
    /// An average of doubles.
    AverageFloat {
        /// Number of the word of the sum.
        sum: usize,
        /// Number of the word that counts its values.
        count: usize,
    },
}

/// What a text at a place says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Itself.
    Text,
    /// An integer: 16 bytes, the highest first, with the sign turned (`WideBytes` in `interned.cuh`).
    Integer,
}

/// What a digit of a key stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum DigitValue {
    /// The least of these integers plus the digit.
    Integer(Interval),
    /// 0 or 1.
    Boolean,
    /// A code of the dictionary.
    Code(CodedStrings),
}

/// Bits of a sum, and of the sum times a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// 64 and 64.
    Narrow,
    /// 64 and 128.
    Widened,
    /// 128 and 128.
    Wide,
}
