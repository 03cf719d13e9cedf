//! Forms of a pipeline that a setting can force.

use galatea_base::setting::words;

words! {
    /// How groups are accumulated (`galatea.group_by`).
    GroupBy {
        /// What the model finds cheapest.
        Auto = "auto",
        /// In registers of each thread.
        Registers = "registers",
        /// In shared memory, a copy per thread.
        Threads = "threads",
        /// In shared memory, copies for groups of lanes.
        Copies = "copies",
        /// In shared memory, in the slots of a laid-out column.
        Slots = "slots",
        /// Accumulators in device memory, one set for every possible group.
        Dense = "dense",
        /// A hash table in device memory.
        Hash = "hash",
    }
}

words! {
    /// Which rows of a group are added up before it is updated (`galatea.group_combine`).
    GroupCombine {
        /// What the model finds cheapest.
        Auto = "auto",
        /// None.
        Off = "off",
        /// Consecutive rows of a thread.
        Runs = "runs",
        /// The rows of a warp's lanes.
        Warps = "warps",
    }
}

words! {
    /// Where dimensions are looked up (`galatea.dimensions`).
    DimensionMemory {
        /// In shared memory where they fit and rows are many, by slot if that saves decoding.
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
    /// Where the rows of a filter go before they are returned (`galatea.row_output`).
    RowOutput {
        /// Direct where few rows are expected to pass, the heap otherwise.
        Auto = "auto",
        /// Columns as long as the table, up to a limit at which they are drained.
        Direct = "direct",
        /// Columns of the exact size, after a pass that counts.
        Counted = "counted",
        /// Pages of the device heap, taken as rows come.
        Heap = "heap",
    }
}
