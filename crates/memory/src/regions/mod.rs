//! Regions: one manager owns the device memory that outlives a launch, and evicts it when other queries need
//! memory.
//!
//! A [`MemoryManager`] owns a device's memory under the device's budget. It allocates two kinds of memory:
//!
//! * **Cached regions** are copies of immutable host data, one per column of the store. A region is a list of
//!   [`Page`]s that are loaded and evicted one by one. A page is in device memory or not. Its host copy is
//!   always valid, so eviction moves no data. A page has the identity of its original, a chunk of a column.
//!   So versions of a column share pages, and a page is freed when its original is dropped.
//! * **Working memory** is memory that one query writes: group tables, output rows, slots through which
//!   chunks are streamed. It is allocated with [`MemoryManager::making_room`], which evicts pages until the
//!   allocation fits or no page is left. Working memory that outlives a launch is a [`WorkingRegion`]. Its
//!   owner holds it during launches, and may park it between them. Other queries can then move the content of
//!   a parked region to the host.
//!
//! A page is pinned ([`PagePin`], [`Scan`]) while launches with its address are prepared: it is not evicted
//! until they are queued. From then on, its region holds the events of these launches ([`Scan::used`]). If
//! the page is evicted, its memory is freed in stream order, after these events. Neither the eviction nor the
//! next owner of the memory blocks the host (MultiQx §6: frees never block a query).
//!
//! If queries need more memory than the device has, they wait for admission ([`AdmissionController`]), which
//! depends on their demand. They wait in the order of priority, then of arrival. A later query may overtake a
//! waiting one a limited number of times. The query that arrived first always gets the memory that it needs.

mod ablation;
mod admission;
mod content;
mod error;
mod info;
mod manager;
mod page;
mod region;
mod replacement;
mod scan;
mod spill;
mod working;

pub use ablation::{Ablation, Ablations};
pub use admission::{
    Admission, AdmissionController, AdmissionTicket, Demand, PipelineName, Priority, QueryInfo,
};
pub use error::RegionError;
pub use info::{RegionInfo, RegionKind};
pub use manager::MemoryManager;
pub use page::{Page, PagePin};
pub use replacement::Replacement;
pub use scan::Scan;
pub use spill::{HostBudget, SpillCounts, SpillFile, SpillFiles};
pub use working::{Use, WorkingRegion};

use crate::Identity;
use std::sync::Arc;

/// The original of a cached region: immutable data in host memory, in pages of any size.
pub trait Source {
    /// Identifies the whole source. The region is dropped when the last owner drops this identity.
    fn identity(&self) -> &Arc<Identity>;
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Number of pages.
    fn pages(&self) -> usize;
    /// Identifies a page. Regions share one copy of pages with the same identity.
    fn page(&self, index: usize) -> &Arc<Identity>;
    /// Device memory of a page, in bytes.
    fn page_bytes(&self, index: usize) -> u64;
}
