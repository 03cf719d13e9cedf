//! Errors of the device heap.

use galatea_device::DeviceError;

/// Result of this crate.
pub type Result<T, E = HeapError> = std::result::Result<T, E>;

/// An error of a device heap. Variants and fields are contract, the text is not.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The device's: out of memory, a failed kernel, a compiler that is not there.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A page size that is not supported.
    #[error(
        "a heap with pages of {page_bytes} bytes: page sizes are multiples of {multiple} from {least} to {most} bytes"
    )]
    PageSize {
        /// Bytes asked for.
        page_bytes: u64,
        /// Page sizes are multiples of this.
        multiple: u64,
        /// Least size.
        least: u64,
        /// Greatest size.
        most: u64,
    },
    /// A pool of no page, or of more than can be numbered.
    #[error(
        "a heap of {bytes} bytes is {pages} pages of {page_bytes} bytes: a heap has 1 to {limit} pages\nhint: {hint}"
    )]
    PageCount {
        /// Bytes of the pool.
        bytes: u64,
        /// Bytes of a page.
        page_bytes: u64,
        /// Pages these make.
        pages: u64,
        /// Most pages.
        limit: u64,
        /// The cure.
        hint: &'static str,
    },
    /// A page too small for the rows of a warp.
    #[error(
        "a page of {page_bytes} bytes has room for {rows} rows of {words} words: {least} rows are needed\nhint: ask for a heap with pages of {needed} bytes"
    )]
    RowsPerPage {
        /// Bytes of a page.
        page_bytes: u64,
        /// Words of a row.
        words: u64,
        /// Rows a page has room for.
        rows: u64,
        /// Rows needed.
        least: u64,
        /// Page size that has room for them.
        needed: u64,
    },
    /// A list of free pages that is not as long as the pool.
    #[error("free pages given as {words} words: a pool of {pages} pages has {expected}")]
    FreeBits {
        /// Words given.
        words: u64,
        /// Pages of the pool.
        pages: u64,
        /// Words expected.
        expected: u64,
    },
}
