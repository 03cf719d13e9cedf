//! Columns decoded on the emulated device (and on a GPU, if there is one), compared with the parquet crate.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bytes;
mod cells;
mod compressed;
mod damage;
mod encodings;
mod files;
mod limits;
mod packing;
mod sample;
mod support;
