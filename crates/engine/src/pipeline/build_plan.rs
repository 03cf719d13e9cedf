//! Build sides as pipelines make them.

use crate::expression::{BuiltColumn, Dimension, GroupWords, Interval, KeySpace};

/// A build side as a pipeline makes it.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// The possible keys.
    pub(crate) keys: KeySpace,
    /// Its columns, in the order of the outputs.
    pub(crate) columns: Vec<BuiltColumn>,
    /// Whether no two rows may have the same key.
    pub(crate) unique: bool,
}

impl BuildPlan {
    /// Number of indices.
    pub fn indices(&self) -> u64 {
        self.keys.indices()
    }

    /// Slots of its table of keys, if it has one.
    pub fn slots(&self) -> Option<u64> {
        self.keys.slots
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> u64 {
        let bits = self.indices().div_ceil(8);
        let column = |column: &BuiltColumn| {
            let nulls = if column.nullable { bits } else { 0 };
            self.indices().saturating_mul(column.width as u64) + nulls
        };
        let presence = self.slots().map_or(bits, |slots| 8 * slots);
        presence + self.columns.iter().map(column).sum::<u64>()
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::built(&self.keys, &self.columns)
    }
}

/// Groups as a build side.
#[derive(Debug, Clone)]
pub struct GroupBuildPlan {
    /// The possible keys.
    pub(crate) keys: Interval,
    /// What is left of each group.
    pub(crate) words: GroupWords,
}

impl GroupBuildPlan {
    /// Words of all possible groups.
    pub fn words(&self) -> u64 {
        ((self.keys.high - self.keys.low + 1) as u64).saturating_mul(self.words.stride as u64)
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::grouped(self.keys, self.words.clone())
    }
}
