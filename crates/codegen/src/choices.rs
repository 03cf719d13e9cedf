//! Pipeline variants that a setting can force.

use galatea_base::setting::words;
use galatea_kernels::heap::PageSearch;

words! {
    /// How groups are accumulated (`galatea.aggregate.strategy`).
    GroupBy {
        /// The strategy with the lowest estimated cost.
        Auto = "auto",
        /// In registers of each thread.
        Registers = "registers",
        /// In shared memory, one copy per thread.
        Threads = "threads",
        /// In shared memory, with copies shared by groups of lanes.
        Copies = "copies",
        /// In shared memory, in the slots of a laid-out column.
        Slots = "slots",
        /// In device memory, one set of accumulators for every possible group.
        Dense = "dense",
        /// A hash table in device memory.
        Hash = "hash",
    }
}

words! {
    /// Pre-aggregation of rows of a group before the group is updated (`galatea.aggregate.preaggregation`).
    GroupCombine {
        /// The variant with the lowest estimated cost.
        Auto = "auto",
        /// No pre-aggregation.
        Off = "off",
        /// Consecutive rows of a thread.
        Runs = "runs",
        /// The rows of a warp's lanes.
        Warps = "warps",
    }
}

words! {
    /// The memory that holds build sides for lookups (`galatea.join.lookup_memory`).
    LookupMemory {
        /// In shared memory if the build side fits and rows are many, by slot if that saves decoding.
        Auto = "auto",
        /// In device memory, through the cache.
        Cache = "cache",
        /// In shared memory, by key.
        Shared = "shared",
        /// In shared memory, by the slots of a laid-out column.
        Slots = "slots",
    }
}

words! {
    /// When a kernel loads columns that later conditions or the output need (`galatea.tuning.selection`).
    Selection {
        /// Together with earlier columns, unless the conditions before are expected to leave enough memory
        /// unread.
        Auto = "auto",
        /// Only for rows that pass the conditions before.
        Branch = "branch",
        /// For all rows, together with the columns of all conditions.
        Predicate = "predicate",
    }
}

words! {
    /// Where the rows of a filter are written before they are returned (`galatea.tuning.row_output`).
    RowOutput {
        /// Direct if few rows are expected to pass, the heap otherwise.
        Auto = "auto",
        /// Columns as long as the table, up to a limit at which they are drained.
        Direct = "direct",
        /// Columns of the exact size, after a counting pass.
        Counted = "counted",
        /// Pages of the device heap, allocated on demand.
        Heap = "heap",
    }
}

words! {
    /// How a warp finds free pages for rows (`galatea.tuning.page_search`).
    PageSearchChoice {
        /// The window search.
        Auto = "auto",
        /// [`PageSearch::Window`].
        Window = "window",
        /// [`PageSearch::RandomWalk`].
        RandomWalk = "random-walk",
        /// [`PageSearch::RandomWalkBitmap32`].
        RandomWalkBitmap32 = "random-walk-bitmap-32",
        /// [`PageSearch::RandomWalkBitmap64`].
        RandomWalkBitmap64 = "random-walk-bitmap-64",
        /// [`PageSearch::Collaborative32`].
        Collaborative32 = "collaborative-32",
        /// [`PageSearch::Collaborative64`].
        Collaborative64 = "collaborative-64",
        /// [`PageSearch::Runs`]. Rows request runs of one page.
        Runs = "runs",
        /// [`PageSearch::Queue`].
        Queue = "queue",
        /// [`PageSearch::Bump`].
        Bump = "bump",
    }
}

impl PageSearchChoice {
    /// The search of the heaps of a session.
    #[must_use]
    pub fn search(self) -> PageSearch {
        match self {
            Self::Auto | Self::Window => PageSearch::Window,
            Self::RandomWalk => PageSearch::RandomWalk,
            Self::RandomWalkBitmap32 => PageSearch::RandomWalkBitmap32,
            Self::RandomWalkBitmap64 => PageSearch::RandomWalkBitmap64,
            Self::Collaborative32 => PageSearch::Collaborative32,
            Self::Collaborative64 => PageSearch::Collaborative64,
            Self::Runs => PageSearch::Runs,
            Self::Queue => PageSearch::Queue,
            Self::Bump => PageSearch::Bump,
        }
    }
}
