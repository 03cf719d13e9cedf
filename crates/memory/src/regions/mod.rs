//! Regions: device memory that outlives a launch belongs to one manager, which takes it back when others need
//! it.
//!
//! A [`MemoryManager`] owns a device's memory under the device's budget. The memory that it hands out is of
//! two kinds:
//!
//! * **Cached regions** are copies of immutable host data, a column of the store each. A region is a list of
//!   [`Page`]s that come and go one by one: each is in device memory or not, its host side is always valid,
//!   so evicting one moves nothing. A page is known by the identity of its original: versions of a column
//!   share pages, and a page is freed with its original.
//! * **Working memory** is memory that one query writes: group tables, output rows, slots that chunks stream
//!   through. It is allocated with [`MemoryManager::making_room`], which evicts pages as long as the device
//!   says that it is full. Working memory that outlives a launch is a [`WorkingRegion`]: its owner holds it
//!   while it launches, and may park it in between, when others can move its content to the host.
//!
//! A page is in use while it is pinned ([`PagePin`], [`Scan`]): from the choice of its address until the
//! launches that read it are queued. After that its region knows the events of these launches
//! ([`Scan::used`]); memory of an evicted page is freed behind them in stream order, so that neither eviction
//! nor the next owner waits on the host (MultiQx §6: frees never block a query).
//!
//! Where more is wanted than the device has, queries take turns ([`Turns`]): admission by demand, first come
//! first served with bounded overtaking, and the query that came first always gets what it needs.

mod ablation;
mod content;
mod error;
mod info;
mod manager;
mod page;
mod region;
mod replacement;
mod scan;
mod spill;
mod turns;
mod working;

pub use ablation::{Ablation, Ablations};
pub use error::RegionError;
pub use info::{RegionInfo, RegionKind};
pub use manager::MemoryManager;
pub use page::{Page, PagePin};
pub use replacement::Replacement;
pub use scan::Scan;
pub use spill::{HostBudget, SpillCounts, SpillFile, SpillFiles};
pub use turns::{Admission, Demand, Lease, PipelineName, Priority, QueryInfo, Turns};
pub use working::{Use, WorkingRegion};

use crate::Identity;
use std::sync::Arc;

/// The original of a cached region: immutable data in host memory, in pages of any size.
pub trait Source {
    /// Names all of it. The region is dropped when the last owner drops it.
    fn identity(&self) -> &Arc<Identity>;
    /// Its name in messages.
    fn name(&self) -> &str;
    /// Number of pages.
    fn pages(&self) -> usize;
    /// Names a page; pages of the same name are copied once, whatever region they are of.
    fn page(&self, index: usize) -> &Arc<Identity>;
    /// Device memory of a page, bytes.
    fn page_bytes(&self, index: usize) -> u64;
}
