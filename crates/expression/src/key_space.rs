//! Numbering of the keys of a build side on the device, with one or several parts.
//!
//! ```text
//! number = ((part 0 - least) * span of part 1 + (part 1 - least)) * ...      the index itself if keys are dense,
//!                                                                             otherwise the slot of the number in a table of keys
//! ```
//!
//! Keys wider than 64 bits are interned (`interned.cuh`) and numbered by the place of their words.

use super::dictionary::CodedStrings;
use super::interval::Interval;
use super::kind::Kind;
use super::value::Value;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// A build side becomes arrays by key if it needs at most this many indices per input row, plus
/// [`FREE_INDICES`].
const INDICES_PER_ROW: u64 = 64;

/// Number of indices that arrays by key may always have: arrays of some megabytes are cheaper than any other
/// join.
const FREE_INDICES: u64 = 4 << 20;

/// A multimap becomes arrays by key if it needs at most this many indices per input row, plus [`FREE_LISTS`].
const LISTS_PER_ROW: u64 = 4;

/// Number of indices that a multimap by key may always have.
const FREE_LISTS: u64 = 64 << 10;

/// Maximum number of indices of arrays by key for `rows` rows.
pub(super) fn indices_for(rows: u64) -> u64 {
    rows.saturating_mul(INDICES_PER_ROW).saturating_add(FREE_INDICES)
}

/// Bits of the place of an interned string.
pub(crate) const PLACE_BITS: u32 = galatea_kernels::PLACE_FIELD_BITS;

/// Range of the places of interned keys.
pub const PLACES: Interval = Interval {
    low: 0,
    high: (1 << PLACE_BITS) - 1,
};

/// Maximum number of indices, which are 32-bit numbers.
const MAX_INDICES: u64 = 1 << 31;

/// A part of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinKeyPart {
    /// The possible values; for strings, the codes.
    pub interval: Interval,
    /// The dictionary, for strings.
    pub values: Option<CodedStrings>,
    /// Whether it is a string without a dictionary, which is numbered by its place among the build side's
    /// strings.
    pub by_place: bool,
    /// Whether NULL is a value like others; it is then the last number of the part.
    pub nulls: bool,
}

impl JoinKeyPart {
    /// The part with the values of `value`, including NULL if `nulls`.
    pub fn new(value: &Value, nulls: bool) -> Self {
        let nulls = nulls && value.null.is_some();
        match &value.kind {
            Kind::Code { values } => Self {
                interval: Interval {
                    low: 0,
                    high: values.len().saturating_sub(1) as i128,
                },
                values: Some(CodedStrings(Arc::clone(values))),
                by_place: false,
                nulls,
            },
            Kind::Place => Self {
                interval: PLACES,
                values: None,
                by_place: true,
                nulls,
            },
            _ => Self {
                interval: value.interval(),
                values: None,
                by_place: false,
                nulls,
            },
        }
    }

    /// Number of possible values; `None` if it exceeds 127 bits.
    fn numbers(&self) -> Option<i128> {
        let span = self.interval.high.checked_sub(self.interval.low)?;
        span.checked_add(1 + i128::from(self.nulls))
    }
}

/// The keys of a build side that is one partition of an out-of-core join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildPart {
    /// The keys of at most this number of rows.
    Rows(u64),
    /// The integer keys of an interval. The rows of other keys have been filtered out.
    Keys(Interval),
}

/// Numbering of join keys: each part of a key is a digit.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySpace {
    /// The parts of the key, the most significant first.
    pub parts: Vec<JoinKeyPart>,
    /// Number of slots of the table of keys, a power of two; `None`: numbers are indices.
    pub slots: Option<u64>,
    /// Whether keys exceed 64 bits; their number is then the place of their words.
    pub is_wide: bool,
}

impl KeySpace {
    /// The key space of these parts, for at most `rows` rows.
    ///
    /// # Errors
    /// [`Reason::Limit`] if a table of keys is needed and `rows` exceeds half of the maximum number of
    /// indices.
    pub fn new(parts: Vec<JoinKeyPart>, rows: u64) -> Result<Self, Reason> {
        Self::within(parts, rows, indices_for(rows))
    }

    /// The key space of a multimap: a list start is larger than a presence bit, so keys are indices only if
    /// they are dense.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_lists(parts: Vec<JoinKeyPart>, rows: u64) -> Result<Self, Reason> {
        Self::within(
            parts,
            rows,
            rows.saturating_mul(LISTS_PER_ROW).saturating_add(FREE_LISTS),
        )
    }

    /// The key space of one partition of a build side. Keys of a number of rows are indices only if they take
    /// no more memory than a table of keys.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_part(parts: Vec<JoinKeyPart>, part: BuildPart) -> Result<Self, Reason> {
        match part {
            BuildPart::Rows(rows) => Self::within(parts, rows, 2 * rows),
            BuildPart::Keys(interval) => Ok(Self::of_integers(interval)),
        }
    }

    /// The key space of integers that are indices.
    pub fn of_integers(interval: Interval) -> Self {
        let part = JoinKeyPart {
            interval,
            values: None,
            by_place: false,
            nulls: false,
        };
        Self {
            parts: vec![part],
            slots: None,
            is_wide: false,
        }
    }

    /// Keys are indices if at most `indices` different keys are possible.
    fn within(parts: Vec<JoinKeyPart>, rows: u64, indices: u64) -> Result<Self, Reason> {
        let space = Self {
            parts,
            slots: None,
            is_wide: false,
        };
        let numbers = space.numbers();
        if numbers.is_some_and(|numbers| numbers <= indices.min(MAX_INDICES)) {
            return Ok(space);
        }
        if rows > MAX_INDICES / 2 {
            return Err(Reason::Limit {
                expression: "a join".into(),
                asked: rows,
                limit: MAX_INDICES / 2,
                unit: "rows of a build side",
            });
        }
        Ok(Self {
            slots: Some((2 * rows.max(32)).next_power_of_two()),
            is_wide: numbers.is_none(),
            ..space
        })
    }

    /// Number of possible keys; `None` if it is 2^64 or more.
    pub fn numbers(&self) -> Option<u64> {
        let mut parts = self.parts.iter();
        let numbers = parts.try_fold(1i128, |all, part| all.checked_mul(part.numbers()?));
        numbers.and_then(|numbers| u64::try_from(numbers).ok())
    }

    /// The reason for a table of keys, if one is needed.
    pub fn why_table(&self) -> Option<&'static str> {
        self.slots.map(|_| match self.is_wide {
            true => "a table of keys, which are more than 64 bits",
            false => "a table of keys, which lie far apart",
        })
    }

    /// Number of indices.
    pub fn indices(&self) -> u64 {
        (self.slots).unwrap_or_else(|| self.numbers().unwrap_or_default())
    }
}
