//! The identity of a plan over certain data.

/// A plan over certain data, or a part of one: a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanKey(pub u64);
