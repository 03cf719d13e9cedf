//! Kernel output with an unknown number of rows, in chains of heap pages: the host side of
//! `galatea/page_chain.cuh`.
//!
//! ```text
//!   let mut chains = RowChains::new(device, stream, &heap, words, blocks)?;
//!   launch(chains.view(&heap, false));            every block appends to its own chain
//!   while chains.stopped(stream)? > 0 {           exhausted heap: rows that fitted are stored
//!       parts.push(chains.gather(device, stream, &heap)?);     dense columns; pages are returned to the heap
//!       launch(chains.view(&heap, true));         blocks resume where they stopped
//!   }
//!   parts.push(chains.gather(device, stream, &heap)?);
//! ```
//!
//! A launch progresses if the heap has, per block, one page more than the rows of one morsel fill, or at
//! least if the morsel of one block fits. `gather` returns no rows after a stop only if not even one morsel
//! fitted. Then the caller must give up or create a larger heap.
//!
//! Launches may also follow each other without a gather in between: a block continues its chain, so pages are
//! filled regardless of the sizes of the launches. A resumed launch must have the same number of blocks as
//! the launch that it continues.

use galatea_device::{Device, DeviceBuffer, DevicePointer, In, InOut, Out, Stream};
use galatea_kernels::heap::{MIN_PAGE_ROWS, PAGE_HEADER_WORDS, PageChain, PageChainsView};
use galatea_kernels::{HashMerge, HeapGather, SlotLayout};

use crate::heap::DeviceHeap;
use crate::{HeapError, Result};

/// Chains of pages, one per block of the kernels that write them.
#[derive(Debug)]
pub struct RowChains {
    chains: DeviceBuffer<PageChain>,
    /// Number of rows left over in morsels, and of stopped blocks.
    overflow: DeviceBuffer<u64>,
    words: u32,
    page_rows: u32,
    gather: HeapGather,
}

/// Rows in dense columns: word `w` of row `r` is value `w * rows + r`.
#[derive(Debug)]
pub struct GatheredRows {
    /// The columns.
    pub columns: DeviceBuffer<u64>,
    /// Number of rows.
    pub rows: usize,
    /// Number of pages that contained them.
    pub pages: u64,
}

impl RowChains {
    /// Creates empty chains for `blocks` blocks and rows of `words` words (64 bits each).
    ///
    /// # Errors
    /// [`HeapError::RowsPerPage`] if a page has no room for the rows of a warp; the errors of the device.
    pub fn new(device: &Device, stream: &Stream, heap: &DeviceHeap, words: u32, blocks: u32) -> Result<Self> {
        let page_rows = Self::page_rows(heap.page_bytes(), words)?;
        Ok(Self {
            chains: device.upload(stream, &vec![PageChain::empty(0); blocks as usize])?,
            overflow: device.zeroed(stream, 2)?,
            words,
            page_rows,
            gather: HeapGather::new(device, heap.build())?,
        })
    }

    /// Number of chains, and of words of a row.
    #[must_use]
    pub fn shape(&self) -> (usize, u32) {
        (self.chains.len(), self.words)
    }

    /// The number of rows of `words` words that fit into a page.
    ///
    /// # Errors
    /// [`HeapError::RowsPerPage`] if that is less than the rows of a warp.
    pub fn page_rows(page_bytes: u64, words: u32) -> Result<u32> {
        let row = u64::from(words.max(1));
        let rows = (page_bytes / 8).saturating_sub(PAGE_HEADER_WORDS) / row;
        match u32::try_from(rows) {
            Ok(rows) if u64::from(rows) >= MIN_PAGE_ROWS => Ok(rows),
            _ => Err(HeapError::RowsPerPage {
                page_bytes,
                words: words.into(),
                rows,
                least: MIN_PAGE_ROWS,
                needed: 8 * (PAGE_HEADER_WORDS + MIN_PAGE_ROWS * row),
            }),
        }
    }

    /// The by-value argument of a kernel with one block per chain, on the stream of heap and chains. With
    /// `resume`, blocks begin with the morsel at which they stopped.
    #[must_use]
    pub fn view(&self, heap: &DeviceHeap, resume: bool) -> PageChainsView {
        PageChainsView {
            heap: heap.view(),
            chains: DevicePointer::new(self.chains.address()),
            overflow: DevicePointer::new(self.overflow.address()),
            page_rows: self.page_rows,
            words: self.words,
            count: u32::try_from(self.chains.len()).unwrap_or(u32::MAX),
            resume: resume.into(),
        }
    }

    /// The number of blocks that stopped because the heap had no page, and the number of rows of the morsels
    /// that they could not finish (a lower bound of the missing rows). Waits for the stream.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn stopped(&self, stream: &Stream) -> Result<(u64, u64)> {
        let mut words = [0; 2];
        stream.read_into(&self.overflow, &mut words)?;
        Ok((words[1], words[0]))
    }

    /// The chains as the last launch left them. Waits for the stream.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn read(&self, stream: &Stream) -> Result<Vec<PageChain>> {
        Ok(stream.read(&self.chains, ..)?)
    }

    /// Copies all rows into dense columns, in the order of blocks and within a block in the order of
    /// appending, and returns the pages. Waits for the stream once, for the number of rows. After it, the
    /// chains are empty, and blocks can still resume.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::OutOfMemory`] if the columns do not fit: the chains are then unchanged;
    /// the errors of the device.
    pub fn gather(&mut self, device: &Device, stream: &Stream, heap: &DeviceHeap) -> Result<GatheredRows> {
        let chains = self.read(stream)?;
        let rows = chains.iter().map(|chain| chain.rows).sum::<u64>();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let per_page = u64::from(self.page_rows);
        let pages = chains.iter().map(|chain| chain.rows.div_ceil(per_page)).sum();
        let mut columns = device
            .alloc::<u64>(stream, rows.saturating_mul(self.words as usize))?
            .assume_written();
        let mut count = device.alloc::<u64>(stream, 1)?.assume_written();
        self.gather.launch(
            stream,
            self.view(heap, false),
            Out(&mut columns),
            Out(&mut count),
            true,
        )?;
        let empty: Vec<_> = chains
            .iter()
            .map(|chain| PageChain::empty(chain.morsel))
            .collect();
        stream.copy_from_slice(&mut self.chains, &empty)?;
        stream.fill(&mut self.overflow, 0)?;
        Ok(GatheredRows { columns, rows, pages })
    }

    /// Merges rows that are partial groups (key words, then accumulator words) into a group hash table, and
    /// returns the pages: see [`HashMerge::launch`]. After it, the chains are empty, and blocks can still
    /// resume.
    ///
    /// # Errors
    /// Those of [`HashMerge::launch`].
    #[expect(
        clippy::too_many_arguments,
        reason = "a table, its counters, and where the rows are"
    )]
    pub fn merge(
        &mut self,
        device: &Device,
        stream: &Stream,
        heap: &DeviceHeap,
        slots: InOut<'_, u64>,
        groups: InOut<'_, u64>,
        layout: SlotLayout,
        merges: In<'_, u8>,
        texts: Option<In<'_, u64>>,
        pages: InOut<'_, u64>,
    ) -> Result<()> {
        let merge = HashMerge::new(device, heap.build())?;
        merge.launch(
            stream,
            self.view(heap, false),
            slots,
            groups,
            layout,
            merges,
            texts,
            pages,
        )?;
        Ok(stream.fill(&mut self.overflow, 0)?)
    }
}
