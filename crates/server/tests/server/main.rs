//! Servers on loopback with real clients.

mod flight;
mod limits;
mod operations;
mod page;
mod postgres;
mod security;
mod support;
