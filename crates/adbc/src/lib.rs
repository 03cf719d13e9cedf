//! The ADBC driver of Galatea: a program loads the library, and the engine runs in its process. Results are
//! Arrow batches, passed on through Arrow's C data interface without copies.
//!
//! ```text
//! driver       GalateaDriver: opens databases; those of one folder share tables and an engine
//!   database     GalateaDatabase: options, and settings of its connections
//!     connection   GalateaConnection: one session, with settings, variables and a current schema
//!       objects      catalogs, schemas, tables and columns as Arrow
//!       info         properties of the driver
//!       statement    GalateaStatement: a query or an ingestion
//!         reader       the batches of a running query
//!         planning     statements to plans
//!         parameters   rows of bound batches as values
//!         ingest       rows of bound batches as a table
//! shared       the tables and the engine of a database
//! running      the running operations of a connection and of a statement
//! operation    cancellation, limits of time, waiting without a runtime
//! threads      the threads of queries
//! failure      errors with the status codes of ADBC and their SQLSTATE
//! option       values of options
//! ```
//!
//! The C interface is that of the crate `adbc_ffi`. All work of the engine runs on threads of its own
//! (`threads`), so a panic there becomes an error, and does not reach the caller.
//! `docs/src/guide/adbc.md` describes the use.
#![forbid(unsafe_code)]

mod connection;
mod database;
mod driver;
mod failure;
mod info;
mod ingest;
mod objects;
mod operation;
mod option;
mod parameters;
mod planning;
mod reader;
mod running;
mod shared;
mod statement;
mod threads;

pub use connection::GalateaConnection;
pub use database::GalateaDatabase;
pub use driver::GalateaDriver;
pub use option::{STRING_VIEWS, TIMEOUT};
pub use statement::GalateaStatement;

/// The functions that driver managers look up in the library.
mod entry {
    adbc_ffi::export_driver!(AdbcDriverGalateaInit, crate::GalateaDriver);
}
