//! Types that every crate of the engine uses. They depend on no device, plan or row.
//!
//! ```text
//! reason   why a part of a plan stays on the CPU
//! policy   tuning constants, declared beside their mechanisms
//! setting  values of settings, and enums that settings accept by the names of their variants
//! stack    deep recursion without stack overflows
//! ```
#![forbid(unsafe_code)]

pub mod policy;
pub mod reason;
pub mod setting;
pub mod stack;
