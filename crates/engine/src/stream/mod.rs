//! Streams: rows without an end, filtered, computed and grouped by windows of time on the device.
//!
//! A pipeline collects its rows before it returns the first, and launches a kernel for each chunk. A stream
//! has no last row, and its rows come in small batches. So its part of a plan runs as a *persistent operator*
//! of `galatea-flow`: one kernel that lives as long as the stream, and exchanges frames with the host.
//!
//! ```text
//! GpuStreamExec (exec.rs)
//!   input ── task ── source operator (source.rs) ── topic of rows ── device (bind.rs) ── topic of results ── sink (sink.rs) ── reader
//!            a permit per batch of the input, given back when the reader has what came of it
//! ```
//!
//! **Frames** (`frame.rs`) hold the columns that the device computes with, each as a raw array, then bits of
//! validity. Columns that are only returned stay on the host, which keeps a batch until its frames are back.
//! Text is returned, or a group key: then it crosses as codes of a dictionary that grows (`texts.rs`).
//!
//! **Rows** (`rows.rs`): the result of a frame says of each row whether it passed, and has the computed
//! values at the places of their rows. So the device compacts nothing, and rows keep their order.
//!
//! **Windows** (`windows.rs`, `watermark.rs`): the device has a table of groups for each open window. The
//! host knows how far time has come, and which frames are back: when all frames with rows of a window are,
//! and the window is over, it sends commands that copy the window's groups into result frames and clear the
//! table.
//! No block waits for another.
//!
//! Types alone decide whether a plan can run so, at planning. After the first row nothing can fall back, so a
//! failure at run time is the query's error.

mod bind;
mod channel;
mod error;
mod exec;
mod folder;
mod frame;
mod plan;
mod rows;
mod run;
mod settings;
mod sink;
mod source;
mod texts;
mod watermark;
mod windows;

pub use crate::device::persistent::running;
pub use channel::{Channel, ChannelError, ChannelSender};
pub use error::StreamError;
pub use exec::GpuStreamExec;
pub use folder::FolderTableFactory;

/// Its tuning policies.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![windows::listed()]
}
