//! Serves one Galatea engine to many clients: Flight SQL and the Postgres protocol.
//!
//! ```text
//! config     the configuration file            access     roles, and paths that they grant
//! password   SCRAM verifiers and tokens        account    users and tokens, their queries and sessions
//! tables     the tables that a role sees       statement  statements that a role may run
//! state      engine, accounts, running queries   statement_text  splits strings into statements
//! session    one SessionContext per client     query      one task per running statement
//! flight     Flight SQL                        postgres   the Postgres protocol
//! activity   running statements and history    feed       documents of the page
//! http       the page, its feed, /metrics      recorder   metrics of the process
//! server     listeners and shutdown            client     a client, for galatea connect
//! monitor    a reader of the feed, for galatea top
//! ```
//!
//! A statement is parsed and checked against the grants of its role ([`Config`]), and then planned by
//! [`galatea::sql()`]. Its task sends batches to the connection as they are computed, and waits while the
//! client does not read. `docs/src/guide/server.md` describes the use.
#![forbid(unsafe_code)]

mod access;
mod account;
mod activity;
mod binding;
mod client;
mod config;
mod error;
mod failure;
pub mod feed;
mod flight;
mod http;
mod metrics;
mod monitor;
mod opaque;
mod password;
mod plan_document;
mod planning;
mod postgres;
mod query;
mod recorder;
mod server;
mod session;
mod session_statement;
mod shortened;
mod state;
mod statement;
mod statement_text;
mod tables;
mod tls;

pub use client::{Client, ClientError, Credentials};
pub use config::{Config, TlsFiles};
pub use error::ServerError;
pub use monitor::{Events, Monitor};
pub use password::{Verifier, new_token, token_hash};
pub use server::Server;
