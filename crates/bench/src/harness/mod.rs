//! Common parts of experiments: timed runs on a device, sessions with access to its memory, reports and their
//! files.

mod names;
pub(crate) mod plot;
mod report;
pub(crate) mod session;
mod timing;
mod verdict;

pub(crate) use names::{by_name, name_of};
pub(crate) use report::table_of;
pub use report::{Cells, Finding, Report};
pub(crate) use timing::{Clock, WARMUPS, arguments};
pub(crate) use verdict::{Facts, range, verdict};
