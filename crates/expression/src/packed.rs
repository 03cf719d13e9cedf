//! Dimensions packed for shared memory (Sitaridi & Ross, §2).
//!
//! Whatever a row wants to know of a key is packed into one entry: whether the dimension has it, which values
//! are NULL, and the values as distances from the least one, with as few bits as those take. What does not
//! fit 32 bits makes further *planes*; a row touches shared memory once per plane.
//!
//! ```text
//! key        d_year  d_name        bits  15 to 9      8        7 to 5       4 to 1     0
//! 19940101   1994    Sat                 unused   d_name is   d_year less   rank of   there      one plane of u16
//! 19940102   1994    NULL                           NULL         1992       d_name
//! ```
//!
//! A plane has entries of one bit, one, two or four bytes, as narrow as they can be: lanes whose entries are
//! in one word of 32 bits share its round, so narrow entries have fewer conflicts. By slot they have four
//! bytes, because a slot is a word where the column was laid out. After the last entry comes one that is
//! absent, for every key that the dimension does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::built::PayloadKind;
use super::dimension::{Dimension, Payload, Presence};

/// What names the entry of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryIndex {
    /// The index of its key in the dimension: the distance from the least key, or the rank among its strings.
    Key,
    /// The code of its key, in the dictionary of the only column that the key is.
    Code,
    /// The slot in the column that the key is, which is laid out.
    Slot {
        /// C++ expression of the slot; anything for rows that are not live.
        slot: String,
        /// C++ condition under which the key is NULL though its slot does not say so; `None`: slots say so.
        null: Option<String>,
    },
}

/// Where some bits of an entry are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) plane: usize,
    pub(super) shift: u32,
    pub(super) bits: u32,
    /// Whether no bits are above these.
    pub(super) top: bool,
}

/// Where the value of a column is, and whether it is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    null: Option<Field>,
    /// 32 bits each but the last, lowest first; none where there is one value only.
    parts: Vec<Field>,
}

/// Which bits of which plane mean what: decided by the columns' intervals, before anything is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedLayout {
    /// Bits used of each plane.
    used: Vec<u32>,
    /// Bits of an entry of each plane.
    widths: Vec<u32>,
    columns: BTreeMap<usize, Column>,
}

/// A dimension in the form that blocks copy into shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedDimension {
    pub(super) index: EntryIndex,
    /// Entries, the absent one after the last not counted.
    pub(super) entries: u32,
    layout: PackedLayout,
    bytes: Vec<u8>,
}

/// Planes start at multiples of what a thread copies at once.
const ALIGNMENT: u64 = 16;

impl PackedLayout {
    /// The layout of the columns that rows look up; `words`: entries have four bytes.
    #[must_use]
    pub fn new(dimension: &Dimension, columns: &BTreeSet<usize>, words: bool) -> Self {
        let mut layout = Self {
            // Whether the key is there is the lowest bit of the first plane.
            used: vec![1],
            widths: Vec::new(),
            columns: BTreeMap::new(),
        };
        let payloads = columns.iter().filter_map(|k| Some((*k, dimension.column(*k)?)));
        let payloads: Vec<(usize, &Payload)> = payloads.collect();
        // Wide fields first: the others fill what they leave.
        let mut parts: Vec<(u32, usize, usize)> = Vec::new();
        for (k, payload) in &payloads {
            let bits = payload.bits();
            parts.extend((0..bits.div_ceil(32)).map(|part| ((bits - 32 * part).min(32), *k, part as usize)));
        }
        parts.sort_by(|one, other| (other.0, one.1, one.2).cmp(&(one.0, other.1, other.2)));
        let mut fields: BTreeMap<(usize, usize), Field> = BTreeMap::new();
        for (bits, k, part) in parts {
            fields.insert((k, part), layout.take(bits));
        }
        for (k, payload) in payloads {
            let null = payload.nulls.is_some().then(|| layout.take(1));
            let parts = fields.range((k, 0)..(k + 1, 0)).map(|(_, field)| *field);
            let column = Column {
                null,
                parts: parts.collect(),
            };
            layout.columns.insert(k, column);
        }
        let used = layout.used.clone();
        for column in layout.columns.values_mut() {
            for field in column.null.iter_mut().chain(&mut column.parts) {
                field.top = field.shift + field.bits == used[field.plane];
            }
        }
        let narrowest = |used: &u32| [1, 8, 16].into_iter().find(|width| used <= width).unwrap_or(32);
        layout.widths = used
            .iter()
            .map(|used| if words { 32 } else { narrowest(used) })
            .collect();
        layout
    }

    /// Takes bits of the first plane that has so many.
    fn take(&mut self, bits: u32) -> Field {
        let plane = (self.used.iter().position(|used| used + bits <= 32)).unwrap_or_else(|| {
            self.used.push(0);
            self.used.len() - 1
        });
        let shift = self.used[plane];
        self.used[plane] += bits;
        Field {
            plane,
            shift,
            bits,
            top: false,
        }
    }

    /// Planes: what a row touches.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.used.len()
    }

    /// Literals that the kernel needs to find the fields.
    #[must_use]
    pub fn literals(&self) -> usize {
        let fields = |column: &Column| 2 + column.parts.len() + usize::from(column.null.is_some());
        2 + self.columns.values().map(fields).sum::<usize>()
    }

    /// Bytes of all planes for so many entries, and the absent one.
    #[must_use]
    pub fn bytes(&self, entries: u64) -> u64 {
        self.starts(entries).last().copied().unwrap_or_default()
    }

    /// Where each plane starts, and where the last ends.
    fn starts(&self, entries: u64) -> Vec<u64> {
        let mut starts = vec![0];
        let mut end = 0;
        for width in &self.widths {
            let bits = entries.saturating_add(1).saturating_mul(u64::from(*width));
            end += bits.div_ceil(8 * ALIGNMENT).saturating_mul(ALIGNMENT);
            starts.push(end);
        }
        starts
    }

    /// Packs what the dimension has at each index; `None` is absent.
    #[must_use]
    pub fn pack(self, dimension: &Dimension, index: EntryIndex, entries: &[Option<u32>]) -> PackedDimension {
        let starts = self.starts(entries.len() as u64);
        let mut bytes = vec![0; self.bytes(entries.len() as u64) as usize];
        for (entry, at) in entries.iter().enumerate() {
            let Some(at) = at.filter(|at| dimension.has(*at)) else {
                continue;
            };
            for (plane, word) in self.words(dimension, at).into_iter().enumerate() {
                let start = starts[plane] as usize;
                match self.widths[plane] {
                    1 => bytes[start + entry / 8] |= (word as u8) << (entry % 8),
                    width => {
                        let width = width as usize / 8;
                        let start = start + entry * width;
                        bytes[start..start + width].copy_from_slice(&word.to_le_bytes()[..width]);
                    }
                }
            }
        }
        PackedDimension {
            index,
            entries: entries.len() as u32,
            layout: self,
            bytes,
        }
    }

    /// The entry of a key that is there, by plane.
    fn words(&self, dimension: &Dimension, at: u32) -> Vec<u32> {
        let mut words = vec![0; self.used.len()];
        words[0] = 1;
        for (k, column) in &self.columns {
            let Some(payload) = dimension.column(*k) else {
                continue;
            };
            if let Some(null) = column.null {
                words[null.plane] |= u32::from(payload.is_null(at)) << null.shift;
            }
            let value = payload.distance(at);
            for (part, field) in column.parts.iter().enumerate() {
                words[field.plane] |= ((value >> (32 * part)) as u32) << field.shift;
            }
        }
        words
    }
}

impl PackedDimension {
    /// What is copied into shared memory: the planes, one after the other, each padded to 16 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// By plane: the C++ type of its elements, and its first byte.
    pub fn planes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let types = self.layout.widths.iter().map(|width| match width {
            8 => "u8",
            16 => "u16",
            _ => "u32",
        });
        types.zip(self.layout.starts(u64::from(self.entries)))
    }

    /// Whether entries of the plane have one bit.
    pub(super) fn is_bitmap(&self, plane: usize) -> bool {
        self.layout.widths[plane] == 1
    }

    /// Where the parts of a column's value are, and whether it is NULL.
    pub(super) fn column(&self, column: usize) -> Option<(&[Field], Option<Field>)> {
        let column = self.layout.columns.get(&column)?;
        Some((&column.parts, column.null))
    }
}

impl Payload {
    /// Bits of the distance from the least value to the greatest.
    fn bits(&self) -> u32 {
        match &self.values {
            PayloadKind::Integer(interval) => bits(interval.high.wrapping_sub(interval.low) as u128),
            PayloadKind::Boolean => 1,
            PayloadKind::Float32 => 32,
            PayloadKind::Float64 => 64,
            PayloadKind::Code(values) => bits(values.len().saturating_sub(1) as u128),
        }
    }

    /// The distance of an entry from the least value; of floats their bits.
    fn distance(&self, at: u32) -> u128 {
        let width = match self.c_type {
            "u8" => 1,
            "i16" => 2,
            "i32" | "float" => 4,
            "i64" | "double" => 8,
            _ => 16,
        };
        let entry = &self.table.bytes()[at as usize * width..][..width];
        let negative = self.c_type.starts_with('i') && entry[width - 1] >= 128;
        let mut bytes = [if negative { 255 } else { 0 }; 16];
        bytes[..width].copy_from_slice(entry);
        let number = u128::from_le_bytes(bytes);
        match &self.values {
            PayloadKind::Integer(interval) => number.wrapping_sub(interval.low as u128),
            _ => number,
        }
    }

    fn is_null(&self, at: u32) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| bit(nulls.bytes(), at))
    }
}

impl Dimension {
    /// Whether a row has the key of the index.
    fn has(&self, at: u32) -> bool {
        match &self.presence {
            Presence::Bits(table) => bit(table.bytes(), at),
            Presence::Every | Presence::Entry(..) => true,
        }
    }
}

fn bit(bytes: &[u8], at: u32) -> bool {
    bytes[at as usize / 8] >> (at % 8) & 1 != 0
}

/// Bits of the greatest number.
fn bits(greatest: u128) -> u32 {
    u128::BITS - greatest.leading_zeros()
}
