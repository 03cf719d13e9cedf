//! Policies of the memory manager as settings.

use galatea_base::setting::{SettingValue, one_of, words};
use galatea_memory::regions::{Ablation, Ablations, Admission, Priority, Replacement};
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

words! {
    /// How urgent a session's queries are (`galatea.priority`).
    QueryPriority {
        /// After others.
        Low = "low",
        /// In order.
        Normal = "normal",
        /// Before others.
        High = "high",
    }
}

impl QueryPriority {
    /// What those that wait for their turn are ordered by.
    pub fn priority(self) -> Priority {
        match self {
            Self::Low => Priority::Low,
            Self::Normal => Priority::Normal,
            Self::High => Priority::High,
        }
    }

    /// Priority of the stream of its kernels; less is sooner, 0 is the last of all. Among the queries of one
    /// priority, kernels of short runs go before those of long ones, which others would wait for.
    pub fn of_stream(self, short: bool) -> i32 {
        let long = match self {
            Self::Low => 0,
            Self::Normal => -2,
            Self::High => -4,
        };
        long - i32::from(short)
    }
}

/// Which queries use the device at once (`galatea.admission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionPolicy(pub Admission);

impl Display for AdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Admission::Auto => f.write_str("auto"),
            Admission::Working => f.write_str("working"),
            Admission::Weight => f.write_str("weight"),
            Admission::Peak => f.write_str("peak"),
            Admission::Fixed(most) => write!(f, "fix-{most}"),
        }
    }
}

impl SettingValue for AdmissionPolicy {
    fn accepts() -> String {
        "auto, working, weight, peak or fix-N with N from 1 on".to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let policy = match text.as_str() {
            "auto" => Admission::Auto,
            "working" => Admission::Working,
            "weight" => Admission::Weight,
            "peak" => Admission::Peak,
            text => Admission::Fixed(text.strip_prefix("fix-")?.parse().ok().filter(|most| *most > 0)?),
        };
        Some(Self(policy))
    }
}

/// Parts of the memory manager that are left out (`galatea.memory_ablations`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryAblations(pub Ablations);

impl Display for MemoryAblations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Ablation::ALL.iter().filter(|(ablation, _)| self.0.has(*ablation));
        let words: Vec<&str> = words.map(|(_, word)| *word).collect();
        match words.as_slice() {
            [] => f.write_str("none"),
            words => f.write_str(&words.join(",")),
        }
    }
}

impl SettingValue for MemoryAblations {
    fn accepts() -> String {
        let words = Ablation::ALL.map(|(_, word)| word);
        format!("none, or a list of {}, separated by commas", one_of(&words))
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("none") {
            return Some(Self::default());
        }
        let find = |word: &str| {
            let known = (Ablation::ALL.iter()).find(|(_, known)| word.trim().eq_ignore_ascii_case(known));
            known.map(|(ablation, _)| *ablation)
        };
        let mut words = text.split(',');
        let all = words.try_fold(Ablations::default(), |all, word| Some(all.with(find(word)?)));
        all.map(Self)
    }
}
