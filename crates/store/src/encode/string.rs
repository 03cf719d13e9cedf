//! Strings and binaries of one chunk: offsets and bytes, and the zone over them.

use std::sync::Arc;

use arrow::array::{Array, GenericByteArray, GenericByteViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ByteArrayType, ByteViewType};

use crate::column::{Scalar, Zone};

/// Maximum number of bytes of a bound of a string zone.
pub(crate) const ZONE_PREFIX_BYTES: usize = 64;

/// An array of byte strings, whatever its layout.
pub(crate) trait Strings {
    fn rows(&self) -> usize;
    /// The bytes of a row; meaningless for null rows.
    fn bytes(&self, row: usize) -> &[u8];
    fn validity(&self) -> Option<&NullBuffer>;
}

impl<T: ByteArrayType> Strings for GenericByteArray<T> {
    fn rows(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn bytes(&self, row: usize) -> &[u8] {
        let value: &T::Native = self.value(row);
        value.as_ref()
    }
    fn validity(&self) -> Option<&NullBuffer> {
        self.nulls().filter(|nulls| nulls.null_count() > 0)
    }
}

impl<T: ByteViewType + ?Sized> Strings for GenericByteViewArray<T> {
    fn rows(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn bytes(&self, row: usize) -> &[u8] {
        let value: &T::Native = self.value(row);
        value.as_ref()
    }
    fn validity(&self) -> Option<&NullBuffer> {
        self.nulls().filter(|nulls| nulls.null_count() > 0)
    }
}

/// `rows + 1` offsets.
#[derive(Debug)]
pub(crate) enum Offsets {
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Offsets {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self::Four(offsets)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, end: usize) {
        match self {
            Self::Four(offsets) => match u32::try_from(end) {
                Ok(end) => offsets.push(end),
                Err(_) => {
                    let mut wide: Vec<u64> = offsets.iter().map(|offset| u64::from(*offset)).collect();
                    wide.reserve(offsets.capacity() - offsets.len());
                    wide.push(end as u64);
                    *self = Self::Eight(wide);
                }
            },
            Self::Eight(offsets) => offsets.push(end as u64),
        }
    }

    #[inline(always)]
    pub(crate) fn range(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Self::Four(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Eight(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Four(offsets) => offsets.len() * 4,
            Self::Eight(offsets) => offsets.len() * 8,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Four(offsets) => offsets.len() - 1,
            Self::Eight(offsets) => offsets.len() - 1,
        }
    }
}

/// Byte strings one after the other.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) offsets: Offsets,
    pub(crate) bytes: Vec<u8>,
}

impl Arena {
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self {
            offsets: Offsets::with_capacity(rows),
            bytes: Vec::with_capacity(bytes),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len());
    }

    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets.range(row)]
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.rows()
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.offsets.bytes()
    }
}

/// The smallest and the largest of a set of strings.
pub(crate) type StringBounds = (Arc<[u8]>, Arc<[u8]>);

/// Strings of one chunk; null rows are empty.
#[derive(Debug)]
pub(crate) struct LocalString {
    pub(crate) values: Arena,
    pub(crate) bounds: Option<StringBounds>,
}

/// Collects the strings of a chunk.
#[derive(Debug)]
pub(crate) struct StringBuilder {
    values: Arena,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
}

/// The extreme so far: its row, and its first eight bytes for comparisons.
#[derive(Debug, Clone, Copy)]
struct Bound {
    prefix: u64,
    row: usize,
}

impl StringBuilder {
    pub(crate) fn new(rows: usize, bytes: usize) -> Self {
        Self {
            values: Arena::with_capacity(rows, bytes),
            minimum: None,
            maximum: None,
        }
    }

    pub(crate) fn push_null(&mut self) {
        self.values.push(&[]);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: &[u8]) {
        let row = self.values.rows();
        self.values.push(value);
        let prefix = prefix(value);
        let bound = Bound { prefix, row };
        let values = &self.values;
        match self.minimum {
            Some(held)
                if (held.prefix, values.get_if(held.prefix == prefix, held.row)) <= (prefix, value) => {}
            _ => self.minimum = Some(bound),
        }
        match self.maximum {
            Some(held)
                if (held.prefix, values.get_if(held.prefix == prefix, held.row)) >= (prefix, value) => {}
            _ => self.maximum = Some(bound),
        }
    }

    /// Appends all rows of an array.
    pub(crate) fn push_all<S: Strings + ?Sized>(&mut self, strings: &S) {
        match strings.validity() {
            None => (0..strings.rows()).for_each(|row| self.push(strings.bytes(row))),
            Some(nulls) => {
                for row in 0..strings.rows() {
                    if nulls.is_valid(row) {
                        self.push(strings.bytes(row));
                    } else {
                        self.push_null();
                    }
                }
            }
        }
    }

    pub(crate) fn finish(self) -> LocalString {
        let bounds = self.minimum.zip(self.maximum).map(|(minimum, maximum)| {
            (
                Arc::from(self.values.get(minimum.row)),
                Arc::from(self.values.get(maximum.row)),
            )
        });
        LocalString {
            values: self.values,
            bounds,
        }
    }
}

impl Arena {
    /// The bytes of the row if prefixes do not decide, else any bytes.
    #[inline(always)]
    fn get_if(&self, needed: bool, row: usize) -> &[u8] {
        if needed { self.get(row) } else { &[] }
    }
}

/// The first eight bytes as a number. Different prefixes compare as their strings do.
#[inline(always)]
pub(crate) fn prefix(value: &[u8]) -> u64 {
    match value.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..value.len()].copy_from_slice(value);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The zone between two strings. Long ones are shortened.
pub(crate) fn string_zone(bounds: Option<&StringBounds>, utf8: bool, null_count: u32) -> Zone {
    let exact = bounds.is_none_or(|(minimum, maximum)| minimum.len().max(maximum.len()) <= ZONE_PREFIX_BYTES);
    Zone {
        min: bounds.map(|(minimum, _)| Scalar::Bytes(lower_bound(minimum, utf8))),
        max: bounds
            .and_then(|(_, maximum)| upper_bound(maximum, utf8))
            .map(Scalar::Bytes),
        null_count,
        has_nan: false,
        exact,
    }
}

/// A short string that is at most `value`: its prefix, cut between characters.
fn lower_bound(value: &Arc<[u8]>, utf8: bool) -> Arc<[u8]> {
    if value.len() <= ZONE_PREFIX_BYTES {
        return Arc::clone(value);
    }
    Arc::from(&value[..cut(value, utf8)])
}

/// A short string that is at least `value`, if one exists: a prefix with its last character raised.
fn upper_bound(value: &Arc<[u8]>, utf8: bool) -> Option<Arc<[u8]>> {
    if value.len() <= ZONE_PREFIX_BYTES {
        return Some(Arc::clone(value));
    }
    let prefix = &value[..cut(value, utf8)];
    if !utf8 {
        let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut raised = prefix[..=last].to_vec();
        raised[last] += 1;
        return Some(Arc::from(raised));
    }
    // The order of characters is the order of their UTF-8 bytes.
    let mut characters: Vec<char> = std::str::from_utf8(prefix).ok()?.chars().collect();
    while let Some(last) = characters.pop() {
        let raised = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(raised) = raised {
            characters.push(raised);
            return Some(Arc::from(characters.into_iter().collect::<String>().into_bytes()));
        }
    }
    None
}

/// Length of a prefix of at most [`ZONE_PREFIX_BYTES`] that ends between characters.
fn cut(value: &[u8], utf8: bool) -> usize {
    let mut end = ZONE_PREFIX_BYTES;
    // A UTF-8 continuation byte is 10xxxxxx; a character has at most three.
    while utf8 && end > ZONE_PREFIX_BYTES - 4 && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    end
}
