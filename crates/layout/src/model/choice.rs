//! The model's result: each layout, its cost or the reason why it is not possible, and the choice.

use std::fmt;

/// Layout of a block's accumulators of dense groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccumulatorLayout {
    /// Registers of each thread.
    Registers,
    /// One copy per block, updated by native 32-bit atomics.
    OneCopy,
    /// Replicated accumulators, a copy for each group of lanes: lane *l* updates word *group* × `stride` +
    /// *l* mod `copies`. With a stride of `copies`, a copy uses the same banks for all groups. The next odd
    /// stride spreads each copy over all banks.
    Replicated {
        /// Number of copies, a power of two.
        copies: u32,
        /// Number of words from one group to the next.
        stride: u32,
    },
    /// A copy per thread, updated without atomics.
    PerThread,
    /// One copy per block; the lanes of a warp that have the same group combine their rows first.
    WarpAggregated,
    /// A slot per copy, referenced by the rows of a laid-out column (Sitaridi & Ross §3).
    Slots,
}

impl fmt::Display for AccumulatorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers => write!(f, "registers"),
            Self::OneCopy => write!(f, "one copy"),
            Self::Replicated { copies, stride } => write!(f, "{copies} copies, stride {stride}"),
            Self::PerThread => write!(f, "a copy per thread"),
            Self::WarpAggregated => write!(f, "one copy, warp-aggregated"),
            Self::Slots => write!(f, "slots of the layout"),
        }
    }
}

/// The predicted cost of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Total time in seconds.
    pub seconds: f64,
    /// Reading the columns.
    pub memory_seconds: f64,
    /// Updating shared memory.
    pub shared_seconds: f64,
    /// Issuing instructions.
    pub issue_seconds: f64,
    /// Clearing and merging the replicated accumulators.
    pub merge_seconds: f64,
    /// Rounds of shared memory for the rows of an access, for all accumulators together.
    pub rounds: f64,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: u64,
    /// Number of resident warps of a multiprocessor.
    pub warps: u32,
}

impl Cost {
    /// The bottleneck.
    #[must_use]
    pub fn bound(&self) -> &'static str {
        let parts = [
            (self.memory_seconds, "device memory"),
            (self.shared_seconds, "shared memory"),
            (self.issue_seconds, "instructions"),
            (self.merge_seconds, "merging copies"),
        ];
        let longest = parts.iter().rev().max_by(|one, other| one.0.total_cmp(&other.0));
        longest.map_or("", |(_, name)| name)
    }
}

/// A layout, and its cost or the reason why it is not possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The layout.
    pub layout: AccumulatorLayout,
    /// Its cost.
    pub cost: Result<Cost, Unavailable>,
}

/// The reason why a layout is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The layout's copies do not fit into shared memory.
    #[error("takes {needed} bytes of shared memory, of which a block may take {limit}")]
    SharedMemory {
        /// Bytes of a block.
        needed: u64,
        /// Bytes available.
        limit: u64,
    },
    /// The column of the groups has no layout for writes.
    #[error("the column has no layout for writes")]
    NoLayout,
}

impl Prediction {
    /// Predicted seconds; infinite if the layout is not possible.
    pub(super) fn seconds(&self) -> f64 {
        self.cost.map_or(f64::INFINITY, |cost| cost.seconds)
    }
}

/// All predictions, cheapest first. Layouts that are not possible are last.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The predictions.
    pub predictions: Vec<Prediction>,
}

impl Choice {
    pub(super) fn among(mut predictions: Vec<Prediction>) -> Self {
        predictions.sort_by(|one, other| one.seconds().total_cmp(&other.seconds()));
        Self { predictions }
    }

    /// The cheapest layout and its cost. `None` if none fits: then groups should be in device memory.
    #[must_use]
    pub fn best(&self) -> Option<(AccumulatorLayout, Cost)> {
        let first = self.predictions.first()?;
        Some((first.layout, first.cost.ok()?))
    }
}

/// Prints an explanation: the chosen layout and its bottleneck, then the others with their relative cost.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((layout, best)) = self.best() else {
            write!(f, "no layout fits shared memory")?;
            return self
                .predictions
                .iter()
                .try_for_each(|prediction| write!(f, "; {prediction}"));
        };
        write!(
            f,
            "{layout}: {:.3} ms, bound by {} ({:.1} rounds per access, {} bytes and {} warps)",
            best.seconds * 1e3,
            best.bound(),
            best.rounds,
            best.shared_bytes,
            best.warps
        )?;
        for other in &self.predictions[1..] {
            match other.cost {
                Ok(cost) => write!(
                    f,
                    "; {}: {:.2} times that",
                    other.layout,
                    cost.seconds / best.seconds
                )?,
                Err(_) => write!(f, "; {other}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cost {
            Ok(cost) => write!(f, "{}: {:.3} ms", self.layout, cost.seconds * 1e3),
            Err(why) => write!(f, "{}: {why}", self.layout),
        }
    }
}
