//! Errors of this crate: requests that cannot be met.

/// Result of this crate.
pub type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// The reason why a layout was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Masks of banks and of lanes are 32 bits wide.
    #[error("shared memory of {asked} {what} was asked for: between 1 and {limit} are handled")]
    Width {
        /// Banks or lanes.
        what: &'static str,
        /// How many.
        asked: u32,
        /// The most.
        limit: u32,
    },
    /// A shape of an access pattern does not divide as it must.
    #[error(
        "an access pattern of {asked} {what} was asked for: it must be a positive multiple of {multiple}\n\
         hint: {hint}"
    )]
    Shape {
        /// What is wrong.
        what: &'static str,
        /// Its number.
        asked: usize,
        /// The number that it must be a multiple of.
        multiple: usize,
        /// The unit of the multiple.
        hint: &'static str,
    },
    /// A column holds a number past the number of its values.
    #[error(
        "row {row} of the column holds {value}, but the column was said to have {values} values\n\
         hint: values are consecutive codes from 0; pass the largest code plus one"
    )]
    Value {
        /// First such row.
        row: usize,
        /// What it holds.
        value: u32,
        /// Values promised.
        values: usize,
    },
    /// A rewritten column holds a slot that its map does not know, or that is a hole.
    #[error("row {row} holds slot {slot}, which is none of the {slots} of the map or holds no value")]
    Slot {
        /// First such row.
        row: usize,
        /// What it holds.
        slot: u32,
        /// Slots of the map.
        slots: usize,
    },
    /// A budget of fewer copies than one per value.
    #[error(
        "a budget of {asked} copies per value was asked for: a value has at least one\n\
         hint: `Budget::copies` of 1 permits no copies, `Budget::unlimited` any number"
    )]
    Budget {
        /// Copies per value.
        asked: f64,
    },
    /// The table does not fit even without copies.
    #[error(
        "{values} values of {slot_bytes} bytes take {needed} bytes of shared memory, of which a block has {limit}\n\
         hint: aggregate in global memory, use fewer groups, or raise the bytes of `Budget::shared_memory`"
    )]
    SharedMemory {
        /// Values.
        values: usize,
        /// Bytes of a slot.
        slot_bytes: u32,
        /// Bytes of one copy of each.
        needed: u64,
        /// Bytes a block may take.
        limit: u64,
    },
    /// Slot numbers are 32 bits wide, and one number marks holes.
    #[error("{values} values were asked for: slot numbers are 32 bits wide and reach {limit}")]
    SlotNumbers {
        /// Values.
        values: usize,
        /// Most slots.
        limit: usize,
    },
    /// A table per value or per slot does not have an entry for each.
    #[error("{given} {what} were passed where there are {expected}")]
    Length {
        /// The table.
        what: &'static str,
        /// How many were passed.
        given: usize,
        /// The number of values or slots.
        expected: usize,
    },
    /// Frequencies that no value can be drawn from.
    #[error("frequencies of {values} values were asked for: {problem}")]
    Frequencies {
        /// Values.
        values: usize,
        /// What is wrong.
        problem: String,
    },
    /// More distinct words in one bank than it has.
    #[error(
        "{degree} rounds per access were asked for, of {banks} banks and {values} values: \
         between 1 and {limit} can be had\nhint: a degree takes as many values per bank"
    )]
    Degree {
        /// Rounds per access.
        degree: usize,
        /// Banks.
        banks: u32,
        /// Values to choose from.
        values: usize,
        /// The largest degree.
        limit: usize,
    },
}
