//! Operators for measurements: what the paper runs, and the CPU's way of doing the same.

mod aes128;
mod fma;
mod raid6;

pub use aes128::{Aes128, Mode, expand_key};
pub use fma::Fma;
pub use raid6::Raid6;
