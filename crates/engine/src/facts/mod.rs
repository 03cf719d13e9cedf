//! What is said of a GPU subtree, as named facts: source, joins, filters, keys, aggregates, and after it has run
//! the strategy, the reason for it, times and bytes. Nodes show them on one line or in a box; an
//! [`outline`](crate::explain::outline()) of a plan has them a line each.

mod bytes;
mod fact;

pub(crate) use bytes::ByteCount;
pub(crate) use fact::{Fact, Facts, files};
