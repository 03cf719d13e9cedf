//! EXPLAIN: plans as text.
//!
//! A GPU subtree is described by named facts (`facts`). DataFusion's own formats show them on one line
//! (`indent`) or in a box (`tree`); an [`outline()`] shows one node and one fact on each line, and gives
//! DataFusion's operators facts with the same names.

mod interval;
mod operator;
mod outline;

pub use outline::outline;
