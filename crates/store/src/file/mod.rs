//! Tables in files. Columns are encoded on first use and cached while memory allows.
//!
//! DataFusion plans a scan of files as a list of byte ranges of files over several partitions, with the
//! columns and filters of one query. A [`FileTable`] is the table behind it: the whole files, each once, in
//! order, and all their columns. A column that a query loads is read once, encoded, and cached in the
//! [`Store`] for later queries.
//!
//! ```text
//!  load([quantity, flag])
//!    ├─ version of the files now (size, times, inode or etag)      changed: the old version's columns are dropped
//!    ├─ cached columns of this version                             most loads end here
//!    ├─ the part of the rows that the predicates need              a slice of the version, if it is small
//!    ├─ columns in the cache on disk                               read in parallel ([`crate::disk_cache`])
//!    └─ the others, one loader per column, later ones wait
//!         Parquet: footers → chunks of whole row groups → (chunk, column) pieces on all cores
//!         CSV, JSON, Arrow, Avro: DataFusion's reader, partition by partition in order
//! ```
//!
//! The stamps of files on the local file system are read on every load. A file may have been written so
//! recently that its times may not show the next change; it is compared by content ([`crate::version`]). For
//! object stores that would cost a round trip per file and query, so the version is the one of DataFusion's
//! listing.

mod column_bytes;
mod column_reader;
mod column_shape;
mod disk;
mod files;
mod format;
mod guarded;
mod hybrid;
mod indices;
mod load;
mod native;
mod on_device;
mod page_index;
mod parquet;
mod part;
mod partial;
mod ranges;
mod selection;
mod table;
mod values;

pub use self::guarded::{GuardedParquet, guarded_as, parquet_source};
pub(crate) use self::partial::PartialLoads;
pub use self::table::FileTable;
