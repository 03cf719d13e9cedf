//! Which region gives way when memory is short.

/// A policy of replacement. Regions give way in the order of their worth by it, least first; ties go
/// by recency, then by the order in which the regions were made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Replacement {
    /// How often a region was used, with uses counting half after 64 scans of any regions. A scan does
    /// not take pages from regions that are worth more than its own: it streams pages that do not fit.
    #[default]
    Frequency,
    /// Least recently used (MultiQx §4.2).
    Lru,
    /// Most recently used.
    Mru,
    /// Least frequently used, ever.
    Lfu,
    /// At random, from a fixed seed.
    Random,
    /// MultiQx's cost-driven replacement: least cost c = e + f·s·l, where e is the bytes to be copied out (of
    /// columns nothing, unless an [`Ablation`](super::Ablation) takes them for written), s the region's size
    /// and l its place from least to most recently used, divided by the number of regions.
    CostDriven {
        /// The latency factor f; MultiQx: 0.01.
        latency: f64,
    },
}

/// Scans after which a use counts half.
pub(super) const HALF_LIFE: f64 = 64.0;

/// Device memory that could be given up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<K> {
    /// Whose it is.
    pub(super) key: K,
    /// Number of the last scan that used it, and its place among those of the same.
    pub(super) recency: (u64, u64),
    /// Its bytes.
    pub(super) bytes: u64,
    /// Bytes that would have to be copied out.
    pub(super) dirty: u64,
    /// Uses so far.
    pub(super) uses: u64,
    /// Uses, older ones counted less; infinite for memory that is not a copy.
    pub(super) worth: f64,
}

impl<K> Candidate<K> {
    /// The same under another key.
    pub(super) fn with<L>(&self, key: L) -> Candidate<L> {
        Candidate {
            key,
            recency: self.recency,
            bytes: self.bytes,
            dirty: self.dirty,
            uses: self.uses,
            worth: self.worth,
        }
    }
}

impl Replacement {
    /// The victim of an eviction; `scan`: the worth of the scan that wants room, none for working memory,
    /// which is always served.
    pub(super) fn victim<K: Copy>(
        self,
        mut candidates: Vec<Candidate<K>>,
        random: &mut u64,
        scan: Option<f64>,
    ) -> Option<K> {
        candidates.sort_unstable_by_key(|candidate| candidate.recency);
        let count = candidates.len();
        if self == Self::Random {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from((*random >> 33) % count.max(1) as u64).unwrap_or(0);
            return candidates.get(at).map(|candidate| candidate.key);
        }
        let worth = |rank: usize, candidate: &Candidate<K>| match self {
            Self::Frequency => candidate.worth,
            Self::Lru => candidate.recency.0 as f64,
            Self::Mru => -(candidate.recency.0 as f64),
            Self::Lfu => candidate.uses as f64,
            Self::Random => 0.0,
            Self::CostDriven { latency } => {
                let recency = (rank + 1) as f64 / count as f64;
                candidate.dirty as f64 + latency * candidate.bytes as f64 * recency
            }
        };
        let ranked = candidates.iter().enumerate();
        let (least, key) = ranked
            .map(|(rank, candidate)| (worth(rank, candidate), candidate.key))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        match (self, scan) {
            (Self::Frequency, Some(own)) if own <= least => None,
            _ => Some(key),
        }
    }
}
