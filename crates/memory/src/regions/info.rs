//! What is known of regions.

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// A copy of host data.
    Cached,
    /// What a query writes.
    Working,
}

/// What is known of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionInfo {
    /// What it copies, or holds.
    pub name: String,
    /// What it is.
    pub kind: RegionKind,
    /// The query that writes it, by the number of its [`Lease`](super::Lease); none of what is kept for the
    /// next.
    pub owner: Option<u64>,
    /// Bytes of all of it.
    pub bytes: u64,
    /// Bytes in device memory.
    pub device_bytes: u64,
    /// Number of its pages.
    pub pages: usize,
    /// Pages whose content is in device memory.
    pub pages_device: usize,
    /// Pages whose content is in host memory, or in a file.
    pub pages_host: usize,
    /// Pages of which both are true.
    pub pages_both: usize,
    /// Pages that have device memory, but not their content yet.
    pub pages_loading: usize,
    /// Scans, or launches, that have used it.
    pub uses: u64,
    /// Scans of other regions since; 0 of working memory.
    pub idle: u64,
}
