//! What experiments share: timed runs on a device, sessions that look into it, findings beside a paper's,
//! files and pictures.

pub(crate) mod plot;
mod report;
pub(crate) mod session;
mod timing;

pub(crate) use report::{Files, Findings};
pub(crate) use timing::{Clock, WARMUPS, arguments};
