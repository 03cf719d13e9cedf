//! The replacement policies: which region is evicted first when memory is short.

/// A replacement policy. Regions are evicted in the order of their worth by the policy, least first. Ties are
/// broken by recency, then by the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Replacement {
    /// Frequency of use; a use by a scan of fewer bytes counts more, and a use counts half after 64 scans of
    /// any regions. A scan evicts pages of a region that is worth less than its own; if that region was used
    /// more than once, by a margin. The scan streams the pages that do not fit.
    #[default]
    Frequency,
    /// Least recently used (MultiQx §4.2).
    Lru,
    /// Most recently used.
    Mru,
    /// Least frequently used, without decay.
    Lfu,
    /// At random, with a fixed seed.
    Random,
    /// MultiQx's cost-driven replacement: least cost c = e + f·s·l. e is the number of bytes to be copied out
    /// (for columns 0, unless an [`Ablation`](super::Ablation) treats them as written), s the region's size,
    /// and l its rank from least to most recently used, divided by the number of regions.
    CostDriven {
        /// The latency factor f; MultiQx: 0.01.
        latency: f64,
    },
}

/// Number of scans after which a use counts half.
pub(super) const HALF_LIFE: f64 = 64.0;

/// Bytes of a scan that count as much as its fixed costs.
const FIXED_BYTES: f64 = 64e6;

/// The worth of a use by a scan of this number of bytes. A page saves the same time in each scan, but this is
/// a larger share of the time of a small scan.
pub(super) fn weight(bytes: u64) -> f64 {
    FIXED_BYTES / (FIXED_BYTES + bytes as f64)
}

/// Ratio of worth that a scan needs to evict pages of a region with more than one use. The region of the
/// latest scan is worth slightly more than the others, so scans in turn would evict each other's pages.
const MARGIN: f64 = 1.25;

/// Device memory that could be evicted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<K> {
    /// The key of its region.
    pub(super) key: K,
    /// Number of the last scan that used it, and its position among those of the same scan.
    pub(super) recency: (u64, u64),
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// Bytes that an eviction would have to copy out.
    pub(super) dirty: u64,
    /// Number of uses so far.
    pub(super) uses: u64,
    /// The weights of uses, older ones counted less; infinite for memory that is not a copy.
    pub(super) worth: f64,
}

impl<K> Candidate<K> {
    /// The same candidate with another key.
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
    /// The victim of an eviction. `scan`: the worth of the scan that needs memory; `None` for working memory,
    /// which may evict any region.
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
        let margin = |candidate: &Candidate<K>| match (self, scan) {
            (Self::Frequency, Some(_)) if candidate.uses > 1 => MARGIN,
            _ => 1.0,
        };
        let (least, key) = ranked
            .map(|(rank, candidate)| (margin(candidate) * worth(rank, candidate), candidate.key))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        match (self, scan) {
            (Self::Frequency, Some(own)) if own <= least => None,
            _ => Some(key),
        }
    }
}
