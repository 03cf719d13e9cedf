//! Build sides packed for shared memory (Sitaridi & Ross, §2).
//!
//! All data of a key is packed into one entry: whether the build side has the key, which values are NULL, and
//! the values as distances from the least value, in the minimum number of bits. Bits beyond 32 are stored in
//! further *planes*; a row accesses shared memory once per plane.
//!
//! ```text
//! key        d_year  d_name        bits  15 to 9      8        7 to 5       4 to 1     0
//! 19940101   1994    Sat                 unused   d_name is   d_year less   rank of   present    one plane of u16
//! 19940102   1994    NULL                           NULL         1992       d_name
//! ```
//!
//! A plane has entries of one bit, or of one, two or four bytes, the narrowest that fit. Lanes that access
//! the same 32-bit word share its round, so narrow entries have fewer conflicts. Entries by slot have four
//! bytes, because a slot is a word in the column's layout. An absent entry follows the last one, for all keys
//! that the build side does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::built::PayloadKind;
use super::lookup_side::{LookupSide, Payload, Presence};

/// How a row determines its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryIndex {
    /// The index of the key in the build side: the distance from the least key, or the rank among its
    /// strings.
    Key,
    /// The code in the dictionary of the key, which is a single column.
    Code,
    /// The slot in the laid-out key column.
    Slot {
        /// C++ expression of the slot; undefined for rows that are not live.
        slot: String,
        /// C++ condition that the key is NULL, if its slot does not encode NULL.
        null: Option<String>,
    },
}

/// Location of a bit field in an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) plane: usize,
    pub(super) shift: u32,
    pub(super) bits: u32,
    /// Whether it is the topmost field of its plane.
    pub(super) top: bool,
}

/// Location of a column's value and NULL flag.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    null: Option<Field>,
    /// Fields of 32 bits each except the last, the lowest first; empty if all values are the same.
    parts: Vec<Field>,
}

/// Layout of the fields in the planes, derived from the columns' intervals before anything is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedLayout {
    /// Number of used bits of each plane.
    used: Vec<u32>,
    /// Width in bits of the entries of each plane.
    widths: Vec<u32>,
    columns: BTreeMap<usize, Column>,
}

/// A build side in the format that blocks copy into shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedLookupSide {
    pub(super) index: EntryIndex,
    /// Number of entries, not counting the absent one after the last.
    pub(super) entries: u32,
    layout: PackedLayout,
    bytes: Vec<u8>,
}

/// Planes are aligned to the bytes that a thread copies at once.
const ALIGNMENT: u64 = 16;

impl PackedLayout {
    /// The layout of the columns that rows look up. `words`: entries have four bytes.
    #[must_use]
    pub fn new(build_side: &LookupSide, columns: &BTreeSet<usize>, words: bool) -> Self {
        let mut layout = Self {
            // The presence bit is the lowest bit of the first plane.
            used: vec![1],
            widths: Vec::new(),
            columns: BTreeMap::new(),
        };
        let payloads = columns.iter().filter_map(|k| Some((*k, build_side.column(*k)?)));
        let payloads: Vec<(usize, &Payload)> = payloads.collect();
        // Wide fields come first; narrow ones fill the remaining bits.
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

    /// Allocates `bits` bits in the first plane with enough space.
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

    /// Number of planes, which is the number of accesses per row.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.used.len()
    }

    /// Number of literals that the kernel needs for the fields.
    #[must_use]
    pub fn literals(&self) -> usize {
        let fields = |column: &Column| 2 + column.parts.len() + usize::from(column.null.is_some());
        2 + self.columns.values().map(fields).sum::<usize>()
    }

    /// Bytes of all planes for `entries` entries and the absent one.
    #[must_use]
    pub fn bytes(&self, entries: u64) -> u64 {
        self.starts(entries).last().copied().unwrap_or_default()
    }

    /// Byte offsets of the planes, followed by the end of the last one.
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

    /// Packs the build side's rows at these indices; `None` is absent.
    #[must_use]
    pub fn pack(
        self,
        build_side: &LookupSide,
        index: EntryIndex,
        entries: &[Option<u32>],
    ) -> PackedLookupSide {
        let starts = self.starts(entries.len() as u64);
        let mut bytes = vec![0; self.bytes(entries.len() as u64) as usize];
        for (entry, at) in entries.iter().enumerate() {
            let Some(at) = at.filter(|at| build_side.has(*at)) else {
                continue;
            };
            for (plane, word) in self.words(build_side, at).into_iter().enumerate() {
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
        PackedLookupSide {
            index,
            entries: entries.len() as u32,
            layout: self,
            bytes,
        }
    }

    /// The entry of a key that is present, by plane.
    fn words(&self, build_side: &LookupSide, at: u32) -> Vec<u32> {
        let mut words = vec![0; self.used.len()];
        words[0] = 1;
        for (k, column) in &self.columns {
            let Some(payload) = build_side.column(*k) else {
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

impl PackedLookupSide {
    /// The bytes that are copied into shared memory: all planes, each padded to 16 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For each plane, the C++ type of its elements and its byte offset.
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

    /// Location of a column's value and NULL flag.
    pub(super) fn column(&self, column: usize) -> Option<(&[Field], Option<Field>)> {
        let column = self.layout.columns.get(&column)?;
        Some((&column.parts, column.null))
    }
}

impl Payload {
    /// Number of bits of the distance between the least and the greatest value.
    fn bits(&self) -> u32 {
        match &self.values {
            PayloadKind::Integer(interval) => bits(interval.high.wrapping_sub(interval.low) as u128),
            PayloadKind::Boolean => 1,
            PayloadKind::Float32 => 32,
            PayloadKind::Float64 => 64,
            PayloadKind::Code(values) => bits(values.len().saturating_sub(1) as u128),
        }
    }

    /// The distance of an entry from the least value; for floats, their bits.
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

impl LookupSide {
    /// Whether a row exists at the index.
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

/// Number of bits of the greatest number.
fn bits(greatest: u128) -> u32 {
    u128::BITS - greatest.leading_zeros()
}
