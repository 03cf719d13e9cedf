//! The store: encoded columns in chunks, in host memory that a GPU can read at link speed.
//!
//! The cost of transferring columns over a link is proportional to their bytes. The store therefore keeps
//! columns as narrow as their values allow, in large pieces of memory that can be pinned. [`mod@column`]
//! describes encoded columns, and [`source`] is the interface through which an engine reads them.
//! [`StoredTable`] holds tables, [`FileTable`] the hot columns of files, and the [`Store`] bounds their
//! memory. [`layout`] describes columns laid out for the banks of shared memory.
#![forbid(unsafe_code)]

mod bits;
mod catalog;
mod change;
pub mod column;
pub mod damage;
mod decode;
mod dense;
mod dictionary;
mod digest;
mod disk_cache;
mod encode;
pub mod error;
mod extremes;
mod file;
mod guard;
mod ingest;
pub mod layout;
mod ledger;
mod load_report;
mod load_steps;
mod meter;
mod node;
mod packed;
mod page_decoder;
mod pool;
mod provider;
mod prune;
mod reencode;
mod scan;
pub mod source;
mod store;
mod table;
mod text;
mod version;
mod width;
mod zones;

pub use catalog::{StoreCatalogProvider, StoreSchemaProvider, install, rows_in_memory};
pub use column::{Chunk, ChunkData, Column, Encoding, Scalar, ScalarRange, VIEW_ALIGNMENT, Width, Zone};
pub use decode::Decoder;
pub use dense::DenseColumn;
pub use dictionary::{dictionary_code, dictionary_lower_bound};
pub use disk_cache::{DiskCache, DiskCacheCounts};
pub use encode::{strings_array, supports_type};
pub use error::{Result, StoreError};
pub use file::{FileTable, GuardedParquet, guarded_as, parquet_source};
pub use galatea_memory::{Holder, Identity};
pub use layout::{ConflictLayout, NoLayout, SlotLayout};
pub use load_report::{HostReason, LoadReport, Pruning};
pub use load_steps::{LoadStep, LoadSteps};
pub use node::check_partition;
pub use packed::{BLOCK_CODES, PackedCodes, Packing};
pub use page_decoder::PageDecoder;
pub use provider::{inexact, is_of_row};
pub use prune::prune;
pub use scan::StoreScanExec;
pub use source::{ColumnOnDisk, ColumnSource, LoadHints, LoadProgress, ProgressCallback, TableId, TableView};
pub use store::{SpillMemory, Store, StoreOptions};
pub use table::{Snapshot, StoredTable};
pub use text::{
    CsvFiles, CsvHeader, JsonFiles, NotObjects, Objects, csv_reader, file_head, header_names, numbered_names,
};
pub use version::FileStamp;
pub use zones::KeyZones;

/// The tuning policies of this crate.
pub fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![
        page_decoder::DecodingPrices::listed(),
        file::PartialLoads::listed(),
    ]
}
