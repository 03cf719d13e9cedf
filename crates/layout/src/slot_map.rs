//! The map from slots to values, for decoding a laid-out column.

use crate::error::{LayoutError, Result};

/// The value of each slot of a replicated table.
///
/// Slots 0 to *values* - 1 hold the values themselves, in order; copies follow. Holes hold no value: they are
/// unused slots between copies that were put into fuller banks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    values: usize,
    of_slot: Vec<u32>,
}

impl SlotMap {
    /// The value of a hole.
    pub const HOLE: u32 = u32::MAX;

    pub(crate) fn new(values: usize, of_slot: Vec<u32>) -> Self {
        Self { values, of_slot }
    }

    /// Number of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.values
    }

    /// Number of slots, including holes: entries of a replicated table.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.of_slot.len()
    }

    /// The value of each slot, [`SlotMap::HOLE`] for holes. A device needs it to merge copies.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.of_slot
    }

    /// The value of a slot; `None` for holes and for slots past the last.
    #[must_use]
    pub fn value(&self, slot: u32) -> Option<u32> {
        let value = *self.of_slot.get(slot as usize)?;
        (value != Self::HOLE).then_some(value)
    }

    /// Number of holes.
    #[must_use]
    pub fn holes(&self) -> usize {
        self.of_slot.iter().filter(|&&value| value == Self::HOLE).count()
    }

    /// Number of copies of each value, including the value itself.
    #[must_use]
    pub fn copies(&self) -> Vec<u32> {
        let mut copies = vec![0; self.values];
        for &value in &self.of_slot {
            if value != Self::HOLE {
                copies[value as usize] += 1;
            }
        }
        copies
    }

    /// Decodes a laid-out column, for queries that use its values otherwise.
    ///
    /// # Errors
    /// [`LayoutError::Slot`] for a column that does not belong to this map.
    pub fn decode(&self, slots: &[u32]) -> Result<Vec<u32>> {
        let value = |(row, &slot)| {
            self.value(slot).ok_or(LayoutError::Slot {
                row,
                slot,
                slots: self.slots(),
            })
        };
        slots.iter().enumerate().map(value).collect()
    }

    /// Builds a replicated table for foreign-key joins: every slot has the payload of its value, holes have
    /// `hole`.
    ///
    /// # Errors
    /// [`LayoutError::Length`] unless `payload` has one entry per value.
    pub fn replicate<T: Clone>(&self, payload: &[T], hole: T) -> Result<Vec<T>> {
        length("payloads of values", payload.len(), self.values)?;
        let entry = |&value: &u32| payload.get(value as usize).unwrap_or(&hole).clone();
        Ok(self.of_slot.iter().map(entry).collect())
    }

    /// Computes aggregates per value from aggregates per slot: the final pass of §2's footnote 2. Holes are
    /// skipped.
    ///
    /// # Errors
    /// [`LayoutError::Length`] unless `of_slots` has one entry per slot.
    pub fn merge<T: Copy>(&self, of_slots: &[T], identity: T, combine: impl Fn(T, T) -> T) -> Result<Vec<T>> {
        length("aggregates of slots", of_slots.len(), self.slots())?;
        let mut merged = vec![identity; self.values];
        for (&value, &part) in self.of_slot.iter().zip(of_slots) {
            if let Some(all) = merged.get_mut(value as usize) {
                *all = combine(*all, part);
            }
        }
        Ok(merged)
    }
}

fn length(what: &'static str, given: usize, expected: usize) -> Result<()> {
    if given == expected {
        return Ok(());
    }
    Err(LayoutError::Length {
        what,
        given,
        expected,
    })
}
