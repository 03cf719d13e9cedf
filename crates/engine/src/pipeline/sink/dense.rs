//! Dense groups in global memory: the group's number is its place, atomics are resolved in L2. Atomics on one address follow each
//! other, so where a group is frequent the lanes of a warp combine their rows of a group first.

use super::super::bind::AccumulatorPlan;
use super::{add_to_home, row_words};
use std::fmt::Write;

/// Adds a row to its group.
pub fn update(plan: &AccumulatorPlan, warps: bool, code: &mut String) {
    let _ = writeln!(
        code,
        "u64* const at = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    if !warps {
        add_to_home(plan, code);
        return;
    }
    let words = row_words(plan, code);
    code.push_str("const WarpPeers peers(group);\n");
    for c in &plan.contributions {
        // What a row adds has the form of the home.
        let (merge, high) = match c.accumulator.words() {
            2 => ("Merge::Sum128", words[c.word + 1].as_str()),
            _ => (c.accumulator.merge(), "0ull"),
        };
        let _ = writeln!(
            code,
            "peers.add<{merge}>(at + {}, {}, {high});",
            c.word, words[c.word]
        );
    }
}
