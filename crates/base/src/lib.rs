//! Types that every crate of the engine uses. They depend on no device, plan or row.
//!
//! ```text
//! reason   why a part of a plan stays on the CPU
//! panic    messages of panics that were caught
//! policy   tuning constants, declared beside their mechanisms
//! setting  values of settings, and enums that settings accept by the names of their variants
//! stack    deep recursion without stack overflows
//! ```
#![forbid(unsafe_code)]

pub mod panic;
pub mod policy;
pub mod reason;
pub mod setting;
pub mod stack;
