//! A sink's contents after its last launch: the input of results.

use crate::joins::build_table::BuiltTable;
use crate::string::interned::StringsAtPlaces;
use galatea_device::DeviceBuffer;
use galatea_memory::regions::WorkingRegion;
use std::ops::Range;

/// The memory that holds the groups.
#[derive(Debug)]
pub(crate) enum GroupStorage {
    /// The host: words, `[group][word]`.
    Host(Vec<u64>),
    /// Device memory, `[group][word]`, in this range of words of the buffer.
    Fixed(WorkingRegion<u64>, Range<usize>),
    /// Device memory, `[word][group]`, key words included.
    Collected(DeviceBuffer<u64>),
    /// Device memory, `[word][group]`, after the numbers of the groups.
    Numbered(DeviceBuffer<u64>),
}

impl Default for GroupStorage {
    fn default() -> Self {
        Self::Host(Vec::new())
    }
}

/// A sink's contents.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The groups, unless rows were collected.
    pub groups: GroupStorage,
    /// Number of rows that passed the filters.
    pub rows_passed: u64,
    /// First error raised, or 0.
    pub error: u32,
    /// Number of bytes read back.
    pub bytes: u64,
    /// Strings of group keys and of accumulators without a dictionary.
    pub texts: StringsAtPlaces,
    /// The build side, if the sink is one.
    pub built: Option<BuiltTable>,
}
