//! A sink's contents after its last launch: the input of results.

use crate::joins::build_table::BuiltTable;
use crate::string::interned::TextsAtPlaces;
use galatea_device::DeviceBuffer;
use galatea_memory::regions::WorkingRegion;
use std::ops::Range;

/// Which memory groups are read from.
#[derive(Debug)]
pub(crate) enum GroupStorage {
    /// The host: words, `[group][word]`.
    Host(Vec<u64>),
    /// Device memory, `[group][word]` in those words of the buffer.
    Fixed(WorkingRegion<u64>, Range<usize>),
    /// Device memory, `[word][group]`, key words included.
    Collected(DeviceBuffer<u64>),
    /// Device memory, `[word][group]`, behind the numbers of the groups.
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
    /// The groups, if it is not rows that were collected.
    pub groups: GroupStorage,
    /// Rows that passed the filters.
    pub rows_passed: u64,
    /// First error raised, or 0.
    pub error: u32,
    /// Bytes read back.
    pub bytes: u64,
    /// Texts of group keys and of accumulators that have no dictionary.
    pub texts: TextsAtPlaces,
    /// The build side, if it is one.
    pub built: Option<BuiltTable>,
}
