//! EXPLAIN: plans as text.
//!
//! A GPU subtree is described by named facts (`facts`). DataFusion's own formats show them on one
//! line (`indent`) or in a box (`tree`); an [`outline()`] shows a node per line and a fact per line, and
//! gives DataFusion's operators facts by the same names.

mod operator;
mod outline;

pub use outline::outline;
