//! Dense groups in global memory: a group's number is its index, and atomics are resolved in L2. Atomics on
//! the same KiB are serialised there. So if a few groups are frequent, the lanes of a warp first combine
//! their rows of a group, and groups have copies, each for some of the blocks, which are added up after the
//! last launch.

use super::Sink;
use super::statements::{add_to_global, combine_in_global, compare_strings, words_of_group};
use crate::accumulators::AccumulatorPlan;
use crate::group_layout::DenseLayout;
use galatea_expression::code::{Code, line};

/// Collects dense groups in global memory.
#[derive(Debug)]
pub(crate) struct DenseSink {
    pub(crate) accumulators: AccumulatorPlan,
    pub(crate) layout: DenseLayout,
}

impl Sink for DenseSink {
    fn is_warp_aggregated(&self) -> bool {
        self.layout.warp_aggregated
    }

    fn row(&self, code: &mut Code) {
        let layout = &self.layout;
        let place = match layout.copies {
            1 => "u64(group)".to_owned(),
            copies => format!("(u64(blockIdx.x & {}u) * {}u + group)", copies - 1, layout.groups),
        };
        line!(
            code,
            "u64* const at = reinterpret_cast<u64*>(args.groups) + {place} * {}u;",
            self.accumulators.words
        );
        if layout.warp_aggregated {
            combine_in_global(&self.accumulators, ("active", "group"), code);
        } else {
            add_to_global(&self.accumulators, code);
        }
        // Strings are only in the first copy.
        compare_strings(
            &self.accumulators,
            &words_of_group(&self.accumulators, "group"),
            code,
        );
    }
}
