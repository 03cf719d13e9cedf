//! Flight SQL: statements, prepared statements, catalogs, cancellation and sessions.
//!
//! A statement is planned when the client asks for its schema, and runs when the client fetches its ticket.

mod catalog;
mod columns;
mod serve;
mod service;
mod sessions;
mod socket;

pub(crate) use serve::serve;
pub(crate) use sessions::FlightSessions;
