//! The command from outside: its output, the output's target, and the exit code.

mod bench;
mod calibrate;
mod conflicts;
mod data;
mod database;
mod errors;
mod front;
mod optimize;
mod output;
mod prompt;
mod serve;
mod streams;
mod support;
