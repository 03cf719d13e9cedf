//! What experiments share: timed runs on a device, sessions that look into it, findings beside a paper's,
//! files and pictures.

mod names;
pub(crate) mod plot;
mod report;
pub(crate) mod session;
mod timing;

pub(crate) use names::{by_name, name_of};
pub(crate) use report::table_of;
pub use report::{Cells, Finding, Report};
pub(crate) use timing::{Clock, WARMUPS, arguments};
