//! How a pipeline collects its rows.

use super::group_layout::{DenseLayout, SharedLayout};

/// How a pipeline collects its rows.
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
        /// Whether rows of new groups may overflow into heap pages; otherwise it is fully sized.
        overflows: bool,
    },
    /// Rows are appended to output columns, of the exact size when they were counted before.
    Append {
        /// Whether a pass counts first.
        counted: bool,
    },
    /// Rows are appended to output columns, and sorted there by the last of them.
    Sort {
        /// How many of the columns are words of the order, the most significant first.
        words: usize,
        /// Whether rows keep the places that they have in their table, since they may be in order there.
        in_order: bool,
    },
    /// Rows are appended to chains of heap pages, one chain a block.
    Chains,
    /// Rows are stored in arrays by key.
    Build,
    /// Groups are collected in arrays by key.
    BuildGroups,
    /// Rows are stored by position, and listed by key.
    Lists,
    /// Rows are stored by position, with the list of their partners.
    Probe,
    /// Rows are stored by position.
    Store,
    /// Pairs and rows are marked.
    Mark,
    /// Rows are stored by position, those of a partition next to each other.
    Partition {
        /// Number of partitions.
        parts: u32,
        /// Threads of a block.
        block: u32,
    },
    /// Rows are stored by position, and sorted by the last of them for windows over them.
    Windows {
        /// Words of the order.
        words: usize,
    },
}

impl Strategy {
    /// Whether it uses memory that a query could do without, at the price of time.
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
            | Self::Lists
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
            Self::Lists => write!(f, "lists by key"),
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
