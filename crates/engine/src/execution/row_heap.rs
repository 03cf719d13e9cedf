//! Output rows in pages of a device heap: one pass over the input, no room for the worst case, and the host is asked only
//! when the heap is dry.

use super::results::Rows;
use super::run::{RunError, RunReport};
use super::sinks::memory;
use crate::pipeline::generate::{BoundPipeline, ResultPlan};
use crate::pipeline::sink::OutputColumn;
use crate::pipeline::sink::chains::{RowLayout, WARP_ROWS};
use crate::runtime::DeviceRuntime;
use galatea_device::Stream;
use galatea_kernels::heap::{PAGE_HEADER_WORDS, PageChainsView};
use galatea_memory::{DeviceHeap, HeapError, HeapOptions, RowChains};

/// Bytes of a page for short rows.
const PAGE_BYTES: u64 = 16 << 10;

/// Larger heaps are not kept for the next query.
const KEPT_BYTES: u64 = 2 << 30;

/// The heap of a run, and a chain of its pages for each block.
#[derive(Debug)]
pub(crate) struct RowHeap {
    heap: DeviceHeap,
    chains: RowChains,
    layout: RowLayout,
    /// The next launch continues one that stopped.
    resume: bool,
}

impl RowHeap {
    /// A heap for the output of a run by at most `grid` blocks over `rows` rows, and the blocks it serves: pages for
    /// twice the rows that are expected, of half of the free memory at most, and at least for a unit of every block, so that a
    /// run that stops can go on.
    pub(super) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        grid: u32,
        rows: u64,
        columns: &[OutputColumn],
    ) -> Result<(Self, u32), RunError> {
        let layout = RowLayout::new(columns);
        let words = layout.words as u64;
        let needed = 8 * (PAGE_HEADER_WORDS + WARP_ROWS * words);
        let page_bytes = PAGE_BYTES.max(needed.next_multiple_of(1024));
        let page_rows = u64::from(RowChains::page_rows(page_bytes, layout.words as u32)?);
        let device = runtime.device();
        let half = device.budget().available() / 2 / page_bytes;
        let of_unit = u64::from(bound.unit_rows).div_ceil(page_rows) + 1;
        let grid = grid.min(u32::try_from(half / of_unit).unwrap_or(u32::MAX).max(1));
        let least = u64::from(grid) * of_unit;
        // Guesses err: a tenth of the rows always has room.
        let expected = (rows as f64 * (2.0 * bound.selectivity).clamp(0.1, 1.0)) as u64;
        let most = expected.div_ceil(page_rows) + 2 * u64::from(grid);
        let bytes = most.min(half).max(least) * page_bytes;
        let kept = runtime.residency().take_heap(|kept| {
            kept.layout.words == layout.words
                && kept.chains.shape().0 == grid as usize
                && kept.heap.page_bytes() == page_bytes
                && kept.heap.memory().bytes() >= bytes
        });
        if let Some(mut kept) = kept {
            // Rows of as many words can be laid out otherwise.
            kept.layout = layout;
            return Ok((kept, grid));
        }
        let made = runtime.residency().making_room(|| {
            let heap = DeviceHeap::new(device, stream, bytes, HeapOptions::pages_of(page_bytes))?;
            let chains = RowChains::new(device, stream, &heap, layout.words as u32, grid)?;
            Ok::<_, HeapError>((heap, chains))
        })?;
        let (heap, chains) = made.ok_or_else(|| memory(runtime, "pages for output rows", bytes))?;
        let made = Self {
            heap,
            chains,
            layout,
            resume: false,
        };
        Ok((made, grid))
    }

    /// Leaves the heap to the next query, once all pages are back and the stream is done with it.
    pub(super) fn keep(mut self, runtime: &DeviceRuntime) {
        self.resume = false;
        if self.heap.memory().bytes() <= KEPT_BYTES {
            runtime.residency().keep_heap(self);
        }
    }

    /// What the next launch takes.
    pub(super) fn view(&self) -> PageChainsView {
        self.chains.view(&self.heap, self.resume)
    }

    /// After a launch: whether blocks stopped because the heap was dry, and must be resumed; it has room again then.
    pub(super) fn drain(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        rows: &mut Rows,
        report: &mut RunReport,
    ) -> Result<bool, RunError> {
        let (blocks, _) = self.chains.stopped(stream)?;
        self.resume = blocks > 0;
        if self.resume {
            self.gather(runtime, stream, bound, rows, report)?;
        }
        Ok(self.resume)
    }

    /// Moves what the chains hold to the host and gives their pages back.
    pub(super) fn gather(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        rows: &mut Rows,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        let gathered = runtime
            .residency()
            .making_room(|| self.chains.gather(runtime.device(), stream, &self.heap))?;
        let bytes = self.heap.memory().bytes();
        let gathered = gathered.ok_or_else(|| memory(runtime, "output rows next to each other", bytes))?;
        report.pages += gathered.pages;
        if let ResultPlan::Rows(columns) = &bound.result {
            report.link_bytes += rows.take_gathered(runtime, stream, columns, &self.layout, &gathered)?;
        }
        Ok(())
    }
}
