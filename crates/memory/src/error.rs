//! Errors of the device heap.

use galatea_device::DeviceError;

/// Result of the device heap.
pub type Result<T, E = HeapError> = std::result::Result<T, E>;

/// An error of a device heap. Variants and fields are part of the contract; the message text is not.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// An error of the device: out of memory, a failed kernel, a missing compiler.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An unsupported page size.
    #[error(
        "a heap with pages of {page_bytes} bytes: page sizes are multiples of {multiple} from {least} to {most} bytes"
    )]
    PageSize {
        /// Bytes requested.
        page_bytes: u64,
        /// Page sizes are multiples of this number.
        multiple: u64,
        /// The least size.
        least: u64,
        /// The greatest size.
        most: u64,
    },
    /// A pool without pages, or with more pages than page numbers.
    #[error(
        "a heap of {bytes} bytes is {pages} pages of {page_bytes} bytes: a heap has 1 to {limit} pages\nhint: {hint}"
    )]
    PageCount {
        /// Bytes of the pool.
        bytes: u64,
        /// Bytes of a page.
        page_bytes: u64,
        /// Number of pages of the pool.
        pages: u64,
        /// The most pages.
        limit: u64,
        /// A remedy for the user.
        hint: &'static str,
    },
    /// A page is too small for the rows of a warp.
    #[error(
        "a page of {page_bytes} bytes has room for {rows} rows of {words} words: {least} rows are needed\nhint: ask for a heap with pages of {needed} bytes"
    )]
    RowsPerPage {
        /// Bytes of a page.
        page_bytes: u64,
        /// Number of words of a row.
        words: u64,
        /// Number of rows that fit into a page.
        rows: u64,
        /// Number of rows needed.
        least: u64,
        /// Page size that would have room for them.
        needed: u64,
    },
    /// The bitmap of free pages has the wrong length for the pool.
    #[error("free pages given as {words} words: a pool of {pages} pages has {expected}")]
    FreeBits {
        /// Number of words given.
        words: u64,
        /// Number of pages of the pool.
        pages: u64,
        /// Number of words expected.
        expected: u64,
    },
}
