//! The keys of a build side on the device, of one part or several, as numbers.
//!
//! ```text
//! number = ((part 0 - least) * span of part 1 + (part 1 - least)) * ...      the index itself where numbers lie close together,
//!                                                                             else the slot of the number in a table of keys
//! ```
//!
//! Keys that are more than 64 bits have the place of their words among interned texts (`interned.cuh`) for a
//! number.

use super::dictionary::CodedStrings;
use super::interval::Interval;
use super::kind::Kind;
use super::value::Value;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// Indices a build side may have per row of what it is made from, beyond [`FREE_INDICES`], to be arrays by
/// key.
const INDICES_PER_ROW: u64 = 64;

/// Indices that arrays by key may have however few rows there are: arrays of some megabytes are cheaper than
/// any other join.
const FREE_INDICES: u64 = 4 << 20;

/// Indices that lists by key may have per row, beyond [`FREE_LISTS`].
const LISTS_PER_ROW: u64 = 4;

/// Indices that lists by key may have however few rows there are.
const FREE_LISTS: u64 = 64 << 10;

/// Most indices of arrays by key for `rows` rows.
pub(super) fn indices_for(rows: u64) -> u64 {
    rows.saturating_mul(INDICES_PER_ROW).saturating_add(FREE_INDICES)
}

/// Bits of the place of a text among those of a run.
pub(crate) const PLACE_BITS: u32 = galatea_kernels::PLACE_FIELD_BITS;

/// Places of texts that are keys.
pub const PLACES: Interval = Interval {
    low: 0,
    high: (1 << PLACE_BITS) - 1,
};

/// Most indices: they are numbers of 32 bits.
const MAX_INDICES: u64 = 1 << 31;

/// A part of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinKeyPart {
    /// The possible values; of text the codes.
    pub interval: Interval,
    /// The dictionary of text.
    pub values: Option<CodedStrings>,
    /// Whether it is a text without one, by its place among those of the build side.
    pub by_place: bool,
    /// Whether NULL is a value like others: the last number of the part.
    pub nulls: bool,
}

impl JoinKeyPart {
    /// The part that has these values, NULL among them if `nulls`.
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

    /// Possible values; `None` if they do not fit 127 bits.
    fn numbers(&self) -> Option<i128> {
        let span = self.interval.high.checked_sub(self.interval.low)?;
        span.checked_add(1 + i128::from(self.nulls))
    }
}

/// Numbers for the keys of a join: each part of a key is a digit.
#[derive(Debug, Clone, PartialEq)]
pub struct KeySpace {
    /// Its parts, first the one whose numbers are the farthest apart.
    pub parts: Vec<JoinKeyPart>,
    /// Slots of the table of keys, a power of two; `None`: numbers are indices.
    pub slots: Option<u64>,
    /// Whether keys do not fit a number of 64 bits: it is the place of their words then.
    pub is_wide: bool,
}

impl KeySpace {
    /// The space of keys of these parts, for at most `rows` rows.
    ///
    /// # Errors
    /// [`Reason::Limit`] of more rows than there are indices.
    pub fn new(parts: Vec<JoinKeyPart>, rows: u64) -> Result<Self, Reason> {
        Self::within(parts, rows, indices_for(rows))
    }

    /// The space of keys that repeat: the start of a list is larger than the bit of a row, so keys are
    /// indices only where they lie close together.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_lists(parts: Vec<JoinKeyPart>, rows: u64) -> Result<Self, Reason> {
        Self::within(
            parts,
            rows,
            rows.saturating_mul(LISTS_PER_ROW).saturating_add(FREE_LISTS),
        )
    }

    /// The space of the keys of one part of a build side, of at most `rows` rows: indices only where these
    /// take no more memory than a table of keys.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_part(parts: Vec<JoinKeyPart>, rows: u64) -> Result<Self, Reason> {
        Self::within(parts, rows, 2 * rows)
    }

    /// The space of integers that are indices.
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

    /// Keys are indices if there are no more than `indices`.
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

    /// Possible keys; `None` of 2^64 or more.
    pub fn numbers(&self) -> Option<u64> {
        let mut parts = self.parts.iter();
        let numbers = parts.try_fold(1i128, |all, part| all.checked_mul(part.numbers()?));
        numbers.and_then(|numbers| u64::try_from(numbers).ok())
    }

    /// Why there is a table of keys, if there is one.
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
