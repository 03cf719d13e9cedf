//! EXPLAIN: plans as text.
//!
//! A GPU subtree is described by named facts: source, joins, filters, keys, aggregates, and after it has
//! run the strategy, the reason for it, times and bytes. DataFusion's own formats show them on one line
//! (`indent`) or in a box (`tree`); an [`outline()`] shows a node per line and a fact per line, and gives
//! DataFusion's operators facts by the same names.

mod bytes;
mod fact;
mod operator;
mod outline;

pub(crate) use bytes::ByteCount;
pub(crate) use fact::Facts;
pub use outline::outline;
