//! The device heap in kernel arguments, and how device code that uses it is compiled.
//!
//! The heap itself, its memory and its reports, is `galatea_memory::DeviceHeap`; the algorithms and their
//! guarantees are in `cuda/galatea/heap/view.cuh` and the headers beside it.

use galatea_device::{DevicePointer, kernel_arguments};

/// Pages of a superblock: one coalesced load of a warp covers them with one bit each.
pub const SUPERBLOCK_PAGES: u64 = 2048;
/// Superblocks of a group, which is one bit of the summary.
pub const GROUP_SUPERBLOCKS: u64 = 32;
/// Balances are padded to a multiple of this, the number that a warp loads at once in a sweep.
pub const SWEEP_BALANCES: u64 = 128;
/// Words of a heap's status: errors, cursors, counters.
pub const STATUS_WORDS: usize = 16;
/// Minimum number of rows of a page of a chain: those of a warp.
pub const MIN_PAGE_ROWS: u64 = 32;
/// Words of a page's header in a chain.
pub const PAGE_HEADER_WORDS: u64 = 2;

kernel_arguments! {
    /// A heap, by value in kernel arguments; the fields are those of `HeapView` in `galatea/heap/view.cuh`.
    pub struct HeapView in "galatea/heap/view.cuh" {
        /// First page.
        pub pages: DevicePointer<u8>,
        /// One bit per page, 1 = free.
        pub bitmap: DevicePointer<u64>,
        /// One word per superblock.
        pub balances: DevicePointer<u64>,
        /// One bit per group.
        pub summary: DevicePointer<u64>,
        /// Words of the search.
        pub own: DevicePointer<u64>,
        /// [`STATUS_WORDS`] words.
        pub status: DevicePointer<u64>,
        /// Pages.
        pub page_count: u64,
        /// `2^64 / page_bytes`, rounded up.
        pub reciprocal: u64,
        /// Differs for every launch.
        pub seed: u64,
        /// Bytes of a page.
        pub page_bytes: u32,
        /// Superblocks, the last one perhaps partial.
        pub superblocks: u32,
        /// Groups, the last one perhaps partial.
        pub groups: u32,
        /// Probes before a sweep.
        pub probes: u32,
    }
}

kernel_arguments! {
    /// A block's chain of pages between launches; `PageChain` in `galatea/page_chain.cuh`.
    pub struct PageChain in "galatea/page_chain.cuh" {
        /// First page; all ones: the chain is empty.
        pub first: u64,
        /// Last page.
        pub last: u64,
        /// Rows of all its pages.
        pub rows: u64,
        /// The block's first morsel when it resumes.
        pub morsel: u64,
    }
}

impl PageChain {
    /// A chain without pages; its block begins with `morsel`.
    #[must_use]
    pub fn empty(morsel: u64) -> Self {
        Self {
            first: u64::MAX,
            last: u64::MAX,
            rows: 0,
            morsel,
        }
    }
}

kernel_arguments! {
    /// The chains of a launch, one per block, by value in kernel arguments; `PageChainsView` in
    /// `galatea/page_chain.cuh`.
    pub struct PageChainsView in "galatea/page_chain.cuh" {
        /// The heap of the pages.
        pub heap: HeapView,
        /// One per block.
        pub chains: DevicePointer<PageChain>,
        /// Two words: rows of truncated morsels, blocks that stopped.
        pub overflow: DevicePointer<u64>,
        /// Rows of a page.
        pub page_rows: u32,
        /// Words of a row.
        pub words: u32,
        /// Chains.
        pub count: u32,
        /// 1: blocks begin at the morsel in their chains.
        pub resume: u32,
    }
}

/// How a heap finds a free page. A program contains one page search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PageSearch {
    /// One reservation and one claim per warp, from a coalesced window of the bitmap; exact exhaustion by
    /// balances of superblocks. Our own search, after Pham et al. 2022 §4.1, Ashkiani et al. 2018 (SlabAlloc)
    /// and Gelado and Garland 2019.
    #[default]
    Window,
    /// RW: a flag per page, one random page per step. Pham et al. 2022, §3.1, Algorithm 1.
    RandomWalk,
    /// RW-BM: a bitmap, one random word of 32 bits per step. Pham et al. 2022, §4.1.
    RandomWalkBitmap32,
    /// RW-BM with words of 64 bits.
    RandomWalkBitmap64,
    /// CoRW: lanes lock random words of 32 bits and share the pages found. Pham et al. 2022, §4.2, Algorithm
    /// 2.
    Collaborative32,
    /// CoRW with words of 64 bits.
    Collaborative64,
    /// RW_malloc: blocks of consecutive pages of any number. Pham et al. 2022, §4.3, Algorithm 3.
    Runs,
    /// A ring of free page numbers behind two global counters: the baseline with a central structure, after
    /// the idea of Ouroboros (Winter et al. 2020).
    Queue,
    /// One atomic addition per warp and no reuse: the lower bound. "Direct Output Buffer" of Pham et al.
    /// 2022, §5.2.3.
    Bump,
}

impl PageSearch {
    /// All searches, in the order of their numbers in device code.
    pub const ALL: [Self; 9] = [
        Self::Window,
        Self::RandomWalk,
        Self::RandomWalkBitmap32,
        Self::RandomWalkBitmap64,
        Self::Collaborative32,
        Self::Collaborative64,
        Self::Runs,
        Self::Queue,
        Self::Bump,
    ];

    /// Its number in device code, `GALATEA_HEAP_SEARCH`.
    #[must_use]
    pub fn number(self) -> usize {
        Self::ALL
            .iter()
            .position(|search| *search == self)
            .unwrap_or_default()
    }

    /// Its name in tables, the paper's if it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::RandomWalk => "RW",
            Self::RandomWalkBitmap32 => "RW-BM32",
            Self::RandomWalkBitmap64 => "RW-BM64",
            Self::Collaborative32 => "CoRW32",
            Self::Collaborative64 => "CoRW64",
            Self::Runs => "RW_malloc",
            Self::Queue => "queue",
            Self::Bump => "bump",
        }
    }

    /// Number of pages that a step of a random walk checks: 1, or the bits of a bitmap word. `None` for
    /// searches that do not walk at random.
    #[must_use]
    pub fn walk_width(self) -> Option<u32> {
        match self {
            Self::RandomWalk => Some(1),
            Self::RandomWalkBitmap32 | Self::Collaborative32 => Some(32),
            Self::RandomWalkBitmap64 | Self::Collaborative64 | Self::Runs => Some(64),
            Self::Window | Self::Queue | Self::Bump => None,
        }
    }

    /// Whether it reuses freed pages; the bump search does not.
    #[must_use]
    pub fn reuses(self) -> bool {
        self != Self::Bump
    }

    /// Number of words that it keeps in addition to bitmap, balances and summary, for a number of pages.
    #[must_use]
    pub fn own_words(self, pages: u64) -> u64 {
        match self {
            Self::Window | Self::RandomWalkBitmap32 | Self::RandomWalkBitmap64 | Self::Bump => 0,
            Self::RandomWalk => pages.div_ceil(2),
            Self::Collaborative32 => pages.div_ceil(32).div_ceil(64),
            Self::Collaborative64 => pages.div_ceil(64).div_ceil(64),
            Self::Runs => 2 * pages.div_ceil(64),
            Self::Queue => pages,
        }
    }
}

impl std::fmt::Display for PageSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The preprocessor definition of the checking mode.
pub(crate) const HEAP_CHECK: &str = "GALATEA_HEAP_CHECK";

/// How device code that uses a heap is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeapBuild {
    /// The one page search.
    pub search: PageSearch,
    /// Record foreign pointers, double frees and sizes that are too large in the status.
    pub check: bool,
    /// Count steps, atomics and collisions of allocations in the status.
    pub count: bool,
}

impl HeapBuild {
    /// Its compiler options, for any program that includes `galatea/heap.cuh`.
    #[must_use]
    pub fn options(self) -> Vec<String> {
        let definitions = self.definitions().into_iter();
        definitions
            .map(|(name, value)| match value {
                Some(value) => format!("-D{name}={value}"),
                None => format!("-D{name}"),
            })
            .collect()
    }

    /// The same options as preprocessor definitions (name, value), for a source that includes
    /// `galatea/heap.cuh`.
    #[must_use]
    pub fn definitions(self) -> Vec<(&'static str, Option<usize>)> {
        let mut definitions = vec![("GALATEA_HEAP_SEARCH", Some(self.search.number()))];
        if self.check {
            definitions.push((HEAP_CHECK, None));
        }
        if self.count {
            definitions.push(("GALATEA_HEAP_COUNT", None));
        }
        definitions
    }
}
