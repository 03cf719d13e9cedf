//! Named facts of a GPU subtree: source, joins, filters, keys, aggregates, and after a run the strategy with
//! its reason, times and bytes. Nodes print them on one line or in a box; an outline of a plan
//! ([`crate::explain`]) prints one fact per line.

mod bytes;
mod fact;
mod loads;

pub(crate) use bytes::ByteCount;
pub(crate) use fact::{Fact, Facts, files};
