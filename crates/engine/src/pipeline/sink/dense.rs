//! Dense groups in global memory: the group's number is its place, atomics are resolved in L2.

use super::super::bind::AccumulatorPlan;
use super::add_to_home;
use std::fmt::Write;

/// Adds a row to its group.
pub fn update(plan: &AccumulatorPlan, code: &mut String) {
    let _ = writeln!(
        code,
        "u64* const at = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    add_to_home(plan, code);
}
