//! The driver through the traits of `adbc_core`, as the C interface calls it.

mod cancel;
mod connections;
mod errors;
mod ingest;
mod metadata;
mod options;
mod parameters;
mod queries;
mod support;
