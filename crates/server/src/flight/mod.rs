//! Flight SQL: statements, prepared statements, catalogs, cancellation and sessions.
//!
//! A query is planned when a client requests its description, and runs when the client fetches its ticket. A
//! statement that changes something runs before its description is returned.

mod catalog;
mod columns;
mod schemas;
mod serve;
mod service;
mod sessions;
mod socket;

pub(crate) use serve::serve;
pub(crate) use sessions::FlightSessions;
