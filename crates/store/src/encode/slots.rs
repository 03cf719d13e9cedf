//! Chunks of laid-out columns, with the slots chosen for their rows, and of rows appended later.

use std::sync::Arc;

use galatea_device::HostView;

use super::chunk::{LocalChunk, LocalValues};
use super::codes::Codes;
use super::fixed::integer_zone;
use super::integer::LocalIntegers;
use super::merge::rank_zone;
use crate::column::{Chunk, Encoding, Width, Zone};
use crate::layout::{CodeMeaning, SlotLayout};

/// The data needed to write the chunks of a laid-out column.
#[derive(Debug)]
pub(super) struct SlotChunks {
    layout: Arc<SlotLayout>,
    width: Width,
    /// For chunks of strings, the slot of each local code.
    ranks: Vec<Vec<u32>>,
    /// Slots of the first rows, which were chosen earlier.
    chosen: Vec<HostView>,
}

impl SlotChunks {
    /// Chunks of slots.
    pub(super) fn new(layout: SlotLayout) -> Self {
        Self {
            width: layout.width(),
            layout: Arc::new(layout),
            ranks: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// Chunks of rows with the first copies of their values. The rows of `tail`, which are the first of the
    /// first chunk, keep their slots. None if the layout lacks a value.
    pub(super) fn after(layout: &Arc<SlotLayout>, tail: &[Chunk], chunks: &[LocalChunk]) -> Option<Self> {
        let mut ranks = Vec::new();
        for chunk in chunks {
            if chunk.null_count > 0 && layout.null.is_none() {
                return None;
            }
            match (&chunk.values, &layout.meaning) {
                (LocalValues::Dictionary(dictionary), CodeMeaning::Dictionary { values }) => {
                    let mut of_chunk = dictionary.ranks_in(values)?;
                    of_chunk[0] = layout.null.unwrap_or(0);
                    ranks.push(of_chunk);
                }
                (LocalValues::Integer(integers), CodeMeaning::Integer { base, factor }) => {
                    holds(integers, *base, *factor, layout.codes()).then_some(())?;
                }
                _ => return None,
            }
        }
        Some(Self {
            layout: Arc::clone(layout),
            width: layout.width(),
            ranks,
            chosen: tail.iter().map(|chunk| chunk.data.stored().clone()).collect(),
        })
    }

    pub(super) fn encoding(self) -> Encoding {
        Encoding::Slots {
            width: self.width,
            layout: self.layout,
        }
    }

    pub(super) fn width(&self) -> Width {
        self.width
    }

    pub(super) fn base(&self) -> i64 {
        self.layout.base()
    }

    /// Writes the slots of chunk `index`, and returns its zone; none for values of another encoding.
    pub(super) fn write(
        &self,
        index: usize,
        values: &LocalValues,
        validity: Option<&[u8]>,
        null_count: u32,
        data: &mut [u8],
    ) -> Option<Zone> {
        let zone = match (values, &self.layout.meaning) {
            (LocalValues::Slots(slots), _) => {
                let of_chunk = slots.slots.get(slots.rows.clone())?;
                Codes::Four(of_chunk.to_vec()).write_mapped(self.width, data, |slot| slot);
                slots.zone.clone()
            }
            (LocalValues::Dictionary(dictionary), CodeMeaning::Dictionary { .. }) => {
                let ranks = self.ranks.get(index)?;
                dictionary
                    .codes
                    .write_mapped(self.width, data, |code| u64::from(ranks[code as usize]));
                rank_zone(ranks, null_count)
            }
            (LocalValues::Integer(integers), CodeMeaning::Integer { base, factor }) => {
                let mut slots = Vec::with_capacity(data.len() / self.width.bytes());
                integers.codes.for_each(|code| {
                    let row = slots.len();
                    let valid = validity.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 == 1);
                    let above = (integers.value(code) - i128::from(*base)) as u64;
                    slots.push(match self.layout.null {
                        Some(null) if !valid => null,
                        _ => (above / factor) as u32,
                    });
                });
                Codes::Four(slots).write_mapped(self.width, data, |slot| slot);
                integer_zone(integers.range, null_count)
            }
            _ => return None,
        };
        let mut rest = data;
        for chosen in self.chosen.iter().filter(|_| index == 0) {
            let (slots, after) = rest.split_at_mut_checked(chosen.len())?;
            slots.copy_from_slice(chosen.as_slice());
            rest = after;
        }
        Some(zone)
    }
}

/// Whether all values are among the first `codes` multiples of `factor` above the base.
fn holds(integers: &LocalIntegers, base: i64, factor: u64, codes: u64) -> bool {
    let Some((min, max)) = integers.range else {
        return true;
    };
    let above = |value: i128| u128::try_from(value - i128::from(base)).ok();
    let (Some(min), Some(max)) = (above(min), above(max)) else {
        return false;
    };
    let factor = u128::from(factor);
    min % factor == 0 && max / factor < u128::from(codes) && u128::from(integers.divisor) % factor == 0
}
