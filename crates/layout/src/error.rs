//! Errors of this crate: requests that cannot be satisfied.

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
        /// The number requested.
        asked: u32,
        /// The maximum.
        limit: u32,
    },
    /// A dimension of an access pattern is not a multiple of the required number.
    #[error(
        "an access pattern of {asked} {what} was asked for: it must be a positive multiple of {multiple}\n\
         hint: {hint}"
    )]
    Shape {
        /// The dimension.
        what: &'static str,
        /// Its value.
        asked: usize,
        /// The required divisor of the value.
        multiple: usize,
        /// The unit of the multiple.
        hint: &'static str,
    },
    /// A column contains a number that is not below the number of its values.
    #[error(
        "row {row} of the column holds {value}, but the column was said to have {values} values\n\
         hint: values are consecutive codes from 0; pass the largest code plus one"
    )]
    Value {
        /// The first such row.
        row: usize,
        /// The row's value.
        value: u32,
        /// The number of values given.
        values: usize,
    },
    /// A rewritten column contains a slot that is not in its map, or that is a hole.
    #[error("row {row} holds slot {slot}, which is none of the {slots} of the map or holds no value")]
    Slot {
        /// The first such row.
        row: usize,
        /// The row's slot.
        slot: u32,
        /// Number of slots of the map.
        slots: usize,
    },
    /// A budget allows less than one copy per value.
    #[error(
        "a budget of {asked} copies per value was asked for: a value has at least one\n\
         hint: `Budget::copies` of 1 permits no copies, `Budget::unlimited` any number"
    )]
    Budget {
        /// Copies per value.
        asked: f64,
    },
    /// The table does not fit, even without copies.
    #[error(
        "{values} values of {slot_bytes} bytes take {needed} bytes of shared memory, of which a block has {limit}\n\
         hint: aggregate in global memory, use fewer groups, or raise the bytes of `Budget::shared_memory`"
    )]
    SharedMemory {
        /// Number of values.
        values: usize,
        /// Bytes of a slot.
        slot_bytes: u32,
        /// Bytes of the table with one copy of each value.
        needed: u64,
        /// The most bytes that a block may use.
        limit: u64,
    },
    /// Slot numbers are 32 bits wide, and one number marks holes.
    #[error("{values} values were asked for: slot numbers are 32 bits wide and reach {limit}")]
    SlotNumbers {
        /// Number of values.
        values: usize,
        /// The most slots.
        limit: usize,
    },
    /// A table does not have one entry per value or per slot.
    #[error("{given} {what} were passed where there are {expected}")]
    Length {
        /// The table.
        what: &'static str,
        /// The length passed.
        given: usize,
        /// The number of values or slots.
        expected: usize,
    },
    /// Frequencies that do not allow drawing values.
    #[error("frequencies of {values} values were asked for: {problem}")]
    Frequencies {
        /// Number of values.
        values: usize,
        /// The problem.
        problem: String,
    },
    /// An access cannot touch that number of distinct words in one bank.
    #[error(
        "{degree} rounds per access were asked for, of {banks} banks and {values} values: \
         between 1 and {limit} can be had\nhint: a degree takes as many values per bank"
    )]
    Degree {
        /// Rounds per access.
        degree: usize,
        /// Banks.
        banks: u32,
        /// Number of values to choose from.
        values: usize,
        /// The largest degree.
        limit: usize,
    },
}
