//! The ADBC driver of Galatea: a program loads the library, and the engine runs in its process. Results are
//! Arrow batches, passed on through Arrow's C data interface without copies.
//!
//! ```text
//! GalateaDriver        driver      opens databases; those of one folder share tables and an engine
//!   GalateaDatabase    database    its options; settings of its connections
//!     GalateaConnection connection one session: settings, variables, current schema
//!       objects, info              metadata as Arrow
//!       GalateaStatement statement a query or an ingestion
//!         planning                 statements to plans
//!         parameters               rows of bound batches as values
//!         ingest                   rows of bound batches as a table
//!         reader                   the batches of a running query
//! operation   cancellation, limits of time, waiting without a runtime
//! threads     the threads of queries
//! failure     errors with the status codes of ADBC and their SQLSTATE
//! option      values of options
//! ```
//!
//! The C interface is that of the crate `adbc_ffi`. All work of the engine runs on threads of its own
//! ([`threads`]), so a panic there becomes an error, and does not reach the caller.
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
