//! An unknown number of rows in pages of a device heap: output rows, or partial groups that did not fit a
//! hash table. This needs one pass over the input and no memory for the worst case, and the host is involved
//! only when the heap is exhausted.

use crate::device::{DeviceRuntime, RunError};
use crate::report::{PageAllocations, RunReport};
use crate::rows::memory;
use galatea_base::policy::policy;
use galatea_codegen::sink::chains::WARP_ROWS;
use galatea_device::{Access, Stream};
use galatea_kernels::heap::{HeapBuild, PAGE_HEADER_WORDS, PageChainsView};
use galatea_memory::regions::Use;
use galatea_memory::sizing::Pool;
use galatea_memory::{DeviceHeap, GatheredRows, HeapError, HeapOptions, RowChains};

policy! {
    /// The heap with the pages of rows.
    pub(crate) struct RowHeapPolicy {
        /// Bytes of a page for short rows.
        page_bytes: u64 = 16 << 10,
        /// Maximum bytes of a heap that is kept for the next query.
        kept_bytes: u64 = 2 << 30,
        /// Mean number of steps of the random walk to the last page that the expected rows need.
        walk_steps: f64 = 2.0,
    }
}

const POLICY: RowHeapPolicy = RowHeapPolicy::DEFAULT;

/// The required capacity of a heap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// How the kernel's use of the heap is compiled.
    pub build: HeapBuild,
    /// Number of 64-bit words per row.
    pub words: u32,
    /// Expected number of rows.
    pub rows: u64,
    /// Number of rows of a block that are stored all or none; 0 if rows are stored one by one.
    pub morsel_rows: u64,
    /// Maximum bytes of the heap, besides the limit of a third of the available memory.
    pub bytes: u64,
}

/// The heap of a run, with a chain of pages for each block.
#[derive(Debug)]
pub(crate) struct RowHeap {
    pub(crate) heap: DeviceHeap,
    pub(crate) chains: RowChains,
    /// Whether the next launch continues one that stopped.
    pub(crate) resume: bool,
}

impl RowHeap {
    /// A heap for a run by at most `grid` blocks, and the number of blocks that it serves. It holds at least
    /// one morsel of each block, so that a run that stops can continue.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        owner: u64,
        demand: Demand,
        grid: u32,
    ) -> Result<(Self, u32), RunError> {
        let needed = 8 * (PAGE_HEADER_WORDS + WARP_ROWS * u64::from(demand.words));
        let page_bytes = POLICY.page_bytes.max(needed.next_multiple_of(1024));
        let page_rows = u64::from(RowChains::page_rows(page_bytes, demand.words)?);
        let device = runtime.device();
        // A third each for the pages, for their contents when gathered, and for chunks in transfer.
        let share = (runtime.room() / 3).min(demand.bytes) / page_bytes;
        let of_morsel = demand.morsel_rows.div_ceil(page_rows) + 1;
        let grid = grid.min(u32::try_from(share / of_morsel).unwrap_or(u32::MAX).max(1));
        let least = u64::from(grid) * of_morsel;
        let most = demand.rows.div_ceil(page_rows) + 2 * u64::from(grid);
        let most = match demand.build.search.walk_width() {
            Some(width) => Pool::for_walks(most, width, POLICY.walk_steps).pages,
            None => most,
        };
        let bytes = most.min(share).max(least) * page_bytes;
        let kept = runtime.memory().take_spare(|kept: &Self| {
            kept.chains.shape() == (grid as usize, demand.words)
                && kept.heap.page_bytes() == page_bytes
                && kept.heap.build() == demand.build
                && kept.heap.memory().bytes() >= bytes
        });
        if let Some(mut kept) = kept {
            kept.heap.region().set_owner(Some(owner));
            return Ok((kept, grid));
        }
        let made = runtime.making_room(|| {
            let pages = device
                .alloc::<u64>(stream, (bytes / 8) as usize)?
                .assume_written();
            let pages = runtime.memory().working(owner, "pages for rows", pages);
            let options = HeapOptions {
                build: demand.build,
                ..HeapOptions::pages_of(page_bytes)
            };
            let heap = DeviceHeap::over(device, stream, pages, .., options)?;
            let chains = RowChains::new(device, stream, &heap, demand.words, grid)?;
            Ok::<_, HeapError>((heap, chains))
        })?;
        let (heap, chains) = made.ok_or_else(|| memory(runtime, "pages for rows", bytes))?;
        let made = Self {
            heap,
            chains,
            resume: false,
        };
        Ok((made, grid))
    }

    /// Ends the run: adds its allocations to `report`, and keeps the heap for the next query. The caller has
    /// returned all pages, and the stream has finished with them.
    ///
    /// # Errors
    /// A kernel freed a page twice, or freed an address outside of the pages (detected on the emulated
    /// device); a failure of the device.
    pub(crate) fn keep(
        mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        self.count(stream, report)?;
        self.resume = false;
        if self.heap.memory().bytes() <= POLICY.kept_bytes {
            self.heap.region().set_owner(None);
            runtime.memory().keep_spare(self);
        }
        Ok(())
    }

    /// Lets other queries move its pages.
    pub(crate) fn park(&mut self) {
        self.heap.region().park();
    }

    /// The access of a launch to its pages.
    pub(crate) fn used(&mut self) -> Use<'_> {
        self.heap.region().used(Access::ReadWrite)
    }

    /// The argument of the next launch.
    pub(crate) fn view(&self) -> PageChainsView {
        self.chains.view(&self.heap, self.resume)
    }

    /// After a launch with blocks that can stop by themselves: returns whether some did, because the heap was
    /// exhausted. The next launch then resumes them.
    pub(crate) fn stopped(&mut self, stream: &Stream) -> Result<bool, RunError> {
        let (blocks, _) = self.chains.stopped(stream)?;
        self.resume = blocks > 0;
        Ok(self.resume)
    }

    /// Moves the rows of the chains into columns and returns their pages.
    pub(crate) fn gather(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        report: &mut RunReport,
    ) -> Result<GatheredRows, RunError> {
        let gathered = runtime.making_room(|| self.chains.gather(runtime.device(), stream, &self.heap))?;
        let bytes = self.heap.memory().bytes();
        let gathered = gathered.ok_or_else(|| memory(runtime, "output rows next to each other", bytes))?;
        self.returned(stream, report)?;
        Ok(gathered)
    }

    /// Resets the heap if its search does not reuse pages. The caller has returned all pages.
    pub(crate) fn returned(&mut self, stream: &Stream, report: &mut RunReport) -> Result<(), RunError> {
        if !self.heap.search().reuses() {
            self.count(stream, report)?;
            self.heap.reset(stream)?;
        }
        Ok(())
    }

    /// Adds the allocations since the last call to `report`, if the kernels count them.
    ///
    /// # Errors
    /// As [`Self::keep`].
    fn count(&mut self, stream: &Stream, report: &mut RunReport) -> Result<(), RunError> {
        let build = self.heap.build();
        if !build.check && !build.count {
            return Ok(());
        }
        let counts = self.heap.statistics(stream)?;
        self.heap.forget_statistics(stream)?;
        if counts.faults.any() {
            let (search, faults) = (build.search, counts.faults);
            return Err(RunError::Defect(format!(
                "kernels misused the heap of rows with page search {search}: {faults:?}"
            )));
        }
        if build.count {
            let pages = self.heap.page_count();
            report.add_page_allocations(PageAllocations::new(build.search, pages, counts));
        }
        Ok(())
    }
}
