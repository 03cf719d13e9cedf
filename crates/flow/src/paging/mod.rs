//! Frames of columns: pages of one column each, and an index of every page (XeFlow, section 4.3).
//!
//! An operator of the device reads frames in place, over the link, so bytes that it does not access are not
//! transferred. Rows of a frame are therefore divided into groups of 1024, and a group's values of one column
//! fill a page: a query reads only the pages of its own columns. An index in front of the pages may save more
//! of them: the minimum and the maximum of each page, and a Bloom filter of each.
//!
//! ```text
//!   64 bytes   two words of the publisher's; rows in use
//!   index      minimum and maximum: 8 bytes a page
//!              Bloom filter: 1 KiB a page, in blocks of 32 bytes, one block for each value
//!   pages      of the first group: one a column; of the second; ...
//! ```
//!
//! A group is skipped if the index of one page proves that no row satisfies a condition. A column is not read
//! if the index proves that all rows satisfy its condition. Lines of 32 rows are not read if none of the rows
//! is left. Bytes that the device requests are counted: data by lines of 128 bytes, the index by sectors of
//! 32 bytes.
//!
//! [`Paging::Rows`] is the same frame without columnar pages, row after row. [`PagedScan::index`] sets
//! whether the index is used. The benefit of each can thus be measured.

mod frame;
mod query;
mod scan;

pub use frame::{PageShape, Paging, ROWS_OF_GROUP};
pub use query::{Condition, PageQuery, Wanted};
pub use scan::{Answer, PagedScan};
