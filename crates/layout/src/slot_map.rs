//! Slots and the values they hold, by which a laid-out column is decoded.

use crate::error::{LayoutError, Result};

/// Which value each slot of a replicated table holds.
///
/// Slots 0 to *values* - 1 hold the values themselves, slot by slot; copies follow. Holes hold nothing: they
/// lie between copies that were put into fuller banks.
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

    /// Number of slots, holes among them: entries of a replicated table.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.of_slot.len()
    }

    /// The value of each slot, [`SlotMap::HOLE`] for holes: what a device needs to merge copies.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.of_slot
    }

    /// The value a slot holds; `None` for holes and for slots past the last.
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

    /// Copies of each value, the value itself included.
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

    /// The original column of a laid-out one: for queries that use its values otherwise.
    ///
    /// # Errors
    /// [`LayoutError::Slot`] for a column that is not this map's.
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

    /// A replicated table for foreign-key joins: every slot has the payload of its value, holes have `hole`.
    ///
    /// # Errors
    /// [`LayoutError::Length`] unless there is a payload per value.
    pub fn replicate<T: Clone>(&self, payload: &[T], hole: T) -> Result<Vec<T>> {
        length("payloads of values", payload.len(), self.values)?;
        let entry = |&value: &u32| payload.get(value as usize).unwrap_or(&hole).clone();
        Ok(self.of_slot.iter().map(entry).collect())
    }

    /// Aggregates per value from aggregates per slot: the final pass of §2's footnote 2. Holes are left out.
    ///
    /// # Errors
    /// [`LayoutError::Length`] unless there is an aggregate per slot.
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
