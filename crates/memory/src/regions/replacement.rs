//! Which region gives up pages when memory is short.

use super::region::Region;

/// A policy of replacement. Regions give up pages in the order of what they are worth to it, least first; ties go by recency, then by
/// the order in which the regions were made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Replacement {
    /// How often a region was used, with uses counting half after 64 scans of whatever region. A scan does not
    /// take pages from regions that are worth more than its own: it streams what does not fit.
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
    /// MultiQx's cost-driven replacement: least cost c = e + f·s·l, where e is what would have to be copied out (nothing, of copies,
    /// unless an [`Ablation`](super::Ablation) takes them for written), s the region's size and l its place from least to most recently used, divided by the number of regions.
    CostDriven {
        /// The latency factor f; MultiQx: 0.01.
        latency: f64,
    },
}

/// Scans after which a use counts half.
pub(super) const HALF_LIFE: f64 = 64.0;

impl Replacement {
    /// The region to take pages from; `scan`: the worth of the scan that wants them, none for working memory, which is always served.
    pub(super) fn victim<'a>(
        self,
        regions: impl Iterator<Item = (usize, &'a Region)>,
        now: u64,
        random: &mut u64,
        scan: Option<f64>,
        written: bool,
    ) -> Option<usize> {
        let mut regions: Vec<_> = regions.filter(|(_, region)| region.can_give()).collect();
        regions.sort_unstable_by_key(|(_, region)| (region.last, region.number));
        let count = regions.len();
        let worth = |rank: usize, region: &Region| match self {
            Self::Frequency => region.worth(now),
            Self::Lru => region.last as f64,
            Self::Mru => -(region.last as f64),
            Self::Lfu => region.uses as f64,
            Self::Random => rank as f64,
            Self::CostDriven { latency } => {
                let bytes = region.bytes_here() as f64;
                let moved = if written { bytes } else { 0.0 };
                moved + latency * bytes * (rank + 1) as f64 / count as f64
            }
        };
        if self == Self::Random {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from((*random >> 33) % count.max(1) as u64).unwrap_or(0);
            return regions.get(at).map(|(key, _)| *key);
        }
        let ranked = regions.iter().enumerate();
        let (least, key) = ranked
            .map(|(rank, (key, region))| (worth(rank, region), *key))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        match (self, scan) {
            (Self::Frequency, Some(own)) if own <= least => None,
            _ => Some(key),
        }
    }
}
