//! Reading the groups of a table, column by column.

use galatea_device::{DevicePointer, Geometry, In, InOut, Out, Result, Stream, kernel_arguments};

use super::{BLOCK, same_length};
use crate::kernel::resident_kernel;

kernel_arguments! {
    /// Arguments of `collect_groups`.
    pub struct CollectGroupsArguments in "galatea/args/collect_groups.h" {
        /// Table read, `[entry][word]`.
        pub table: DevicePointer<u64>,
        /// Groups, `[word][position]`.
        pub groups: DevicePointer<u64>,
        /// Their number.
        pub used: DevicePointer<u64>,
        /// Entries of the table.
        pub entries: u64,
        /// Capacity in groups.
        pub room: u64,
        /// Words of an entry.
        pub words: u32,
        /// The word that is 0 in an entry that is not a group.
        pub marker: u32,
        /// 1: the numbers of entries are the first column.
        pub numbered: u32,
        /// Zero.
        pub padding: u32,
    }
}

resident_kernel! {
    /// Copies the groups of a table into columns.
    CollectGroups, "collect_groups", CollectGroupsArguments
}

/// A table of groups: a hash table with slots that begin with a word that is 0 if they are free, or a dense
/// one, in which the number of an entry is the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEntries {
    /// Words of an entry.
    pub words: u32,
    /// The word that is 0 in an entry that is not a group.
    pub marker: u32,
    /// Whether the number of the entry is a column before its words.
    pub numbered: bool,
}

impl GroupEntries {
    /// Columns of a group.
    #[must_use]
    pub fn columns(self) -> usize {
        self.words as usize + usize::from(self.numbered)
    }
}

impl CollectGroups {
    /// Fills `groups`, `[column][position]`, with the groups of a table; `used`, which must be zero before,
    /// receives their number, even if `groups` is too small for all of them.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::Range`] when the table does not consist of whole entries, or has no
    /// such marker; the device's.
    pub fn launch(
        &self,
        stream: &Stream,
        table: In<'_, u64>,
        groups: Out<'_, u64>,
        used: InOut<'_, u64>,
        entries: GroupEntries,
    ) -> Result<()> {
        let words = entries.words as usize;
        let count = table.len().checked_div(words).unwrap_or(0);
        same_length("words of whole groups", count * words, table.len())?;
        same_length(
            "words with the marker",
            words,
            words.max(entries.marker as usize + 1),
        )?;
        let arguments = CollectGroupsArguments {
            table: table.pointer(),
            groups: groups.pointer(),
            used: used.pointer(),
            entries: count as u64,
            room: (groups.len() / entries.columns()) as u64,
            words: entries.words,
            marker: entries.marker,
            numbered: entries.numbered.into(),
            padding: 0,
        };
        let geometry = Geometry::grid_stride(arguments.entries, BLOCK.into(), BLOCK, self.blocks);
        let references = [table.reference(), groups.reference(), used.reference()];
        self.function.launch(stream, geometry, &arguments, &references)
    }
}
