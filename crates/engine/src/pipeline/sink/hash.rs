//! Groups in a global hash table. Blocks stop before a unit when the table is nearly full; the host grows it and
//! resumes them where they stopped, so no row is lost and none is counted twice.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::super::group_key::GroupKey;
use super::{SAVE_PROGRESS, STOP_WHEN_FULL, add_to_home};

/// Adds a row to its group, inserting it when new.
pub fn update(plan: &AccumulatorPlan, code: &mut String) {
    code.push_str("u64* const at = table.find_or_insert(key);\n");
    add_to_home(plan, code);
}

/// The table, and the checks between units.
pub fn frame(key: &GroupKey, slot_words: usize) -> SinkFrame {
    SinkFrame {
        prologue: format!(
            "const GroupTable<{}, {slot_words}> table = {{reinterpret_cast<u64*>(args.groups), args.capacity - 1, args.counters}};\n",
            key.key_words()
        ),
        unit: STOP_WHEN_FULL.into(),
        epilogue: SAVE_PROGRESS.into(),
        ..SinkFrame::default()
    }
}
