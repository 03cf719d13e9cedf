//! Types that every crate of the engine uses, without a device, a plan or a row.
//!
//! ```text
//! reason   why a part of a plan stays on the CPU
//! policy   tuning constants, declared beside their mechanisms
//! setting  values of settings, and enums whose variants are words of a setting
//! stack    deep recursion without stack overflows
//! ```
#![forbid(unsafe_code)]

pub mod policy;
pub mod reason;
pub mod setting;
pub mod stack;
