//! Column chunks of Parquet files, decoded on the device.
//!
//! Pages travel to the device as they are in the file. The host reads the page headers only, and decompresses
//! the pages of the codecs that the device does not have. Kernels decode the pages to the plain device form
//! of the column: integers of 64 or 128 bits, floats, booleans in bytes, strings as offsets and bytes, or
//! indices into the dictionaries of the file. [`Decoder::pack`] converts integers and indices to the codes of
//! a column of the store.
//!
//! ```text
//! ColumnChunk   bytes of a column chunk      ┐         Lane
//! ColumnShape   physical and logical type    ┴─ Input ─ Decoder::decode_pages ─> DecodedPages
//! DecodedPages  values by page ─ Decoder::rows ─> DecodedColumn ─ Decoder::pack ─> codes
//!   thrift, header   page headers                  batch, tasks   page table, slots, tasks
//!   pages            pages of a column chunk       decode         launches
//!   decompress       codecs of the host            rows           values by row
//!                                                  strings        offsets and bytes
//!   input            work of the host before       lane           stream and pinned memory
//! ```
//!
//! Supported are columns that are not nested, NULL or not, with data pages of both versions, and every
//! encoding but the deprecated bit-packed levels. [`ColumnShape::of`] and [`unsupported`] refuse the others
//! before anything is read.
//!
//! Files may be cut off, damaged or lying. Every number from a file is checked before it is used, on the host
//! as on the device; [`ParquetError::Damaged`] has file, column, row group, page, byte and numbers.

#![forbid(unsafe_code)]

mod batch;
mod chunk;
mod decode;
mod decompress;
mod error;
mod header;
mod input;
mod lane;
mod pack;
mod pages;
mod rows;
mod shape;
mod strings;
mod tasks;
mod thrift;

pub use chunk::ColumnChunk;
pub use decode::{DecodedPages, Decoder};
pub use decompress::decompresses_on_device;
pub use error::{ParquetError, Place, Problem, Result, Unsupported};
pub use input::Input;
pub use lane::{Lane, LaneInUse, Lanes};
pub use pack::Frame;
pub use rows::{Bounds, DecodedColumn, DecodedValues};
pub use shape::{ColumnShape, ValueKind, unsupported};
pub use strings::{DecodedStrings, Offsets};
