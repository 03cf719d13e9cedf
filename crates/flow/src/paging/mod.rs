//! Frames of columns: pages of one column each, and an index of every page (XeFlow, section 4.3).
//!
//! An operator of the device reads frames where they are, over the link, so what it does not touch is not
//! moved. Rows of a frame are therefore divided into groups of 1024, and a group's values of one column fill
//! a page: a query touches the pages of its own columns alone. In front of the pages is what may save more of
//! them: the least and the greatest value of each, and a Bloom filter of each.
//!
//! ```text
//!   64 bytes   two words of the publisher's; rows in use
//!   index      least and greatest value: 8 bytes a page
//!              Bloom filter: 1 KiB a page, in blocks of 32 bytes, one of which answers for a value
//!   pages      of the first group: one a column; of the second; ...
//! ```
//!
//! A group is skipped where the index of one page says that no row satisfies a condition. A column is not
//! read where it says that all rows do, nor in lines of 32 rows of which none is left. Bytes that the device
//! asks for are counted, by lines of 128 bytes of data and sectors of 32 bytes of the index.
//!
//! [`Paging::Rows`] is the same frame without columnar pages, row after row; [`PagedScan::index`] says
//! whether the index is looked at: so what each is worth can be measured.

mod frame;
mod query;
mod scan;

pub use frame::{PageShape, Paging, ROWS_OF_GROUP};
pub use query::{Condition, PageQuery, Wanted};
pub use scan::{Answer, PagedScan};
