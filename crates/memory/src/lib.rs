//! Memory on the device beyond plain buffers.
//!
//! ```text
//!   DeviceHeap ── pages that kernels take and give back, by one of several strategies
//!     └ RowChains ── rows of unknown number, written once into chains of pages, gathered into columns
//!   theory ── expected steps of random walks over a pool
//! ```
#![forbid(unsafe_code)]

mod chains;
mod error;
mod heap;
pub mod theory;

pub use chains::{GatheredRows, RowChains};
pub use error::{HeapError, Result};
pub use heap::{DeviceHeap, HeapFaults, HeapOptions, HeapStatistics};

pub use galatea_kernels::HeapCounts;
pub use galatea_kernels::heap::{HeapBuild, HeapView, PageChain, PageChainsView, Strategy};
