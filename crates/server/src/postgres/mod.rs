//! The Postgres protocol: simple and extended queries, portals, cancel requests, SCRAM-SHA-256 and TLS.
//!
//! Each connection has one session. The catalog `pg_catalog` describes its visible tables.

mod catalog;
mod commands;
mod connection;
mod errors;
mod limits;
mod registry;
mod rows;
mod serve;
mod startup;
mod statements;

pub(crate) use serve::serve;
