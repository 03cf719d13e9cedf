//! The paper's operators for measurements, and CPU versions of them.

mod aes128;
mod fma;
mod raid6;
pub mod set_query;
pub mod shapes;

pub use aes128::{Aes128, Mode, expand_key};
pub use fma::Fma;
pub use raid6::Raid6;
