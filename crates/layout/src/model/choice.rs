//! The model's answer: each layout, its cost or the reason why it is not possible, and the choice.

use std::fmt;

/// Where the accumulators of dense groups lie in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccumulatorLayout {
    /// Registers of each thread.
    Registers,
    /// One copy per block, updated by native 32-bit atomics.
    OneCopy,
    /// Replicated accumulators, a copy for each group of lanes: lane *l* updates word *group* × `stride` +
    /// *l* mod `copies`. With a stride of `copies` a copy keeps to banks of its own; the next odd stride
    /// spreads each copy over all banks.
    Replicated {
        /// Number of copies, a power of two.
        copies: u32,
        /// Words from a group to the next.
        stride: u32,
    },
    /// A copy per thread, updated without atomics.
    PerThread,
    /// One copy per block; the lanes of a warp that have the same group combine their rows first.
    WarpAggregated,
    /// A slot per copy, named by the rows of a laid-out column (Sitaridi & Ross §3).
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
    /// All of it, in seconds.
    pub seconds: f64,
    /// Reading the columns.
    pub memory_seconds: f64,
    /// Updating shared memory.
    pub shared_seconds: f64,
    /// Issuing instructions.
    pub issue_seconds: f64,
    /// Clearing and merging the replicated accumulators.
    pub merge_seconds: f64,
    /// Rounds of shared memory for the rows of an access, all accumulators together.
    pub rounds: f64,
    /// Shared memory of a block.
    pub shared_bytes: u64,
    /// Warps of a multiprocessor at once.
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

/// A layout, and its cost or the reason why there is none.
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
    /// Its copies do not fit.
    #[error("takes {needed} bytes of shared memory, of which a block may take {limit}")]
    SharedMemory {
        /// Bytes of a block.
        needed: u64,
        /// Bytes there are.
        limit: u64,
    },
    /// The column of the groups has no layout for writes.
    #[error("the column has no layout for writes")]
    NoLayout,
}

impl Prediction {
    /// Infinitely many where it is not possible.
    pub(super) fn seconds(&self) -> f64 {
        self.cost.map_or(f64::INFINITY, |cost| cost.seconds)
    }
}

/// All predictions, cheapest first; those that are not possible come last.
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

    /// The cheapest layout and its cost; `None` where none fits, and groups belong in device memory.
    #[must_use]
    pub fn best(&self) -> Option<(AccumulatorLayout, Cost)> {
        let first = self.predictions.first()?;
        Some((first.layout, first.cost.ok()?))
    }
}

/// An explanation: the chosen layout and its bottleneck, then the others with their cost relative to it.
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
