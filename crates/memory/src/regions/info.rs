//! Facts about regions, for reports.

/// Kinds of regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionKind {
    /// A copy of host data.
    Cached,
    /// Memory that a query writes.
    Working,
}

/// Facts about a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionInfo {
    /// Name of the data that it copies or holds.
    pub name: String,
    /// Its kind.
    pub kind: RegionKind,
    /// The query that writes it, by the number of its [`Lease`](super::Lease); none of memory that is kept
    /// for the next.
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
    /// Pages whose content is in both.
    pub pages_both: usize,
    /// Pages that have device memory, but not their content yet.
    pub pages_loading: usize,
    /// Scans, or launches, that have used it.
    pub uses: u64,
    /// Scans of other regions since; 0 of working memory.
    pub idle: u64,
}
