//! The command from outside: what it prints, where, and what it exits with.

mod data;
mod errors;
mod output;
mod support;
