//! Dense groups in global memory: the group's number is its place, atomics are resolved in L2. Hot groups have registers.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::{add_to_home, hot};
use std::fmt::Write;

/// Adds a row to its group.
pub fn update(plan: &AccumulatorPlan, hot: u32, code: &mut String) {
    hot::update(plan, hot, code);
    let _ = writeln!(
        code,
        "{{\nu64* const at = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    add_to_home(plan, code);
    code.push_str("}\n");
}

/// Registers of hot groups before, their merge after.
pub fn frame(plan: &AccumulatorPlan, hot: u32, literals: &[usize]) -> SinkFrame {
    SinkFrame {
        prologue: hot::prologue(plan, literals),
        epilogue: hot::merge(plan, hot),
        ..SinkFrame::default()
    }
}
