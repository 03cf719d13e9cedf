//! The compared methods of summing by group.

use std::fmt;

use galatea_layout::model::AccumulatorLayout;

use super::READS_ONLY;

/// A method of summing by group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Without groups: only reads both columns. The ceiling.
    ReadsOnly,
    /// Slots of a laid-out column.
    Slots,
    /// One copy, a loop of compare-and-swap per row.
    Naive,
    /// One copy, two native 32-bit atomics per row.
    OneCopy,
    /// Copies for groups of lanes, two native atomics.
    Replicated { copies: u32, stride: u32 },
    /// A copy per thread, no atomics.
    PerThread,
    /// One copy; lanes of the same group combine first.
    WarpAggregated,
    /// All sums in registers.
    Registers,
    /// Atomics in device memory, on the copy of the warp.
    Global { copies: u32 },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadsOnly => f.write_str(READS_ONLY),
            Self::Naive => write!(f, "one copy, compare-and-swap"),
            Self::Registers => write!(f, "registers"),
            Self::Global { copies: 1 } => write!(f, "device memory"),
            Self::Global { copies } => write!(f, "device memory, {copies} copies"),
            Self::Slots
            | Self::OneCopy
            | Self::Replicated { .. }
            | Self::PerThread
            | Self::WarpAggregated => self.layout().map_or(Ok(()), |layout| layout.fmt(f)),
        }
    }
}

impl Way {
    pub(super) fn all() -> Vec<Self> {
        let mut ways = vec![
            Self::ReadsOnly,
            Self::Slots,
            Self::OneCopy,
            Self::PerThread,
            Self::WarpAggregated,
            Self::Registers,
            Self::Naive,
        ];
        for copies in [2, 4, 8, 16, 32] {
            for stride in [copies, copies + 1] {
                ways.push(Self::Replicated { copies, stride });
            }
        }
        ways.extend([1, 2, 4, 8, 16, 32].map(|copies| Self::Global { copies }));
        ways
    }

    /// The common name of methods that differ only in the number of copies.
    pub(super) fn family(self) -> String {
        match self {
            Self::Replicated { .. } => "copies".to_string(),
            Self::Global { .. } => "device memory".to_string(),
            _ => self.to_string(),
        }
    }

    /// Its name in the cost model.
    pub(super) fn layout(self) -> Option<AccumulatorLayout> {
        match self {
            Self::Slots => Some(AccumulatorLayout::Slots),
            Self::OneCopy => Some(AccumulatorLayout::OneCopy),
            Self::Replicated { copies, stride } => Some(AccumulatorLayout::Replicated { copies, stride }),
            Self::PerThread => Some(AccumulatorLayout::PerThread),
            Self::WarpAggregated => Some(AccumulatorLayout::WarpAggregated),
            Self::ReadsOnly | Self::Naive | Self::Registers | Self::Global { .. } => None,
        }
    }

    /// The separate kernel of the method, if it has one for this number of groups.
    pub(super) fn kernel(self, groups: usize) -> Option<&'static str> {
        Some(match self {
            Self::ReadsOnly | Self::Slots | Self::OneCopy => return None,
            Self::Naive => "sum_naive",
            Self::Replicated { .. } => "sum_replicated",
            Self::PerThread => "sum_per_thread",
            Self::WarpAggregated => "sum_warp_aggregated",
            Self::Registers => match groups {
                1 => "sum_registers_1",
                2 => "sum_registers_2",
                3..=4 => "sum_registers_4",
                5..=8 => "sum_registers_8",
                _ => return None,
            },
            Self::Global { .. } => "sum_global",
        })
    }

    /// Shared memory of a block, in bytes; for the laid-out column, without copies.
    pub(super) fn shared_bytes(self, groups: u64, threads: u64) -> u64 {
        match self {
            Self::ReadsOnly | Self::Registers | Self::Global { .. } => 0,
            Self::Slots | Self::Naive | Self::OneCopy | Self::WarpAggregated => 8 * groups,
            Self::Replicated { stride, .. } => 8 * groups * u64::from(stride),
            Self::PerThread => 8 * groups * threads,
        }
    }
}
