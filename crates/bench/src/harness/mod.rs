//! What experiments without queries share: timed runs on a device, findings beside a paper's, files and pictures.

pub(crate) mod plot;
mod report;
mod timing;

pub(crate) use report::{Files, Findings};
pub(crate) use timing::{Clock, WARMUPS, arguments};
