//! The command from outside: what it prints, where, and what it exits with.

mod bench;
mod calibrate;
mod conflicts;
mod data;
mod errors;
mod front;
mod output;
mod prompt;
mod support;
