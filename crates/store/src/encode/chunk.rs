//! One column of one chunk, encoded independently of the other chunks: output of the encoder, input of the
//! plan.

use std::ops::Range;
use std::sync::Arc;

use super::dictionary::LocalDictionary;
use super::fixed::{LocalBooleans, LocalDecimals, LocalFloats};
use super::integer::LocalIntegers;
use super::string::{LocalString, Offsets};
use crate::column::{Chunk, Column, Zone};

/// One column of one chunk, encoded independently of the other chunks.
#[derive(Debug)]
pub(crate) struct LocalChunk {
    pub(crate) rows: u32,
    pub(crate) null_count: u32,
    /// Arrow bit order; only present if the chunk has nulls.
    pub(super) validity: Option<Vec<u8>>,
    pub(super) values: LocalValues,
}

#[derive(Debug)]
pub(super) enum LocalValues {
    Boolean(LocalBooleans),
    Integer(LocalIntegers),
    Float32(LocalFloats<f32>),
    Float64(LocalFloats<f64>),
    Decimal(LocalDecimals),
    Dictionary(LocalDictionary),
    Text(LocalString),
    Slots(LocalSlots),
}

impl LocalChunk {
    /// Heap memory in bytes.
    pub(crate) fn size(&self) -> u64 {
        let values = match &self.values {
            LocalValues::Boolean(values) => values.values.len(),
            LocalValues::Integer(values) => values.codes.bytes(),
            LocalValues::Float32(values) => values.values.len() * 4,
            LocalValues::Float64(values) => values.values.len() * 8,
            LocalValues::Decimal(values) => values.values.len() * 16,
            LocalValues::Dictionary(values) => values.size(),
            LocalValues::Text(values) => values.values.size(),
            LocalValues::Slots(values) => values.size(),
        };
        (values + self.validity.as_ref().map_or(0, Vec::len)) as u64
    }

    /// The chunks of a column with these slots of its rows.
    pub(super) fn of_slots(column: &Column, slots: Vec<u32>) -> Vec<Self> {
        let slots = Arc::new(slots);
        let mut end = 0;
        let chunk = |chunk: &Chunk| {
            let start = end;
            end += chunk.rows as usize;
            Self {
                rows: chunk.rows,
                null_count: chunk.zone.null_count,
                validity: chunk.validity.as_ref().map(|bits| bits.as_slice().to_vec()),
                values: LocalValues::Slots(LocalSlots {
                    slots: Arc::clone(&slots),
                    rows: start..end,
                    zone: chunk.zone.clone(),
                }),
            }
        };
        column.chunks.iter().map(chunk).collect()
    }

    pub(super) fn needs_wide_offsets(&self) -> bool {
        matches!(&self.values, LocalValues::Text(text) if matches!(text.values.offsets, Offsets::Eight(_)))
    }

    pub(super) fn compute_string(&mut self) {
        if let LocalValues::Dictionary(dictionary) = &self.values {
            self.values = LocalValues::Text(dictionary.to_string(self.rows as usize));
        }
    }
}

/// The slots of the rows of one chunk.
#[derive(Debug)]
pub(super) struct LocalSlots {
    /// The slots of all rows of the column.
    pub(super) slots: Arc<Vec<u32>>,
    /// The range of the chunk's rows among them.
    pub(super) rows: Range<usize>,
    pub(super) zone: Zone,
}

impl LocalSlots {
    fn size(&self) -> usize {
        self.rows.len() * size_of::<u32>()
    }
}
