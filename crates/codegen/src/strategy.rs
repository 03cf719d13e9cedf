//! How a pipeline writes or aggregates its rows.

use super::group_layout::{DenseLayout, SharedLayout};

/// How a pipeline writes or aggregates its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// One group: accumulators in registers.
    Scalar,
    /// Dense groups in shared memory or registers.
    Shared(SharedLayout),
    /// Dense groups updated by atomics in global memory.
    Dense(DenseLayout),
    /// Hash table in global memory.
    Hash {
        /// Whether the lanes of a warp combine their rows of a group before one update.
        warp_aggregated: bool,
        /// Whether rows of new groups may overflow into heap pages; otherwise the table is fully sized.
        overflows: bool,
    },
    /// Rows are appended to output columns, which have the exact size if rows were counted before.
    Append {
        /// Whether a counting pass runs first.
        counted: bool,
    },
    /// Rows are appended to output columns and sorted there by the sort key in the last columns.
    Sort {
        /// Number of columns that are words of the sort key, the most significant first.
        words: usize,
        /// Whether rows are written at their positions in the table, because the table may already be in
        /// order: then the sort is skipped.
        in_order: bool,
    },
    /// Rows are appended to chains of heap pages, one chain per block.
    Chains,
    /// Rows are stored in arrays by key.
    Build,
    /// Groups are aggregated in arrays by key.
    BuildGroups,
    /// Rows are stored by position and grouped by key.
    Multimap,
    /// Rows are stored by position, each with its matches in a multimap.
    Probe,
    /// Rows are stored by position.
    Store,
    /// Matches of a join, and rows with a match, are marked by bits.
    Mark,
    /// Rows are stored by position, those of a partition next to each other.
    Partition {
        /// Number of partitions.
        parts: u32,
        /// Threads of a block.
        block: u32,
    },
    /// Rows are stored by position and sorted by the words in the last columns, for window functions.
    Windows {
        /// Number of words of the sort key.
        words: usize,
    },
}

impl Strategy {
    /// Whether the strategy uses more memory than it requires, to save time.
    pub fn uses_optional_memory(&self) -> bool {
        match self {
            Self::Hash { overflows, .. } => !overflows,
            Self::Dense(layout) => layout.copies > 1,
            Self::Scalar
            | Self::Shared(_)
            | Self::Append { .. }
            | Self::Sort { .. }
            | Self::Chains
            | Self::Build
            | Self::BuildGroups
            | Self::Multimap
            | Self::Probe
            | Self::Store
            | Self::Mark
            | Self::Partition { .. }
            | Self::Windows { .. } => false,
        }
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar => write!(f, "scalar"),
            Self::Shared(layout) => layout.fmt(f),
            Self::Dense(layout) => layout.fmt(f),
            Self::Hash {
                overflows,
                warp_aggregated,
            } => {
                let size = if *overflows { "" } else { ", fully sized" };
                let aggregated = if *warp_aggregated { ", warp-aggregated" } else { "" };
                write!(f, "hash table{size}{aggregated}")
            }
            Self::Append { counted: false } => write!(f, "append"),
            Self::Append { counted: true } => write!(f, "append after counting"),
            Self::Sort { words, in_order } => {
                match words {
                    1 => write!(f, "append, then sort by a word")?,
                    words => write!(f, "append, then sort by {words} words")?,
                }
                match in_order {
                    true => write!(f, " unless the table is in order"),
                    false => Ok(()),
                }
            }
            Self::Chains => write!(f, "page chains"),
            Self::Build => write!(f, "arrays by key"),
            Self::BuildGroups => write!(f, "groups by key"),
            Self::Multimap => write!(f, "multimap by key"),
            Self::Probe => write!(f, "rows with their lists"),
            Self::Store => write!(f, "rows by position"),
            Self::Mark => write!(f, "marks"),
            Self::Partition { parts, block } => write!(f, "{parts} partitions, blocks of {block} threads"),
            Self::Windows { words: 0 } => write!(f, "rows of a window"),
            Self::Windows { words: 1 } => write!(f, "rows of a window, sorted by a word"),
            Self::Windows { words } => write!(f, "rows of a window, sorted by {words} words"),
        }
    }
}
