//! Rows of unknown number from a kernel, in chains of heap pages: the host's end of `galatea/page_chain.cuh`.
//!
//! ```text
//!   let mut chains = RowChains::new(device, stream, &heap, words, blocks)?;
//!   launch(chains.view(&heap, false));                  every block appends to its own chain
//!   while chains.stopped(stream)? > 0 {                 the heap was exhausted: rows that fitted are there, none is lost
//!       parts.push(chains.gather(device, stream, &heap)?);   dense columns; pages back to the heap
//!       launch(chains.view(&heap, true));               blocks go on where they stopped
//!   }
//!   parts.push(chains.gather(device, stream, &heap)?);
//! ```
//!
//! A launch makes progress when the heap has a page more per block than the rows of one morsel fill, or at
//! least when one block's morsel fits: `gather` returns no rows after a stop only when not even one did, and
//! then the caller must give up or make a larger heap.
//!
//! Launches may also follow each other without a gather between: a block continues its chain, so pages are
//! filled regardless of the launches' sizes. A resumed launch must have as many blocks as the one it
//! continues.

use galatea_device::{Device, DeviceBuffer, DevicePointer, In, InOut, Out, Stream};
use galatea_kernels::heap::{MIN_PAGE_ROWS, PAGE_HEADER_WORDS, PageChain, PageChainsView};
use galatea_kernels::{HashMerge, HeapGather, SlotLayout};

use crate::heap::DeviceHeap;
use crate::{HeapError, Result};

/// Chains of pages, one per block of the kernels that write them.
#[derive(Debug)]
pub struct RowChains {
    chains: DeviceBuffer<PageChain>,
    /// Rows left off morsels, stopped blocks.
    overflow: DeviceBuffer<u64>,
    words: u32,
    page_rows: u32,
    gather: HeapGather,
}

/// Rows next to each other: word `w` of row `r` is value `w * rows + r`.
#[derive(Debug)]
pub struct GatheredRows {
    /// The columns.
    pub columns: DeviceBuffer<u64>,
    /// Rows.
    pub rows: usize,
    /// Pages they were in.
    pub pages: u64,
}

impl RowChains {
    /// Empty chains for `blocks` blocks and rows of `words` words (64 bits each).
    ///
    /// # Errors
    /// [`HeapError::RowsPerPage`] when a page has no room for the rows of a warp; the device's.
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

    /// Chains, and words of a row.
    #[must_use]
    pub fn shape(&self) -> (usize, u32) {
        (self.chains.len(), self.words)
    }

    /// Rows of `words` words that a page has room for.
    ///
    /// # Errors
    /// [`HeapError::RowsPerPage`] when that is less than the rows of a warp.
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

    /// The argument of a kernel of as many blocks as there are chains, by value, on the stream of heap and
    /// chains. With `resume`, blocks begin with the morsel at which they stopped.
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

    /// Blocks that stopped because the heap had no page, and the rows of the morsels they could not finish (a
    /// lower bound of the missing rows); waits for the stream.
    ///
    /// # Errors
    /// The device's.
    pub fn stopped(&self, stream: &Stream) -> Result<(u64, u64)> {
        let mut words = [0; 2];
        stream.read_into(&self.overflow, &mut words)?;
        Ok((words[1], words[0]))
    }

    /// The chains as the last launch left them; waits for the stream.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, stream: &Stream) -> Result<Vec<PageChain>> {
        Ok(stream.read(&self.chains, ..)?)
    }

    /// Copies all rows into dense columns, in the order of blocks and within a block in the order they were
    /// appended, and gives the pages back. Waits for the stream once, for the number of rows; the chains are
    /// empty after it, and blocks still know where to resume.
    ///
    /// # Errors
    /// [`galatea_device::DeviceError::OutOfMemory`] when there is no room for the columns: the chains are as
    /// before; the device's.
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

    /// Merges rows that are partial groups, key words and then accumulator words, into a group hash table,
    /// and gives the pages back: see [`HashMerge::launch`]. The chains are empty after it, and blocks still
    /// know where to resume.
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
