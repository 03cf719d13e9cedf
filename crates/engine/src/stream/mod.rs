//! Streams: unbounded input that is filtered, computed and grouped by time windows on the device.
//!
//! A pipeline collects its rows before it returns the first, and launches a kernel for each chunk. A stream
//! has no last row, and its rows arrive in small batches. So its part of a plan runs as a *persistent
//! operator* of `galatea-flow`: one kernel that lives as long as the stream, and exchanges frames with the
//! host.
//!
//! ```text
//! GpuStreamExec (exec.rs)
//!   input ── task ── source operator (source.rs) ── topic of rows ── device (bind.rs) ── topic of results ── sink (sink.rs) ── reader
//!            a permit per batch of the input, released when the reader has its results
//! ```
//!
//! **Frames** (`frame.rs`) contain the columns that the device computes with, each as a raw array, then
//! validity bits. Columns that are only returned stay on the host, which keeps a batch until its frames have
//! returned. A string is only returned, or it is a group key: then it is transferred as a code of a growing
//! dictionary (`strings.rs`).
//!
//! **Rows** (`rows.rs`): the result of a frame contains a bit for each row that passed, and the computed
//! values at the positions of their rows. So the device compacts nothing, and rows keep their order.
//!
//! **Windows** (`windows.rs`, `watermark.rs`): the device has a table of groups for each open window. The
//! host tracks the watermark and the returned frames. When a window is over and all frames with its rows have
//! returned, the host sends commands that copy the window's groups into result frames and clear the table. No
//! block waits for another.
//!
//! Types alone determine at planning whether a plan can run as a stream. After the first row a stream cannot
//! fall back, so a failure at run time fails the query.

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
mod strings;
mod watermark;
mod windows;

pub use crate::device::persistent::running;
pub use channel::{Channel, ChannelError, ChannelSender};
pub use error::StreamError;
pub use exec::GpuStreamExec;
pub use folder::FolderTableFactory;

/// The tuning policies of this module.
pub(crate) fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![windows::listed()]
}
