//! Policies of the memory manager as settings.

use super::{SettingValue, one_of};
use galatea_memory::regions::{Admission, Replacement};
use std::fmt::{self, Display};

words! {
    /// Which columns give up device memory (`galatea.replacement`).
    ReplacementPolicy {
        /// By decayed counts of use.
        Frequency = "frequency",
        /// Least recently used.
        Lru = "lru",
        /// Most recently used.
        Mru = "mru",
        /// Least frequently used.
        Lfu = "lfu",
        /// Any.
        Random = "random",
        /// MultiQx's cost-driven replacement, with its default latency factor.
        Cost = "cost",
    }
}

impl ReplacementPolicy {
    /// What the memory manager knows it as.
    pub fn policy(self) -> Replacement {
        match self {
            Self::Frequency => Replacement::Frequency,
            Self::Lru => Replacement::Lru,
            Self::Mru => Replacement::Mru,
            Self::Lfu => Replacement::Lfu,
            Self::Random => Replacement::Random,
            Self::Cost => Replacement::CostDriven { latency: 0.01 },
        }
    }
}

/// Which queries use the device at once (`galatea.admission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionPolicy(pub Admission);

impl Display for AdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Admission::Working => f.write_str("working"),
            Admission::Weight => f.write_str("weight"),
            Admission::Peak => f.write_str("peak"),
            Admission::Fixed(most) => write!(f, "fix-{most}"),
        }
    }
}

impl SettingValue for AdmissionPolicy {
    fn accepts() -> String {
        "working, weight, peak or fix-N with N from 1 on".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let policy = match text.as_str() {
            "working" => Admission::Working,
            "weight" => Admission::Weight,
            "peak" => Admission::Peak,
            text => Admission::Fixed(text.strip_prefix("fix-")?.parse().ok().filter(|most| *most > 0)?),
        };
        Some(Self(policy))
    }
}
