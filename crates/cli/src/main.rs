//! The galatea command.
fn main() {}
