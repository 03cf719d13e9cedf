//! The Postgres protocol: simple and extended queries, portals, cancel requests, SCRAM-SHA-256 and TLS.
//!
//! A client reads large results with cursors or `COPY ... TO STDOUT`.
//!
//! Each connection has one session. The catalog `pg_catalog` describes its visible tables.

mod array_text;
mod catalog;
mod catalog_columns;
mod catalog_empty;
mod catalog_functions;
mod catalog_names;
mod catalog_schemas;
mod catalog_sql;
mod catalog_tables;
mod cells;
mod commands;
mod connection;
mod copy;
mod copy_in;
mod copy_lines;
mod copy_rows;
mod cursors;
mod errors;
mod execution;
mod interval_text;
mod limits;
mod numeric_text;
mod parameters;
mod registry;
mod rows;
mod serve;
mod startup;
mod statements;
mod text_edits;
mod tokens;
mod uuid_text;
mod value_errors;

pub(crate) use serve::serve;
