//! Memory on the device beyond plain buffers.
//!
//! ```text
//!   DeviceHeap ── pages that kernels take and give back, by one of several searches
//!     ├ sizing ── expected steps of random walks over a pool
//!     └ RowChains ── rows of unknown number, written once into chains of pages, gathered into columns
//!   transfer ── the eight ways across the link, behind one trait
//!   MemoryManager ── regions: copies of host data that come and go page by page, and admission of queries
//!   RadixSort ── the order of rows by their keys, in memory that the manager makes room for
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
