//! Decoding pages of Parquet column chunks that are not nested.
//!
//! ```text
//! stored bytes ─ ParquetDecompress ─> bodies ─ ParquetLevels ─> validity, counts, start of the values
//!   ParquetHybrid   dictionary indices, booleans     ┐
//!   ParquetFixed    PLAIN, BYTE_STREAM_SPLIT         ├─> slots: the non-NULL values of each page
//!   ParquetDelta    DELTA_BINARY_PACKED              │
//!   ParquetStrings  PLAIN, DELTA_(LENGTH_)BYTE_ARRAY ┘
//! slots ─ ParquetRows ─> values, indices or strings by row, validity, bounds
//!   ParquetPack         integers, indices ─> codes of the store
//!   ParquetCopyStrings  located strings ─> offsets and bytes
//! ```
//!
//! Pages are from files: every number in them is checked, and a violation is recorded in the state of its
//! page ([`ParquetPageState`]). The page table is from the host, which has checked it: slots, addresses and
//! sizes are used as they are.

mod decode;
mod page;
mod rows;

pub use decode::{
    ParquetDecode, ParquetDecodeArguments, ParquetDecompress, ParquetDelta, ParquetFixed, ParquetHybrid,
    ParquetLevels, ParquetSlots, ParquetStep, ParquetStrings,
};
pub use page::{
    PARQUET_PADDING, ParquetCodec, ParquetEncoding, ParquetFailure, ParquetForm, ParquetLevelsKind,
    ParquetPage, ParquetPageState,
};
pub use rows::{
    ParquetBounds, ParquetCopyStrings, ParquetCopyStringsArguments, ParquetDivisor, ParquetDivisorArguments,
    ParquetOrder, ParquetPack, ParquetPackArguments, ParquetPacking, ParquetPages, ParquetRowKind,
    ParquetRows, ParquetRowsArguments, ParquetRowsOutput,
};
