//! Servers on loopback with real clients.

mod catalog;
mod changes;
mod copy_in;
mod flight;
mod limits;
mod operations;
mod page;
mod parameters;
mod postgres;
mod security;
mod session_statements;
mod support;
mod values;
