//! The device heap: a pool of equal pages that running kernels allocate and free.
//!
//! A kernel that produces an unknown number of rows either counts them first in a separate pass, or gets
//! memory for the worst case, or allocates memory while it runs. The heap serves the third method. The host
//! creates a [`DeviceHeap`], passes its view ([`DeviceHeap::view`]) to a kernel that was compiled with its
//! options ([`DeviceHeap::options`]), and reads the number of remaining pages afterwards.
//!
//! ```text
//!   budget ── one DeviceBuffer: pages            handed out, never accessed by the heap
//!          └─ one DeviceBuffer: the heap's own   status | bitmap | balances | summary | words of the search
//! ```
//!
//! Both are charged to the device-memory budget when the heap is created; nothing is allocated later. The
//! heap's own memory is about 1/64 byte per page (and [`PageSearch::own_words`]).
//!
//! The guarantees of all searches, and the memory order that callers must provide, are documented in
//! `cuda/galatea/heap/view.cuh` of the kernels crate.

use std::sync::atomic::{AtomicU64, Ordering};

use galatea_device::{Device, DeviceBuffer, DevicePointer, In, InOut, Stream};
use galatea_kernels::heap::{
    GROUP_SUPERBLOCKS, HeapBuild, HeapView, PageSearch, STATUS_WORDS, SUPERBLOCK_PAGES, SWEEP_BALANCES,
};
use galatea_kernels::{HeapCounts, HeapReset, HeapVerify};

use crate::regions::WorkingRegion;
use crate::{HeapError, Result};

/// Page sizes are multiples of this many bytes.
const PAGE_MULTIPLE: u64 = 8;
/// Greatest page size in bytes.
const MOST_PAGE_BYTES: u64 = 1 << 24;
/// The most pages: page numbers and two more values fit 32 bits, and half their number fits the balance of a
/// queue.
const MOST_PAGES: u64 = (1 << 31) - 1;

/// Settings of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapOptions {
    /// Bytes of a page: a multiple of 8 up to 16 MiB. Default 4096.
    pub page_bytes: u64,
    /// Compile-time options of device code that uses the heap: search, checks, counters.
    pub build: HeapBuild,
    /// The most probes of one call before it sweeps the pool, for the searches that walk at random. Default
    /// 4096. The published algorithms probe for ever.
    pub probes: u32,
    /// Seed of the random walks of launches. Every view uses another seed. Default 1.
    pub seed: u64,
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            build: HeapBuild::default(),
            probes: 4096,
            seed: 1,
        }
    }
}

impl HeapOptions {
    /// Options with that page size.
    #[must_use]
    pub fn pages_of(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            ..Self::default()
        }
    }

    /// Sets the page search.
    #[must_use]
    pub fn search(mut self, search: PageSearch) -> Self {
        self.build.search = search;
        self
    }

    /// Enables checks for foreign pointers, double frees and excessive sizes.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.build.check = true;
        self
    }

    /// Enables counters of steps, atomics and collisions.
    #[must_use]
    pub fn counted(mut self) -> Self {
        self.build.count = true;
        self
    }
}

/// Start of each part of the heap's own memory, in words.
#[derive(Debug, Clone, Copy)]
struct Layout {
    bitmap: usize,
    balances: usize,
    summary: usize,
    own: usize,
    words: usize,
}

impl Layout {
    fn new(pages: u64, search: PageSearch) -> Self {
        let superblocks = pages.div_ceil(SUPERBLOCK_PAGES);
        let sizes = [
            STATUS_WORDS as u64,
            superblocks * SUPERBLOCK_PAGES / 64,
            superblocks.next_multiple_of(SWEEP_BALANCES),
            superblocks
                .div_ceil(GROUP_SUPERBLOCKS)
                .div_ceil(64)
                .next_multiple_of(32),
            search.own_words(pages),
        ];
        let mut end = 0;
        let [_, bitmap, balances, summary, own] = sizes.map(|size| {
            let begin = end;
            // There are at most 2^31 pages, so every part is addressable.
            end += usize::try_from(size).unwrap_or(usize::MAX);
            begin
        });
        Self {
            bitmap,
            balances,
            summary,
            own,
            words: end,
        }
    }
}

/// A pool of pages on a device. Work on it is ordered by one stream, its home. Kernels on other streams may
/// use it after [`DeviceHeap::view_on`].
#[derive(Debug)]
pub struct DeviceHeap {
    pages: WorkingRegion<u64>,
    /// Word of the buffer at which the first page begins.
    first_word: u64,
    page_count: u64,
    own: DeviceBuffer<u64>,
    layout: Layout,
    options: HeapOptions,
    views: AtomicU64,
    reset: HeapReset,
}

impl DeviceHeap {
    /// Creates a heap of all whole pages that fit into `bytes`, all free.
    ///
    /// # Errors
    /// [`HeapError::PageSize`], [`HeapError::PageCount`]; [`galatea_device::DeviceError::OutOfMemory`] if the
    /// budget has too little for pages and bitmap.
    pub fn new(device: &Device, stream: &Stream, bytes: u64, options: HeapOptions) -> Result<Self> {
        let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        pages_of(bytes / 8 * 8, options.page_bytes)?;
        let pages = device.alloc::<u64>(stream, words)?.assume_written();
        Self::over(device, stream, pages, .., options)
    }

    /// Creates a heap over a range of a buffer or working region, which it owns from now on, with all pages
    /// free. Only the heap's own words are allocated.
    ///
    /// # Errors
    /// Those of [`DeviceHeap::new`]; [`galatea_device::DeviceError::Range`] if the range is not in the
    /// buffer.
    pub fn over(
        device: &Device,
        stream: &Stream,
        memory: impl Into<WorkingRegion<u64>>,
        range: impl std::ops::RangeBounds<usize>,
        options: HeapOptions,
    ) -> Result<Self> {
        let memory = memory.into();
        let pages = memory.slice(range)?;
        let first_word = (pages.address() - memory.address()) / 8;
        let page_count = pages_of(pages.bytes(), options.page_bytes)?;
        let layout = Layout::new(page_count, options.build.search);
        let mut heap = Self {
            first_word,
            page_count,
            own: device.alloc(stream, layout.words)?.assume_written(),
            pages: memory,
            layout,
            options,
            views: AtomicU64::new(0),
            reset: HeapReset::new(device)?,
        };
        heap.reset(stream)?;
        Ok(heap)
    }

    /// Number of pages.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.options.page_bytes
    }

    /// Bytes of the heap besides its pages.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        self.own.bytes()
    }

    /// The page search.
    #[must_use]
    pub fn search(&self) -> PageSearch {
        self.options.build.search
    }

    /// The compile-time options of kernels that use the heap.
    #[must_use]
    pub fn build(&self) -> HeapBuild {
        self.options.build
    }

    /// The compiler options of programs that use the heap.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        self.options.build.options()
    }

    /// Address of the first page.
    #[must_use]
    pub fn first_page(&self) -> u64 {
        self.pages.address() + 8 * self.first_word
    }

    /// The buffer that contains the pages.
    #[must_use]
    pub fn memory(&self) -> &DeviceBuffer<u64> {
        &self.pages
    }

    /// The region that contains the pages. While it is parked, the heap cannot be used. Pages are identified
    /// by number, so they may return at another address.
    pub fn region(&mut self) -> &mut WorkingRegion<u64> {
        &mut self.pages
    }

    /// The by-value argument of a kernel on the home stream. Each view has a seed of its own, so that
    /// launches walk differently.
    #[must_use]
    pub fn view(&self) -> HeapView {
        let launch = self.views.fetch_add(1, Ordering::Relaxed);
        let superblocks = self.page_count.div_ceil(SUPERBLOCK_PAGES);
        let part = |word: usize| DevicePointer::new(self.own.address() + 8 * word as u64);
        // Both are at most MOST_PAGES, and page sizes at most MOST_PAGE_BYTES.
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        HeapView {
            pages: DevicePointer::new(self.first_page()),
            bitmap: part(self.layout.bitmap),
            balances: part(self.layout.balances),
            summary: part(self.layout.summary),
            own: part(self.layout.own),
            status: part(0),
            page_count: self.page_count,
            reciprocal: u64::MAX / self.options.page_bytes + 1,
            seed: self.options.seed.wrapping_add(launch),
            page_bytes: small(self.options.page_bytes),
            superblocks: small(superblocks),
            groups: small(superblocks.div_ceil(GROUP_SUPERBLOCKS)),
            probes: self.options.probes,
        }
    }

    /// Like [`DeviceHeap::view`], for kernels on any stream: their work is ordered after the work that the
    /// home stream has queued for the heap's memory so far, and the memory is freed after it.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn view_on(&self, stream: &Stream) -> Result<HeapView> {
        self.pages.used_by(stream)?;
        self.own.used_by(stream)?;
        Ok(self.view())
    }

    /// Frees all pages and resets errors and counters. The content of pages stays.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn reset(&mut self, stream: &Stream) -> Result<()> {
        self.clear(stream)?;
        let view = self.view_on(stream)?;
        Ok(self.reset.launch(stream, view, self.search(), None)?)
    }

    /// Like [`DeviceHeap::reset`], but only pages with bit 1 are free: page `p` is bit `p % 64` of word `p /
    /// 64`. The others count as allocated.
    ///
    /// # Errors
    /// [`HeapError::FreeBits`] unless `free` has one bit per page (rounded up to words); the errors of the
    /// device.
    pub fn reset_to(&mut self, stream: &Stream, free: &DeviceBuffer<u64>) -> Result<()> {
        let expected = self.page_count.div_ceil(64);
        if free.len() as u64 != expected {
            return Err(HeapError::FreeBits {
                words: free.len() as u64,
                pages: self.page_count,
                expected,
            });
        }
        self.clear(stream)?;
        let view = self.view_on(stream)?;
        Ok(self.reset.launch(stream, view, self.search(), Some(In(free)))?)
    }

    fn clear(&mut self, stream: &Stream) -> Result<()> {
        let (bitmap, balances) = (self.layout.bitmap, self.layout.balances);
        stream.fill(self.own.slice_mut(..bitmap)?, 0)?;
        Ok(stream.fill(self.own.slice_mut(balances..)?, 0)?)
    }

    /// Counts the free pages and compares figures that should be equal. Waits for the stream. For searches
    /// that count free pages: neither the bump search, nor a queue without checks.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn verify(&self, device: &Device, stream: &Stream) -> Result<HeapCounts> {
        let mut result = device.zeroed::<u64>(stream, HeapCounts::WORDS)?;
        HeapVerify::new(device)?.launch(stream, self.view_on(stream)?, self.search(), InOut(&mut result))?;
        let mut words = [0; HeapCounts::WORDS];
        stream.read_into(&result, &mut words)?;
        Ok(HeapCounts::from_words(words))
    }

    /// Errors and counters since the last reset. Waits for the stream.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn statistics(&self, stream: &Stream) -> Result<HeapStatistics> {
        let mut words = [0u64; STATUS_WORDS];
        stream.read_into(self.own.slice(..STATUS_WORDS)?, &mut words)?;
        Ok(HeapStatistics::from_words(&words))
    }

    /// Resets errors and counters, but not allocations.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn forget_statistics(&mut self, stream: &Stream) -> Result<()> {
        stream.fill(self.own.slice_mut(..2)?, 0)?;
        Ok(stream.fill(self.own.slice_mut(4..STATUS_WORDS)?, 0)?)
    }
}

/// The number of pages of a pool.
fn pages_of(bytes: u64, page_bytes: u64) -> Result<u64> {
    if !(PAGE_MULTIPLE..=MOST_PAGE_BYTES).contains(&page_bytes) || !page_bytes.is_multiple_of(PAGE_MULTIPLE) {
        return Err(HeapError::PageSize {
            page_bytes,
            multiple: PAGE_MULTIPLE,
            least: PAGE_MULTIPLE,
            most: MOST_PAGE_BYTES,
        });
    }
    let pages = bytes / page_bytes;
    if (1..=MOST_PAGES).contains(&pages) {
        return Ok(pages);
    }
    let hint = if pages == 0 {
        "give it more memory or smaller pages"
    } else {
        "give it larger pages"
    };
    Err(HeapError::PageCount {
        bytes,
        page_bytes,
        pages,
        limit: MOST_PAGES,
        hint,
    })
}

pub mod sizing;
mod statistics;
pub use statistics::{HeapFaults, HeapStatistics};
