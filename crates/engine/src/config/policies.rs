//! Policies of the memory manager as settings.

use galatea_base::setting::{SettingValue, one_of, words};
use galatea_memory::regions::{Ablation, Ablations, Admission, Priority, Replacement};
use std::fmt::{self, Display};

words! {
    /// Which columns are evicted from device memory (`galatea.memory.replacement`).
    ReplacementPolicy {
        /// By decayed counts of use.
        Frequency = "frequency",
        /// Least recently used.
        Lru = "lru",
        /// Most recently used.
        Mru = "mru",
        /// Least frequently used.
        Lfu = "lfu",
        /// A random column.
        Random = "random",
        /// MultiQx's cost-driven replacement, with its default latency factor.
        Cost = "cost",
    }
}

impl ReplacementPolicy {
    /// The corresponding policy of the memory manager.
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
    /// Priority of a session's queries (`galatea.priority`).
    QueryPriority {
        /// After queries of other priorities.
        Low = "low",
        /// In order of arrival.
        Normal = "normal",
        /// Before queries of other priorities.
        High = "high",
    }
}

impl QueryPriority {
    /// The priority of waiting queries.
    pub fn priority(self) -> Priority {
        match self {
            Self::Low => Priority::Low,
            Self::Normal => Priority::Normal,
            Self::High => Priority::High,
        }
    }

    /// Priority of the stream of the query's kernels; a smaller number is more urgent, and 0 is the least
    /// urgent. Among queries of one priority, kernels of short runs precede those of long runs, since other
    /// queries would wait for the long ones.
    pub fn of_stream(self, short: bool) -> i32 {
        let long = match self {
            Self::Low => 0,
            Self::Normal => -2,
            Self::High => -4,
        };
        long - i32::from(short)
    }
}

/// Which queries use the device at once (`galatea.memory.admission`).
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

/// Parts of the memory manager that are disabled (`galatea.debug.memory_ablations`).
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
