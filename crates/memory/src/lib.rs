//! Memory on the device beyond plain buffers.
//!
//! ```text
//!   DeviceHeap ── pages that kernels allocate and free, by one of several searches
//!     ├ sizing ── expected steps of random walks over a pool
//!     └ RowChains ── an unknown number of rows, written once into chains of pages, gathered into columns
//!   transfer ── the eight transfer methods of Lutz (the pinned copy also in pieces), behind one trait
//!   MemoryManager ── regions: copies of host data, loaded and evicted page by page, and admission of queries
//!   RadixSort ── the order of rows by their keys, in memory that the manager evicts for
//! ```
#![forbid(unsafe_code)]

mod chains;
mod error;
mod heap;
mod identity;
pub mod regions;
mod sort;
pub mod transfer;

pub use chains::{GatheredRows, RowChains};
pub use error::{HeapError, Result};
pub use heap::sizing;
pub use heap::{DeviceHeap, HeapFaults, HeapOptions, HeapStatistics};
pub use identity::{Holder, Identity};
pub use sort::{KeyWord, RadixSort, SortError, SortedRows};

pub use galatea_kernels::HeapCounts;
pub use galatea_kernels::heap::{HeapBuild, HeapView, PageChain, PageChainsView, PageSearch};
