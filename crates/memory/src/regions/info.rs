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
    /// Name of the data in the region.
    pub name: String,
    /// Kind of the region.
    pub kind: RegionKind,
    /// The query that writes it, by the number of its [`AdmissionTicket`](super::AdmissionTicket); `None` for
    /// memory that is kept for the next query.
    pub owner: Option<u64>,
    /// Total bytes of the region.
    pub bytes: u64,
    /// Bytes in device memory.
    pub device_bytes: u64,
    /// Number of its pages.
    pub pages: usize,
    /// Number of pages with their content in device memory.
    pub pages_device: usize,
    /// Number of pages with their content in host memory, or in a file.
    pub pages_host: usize,
    /// Number of the latter pages with their content in a file.
    pub pages_disk: usize,
    /// Number of pages with their content in both.
    pub pages_both: usize,
    /// Number of pages that have device memory, but not their content yet.
    pub pages_loading: usize,
    /// Number of scans, or launches, that have used it.
    pub uses: u64,
    /// Number of scans of other regions since its last use; 0 for working memory.
    pub idle: u64,
}
