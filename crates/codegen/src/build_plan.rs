//! Build sides as pipelines make them.

use super::plan::Marking;
use galatea_expression::{BuiltColumn, Dimension, GroupWords, KeySpace, OrderedText, Spare, WindowShape};
use galatea_kernels::KeyWidth;

/// A build side as a pipeline makes it.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// The possible keys.
    pub keys: KeySpace,
    /// Its columns, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// The column whose entries say where there is no row, by position, and what they are there; without it
    /// there is a bit for each index, or a table of keys.
    pub marker: Option<(usize, Spare)>,
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
        let presence = match (self.slots(), self.marker) {
            (Some(slots), _) => 8 * slots,
            (None, Some(_)) => 0,
            (None, None) => bits,
        };
        presence + self.columns.iter().map(column).sum::<u64>()
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::built(&self.keys, &self.columns, self.marker)
    }
}

/// The build side of a join whose keys repeat.
#[derive(Debug, Clone)]
pub struct ListsPlan {
    /// The possible keys.
    pub keys: KeySpace,
    /// The columns that it has of the join, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
}

impl ListsPlan {
    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::lists(&self.keys)
    }

    /// Bytes of what is touched by key: the list of each.
    pub fn lookup_bytes(&self) -> u64 {
        let slots = self.keys.slots.map_or(0, |slots| 8 * slots);
        4 * self.keys.indices() + slots
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        // The slot and rank of each row, and its place in a list.
        self.lookup_bytes() + rows * 12 + row_bytes(&self.columns, rows)
    }
}

/// The probe side of a join whose keys repeat.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// Which build side has the lists.
    pub dimension: usize,
    /// The columns that it has of the join, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Whether rows without partners are pairs.
    pub keeps_all: bool,
}

impl ProbePlan {
    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        // Where the list starts, how long it is, and the pairs before.
        rows * 16 + row_bytes(&self.columns, rows)
    }
}

/// Which pairs of a join, and which of its rows, fulfil the condition.
#[derive(Debug, Clone, Copy)]
pub struct MarkPlan {
    /// The build side whose pairs are the rows.
    pub dimension: usize,
    /// What becomes of them.
    pub marking: Marking,
}

/// Rows that are put in the order of a window.
#[derive(Debug, Clone)]
pub struct WindowsPlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// The words behind them, the most significant first.
    pub words: Vec<KeyWidth>,
    /// How many of them are of partitions, and how many of the order in these.
    pub keys: [usize; 2],
    /// The texts without a dictionary in them, with the number of the word.
    pub texts: Vec<(usize, OrderedText)>,
    /// The functions.
    pub shape: WindowShape,
}

impl WindowsPlan {
    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::windows(&self.columns, self.shape.clone())
    }

    /// Bytes of the rows as they are stored, of so many.
    pub fn stored_bytes(&self, rows: u64) -> u64 {
        let words = self.words.iter().map(|width| width.bytes() as u64);
        rows.saturating_mul(words.sum()) + row_bytes(&self.columns, rows)
    }

    /// Bytes of what is made of them, of so many: the order, partitions and peers with where they begin, sums
    /// and trees.
    pub fn made_bytes(&self, rows: u64) -> u64 {
        let derived = self.shape.derived.iter().map(|derived| derived.form.bytes());
        rows.saturating_mul(20 + derived.sum::<u64>())
    }
}

/// Rows by position, which are a part of another pipeline's rows.
#[derive(Debug, Clone)]
pub struct StorePlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Which part.
    pub part: u32,
}

impl StorePlan {
    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::stored(&self.columns, self.part)
    }

    /// Bytes of so many rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        row_bytes(&self.columns, rows)
    }
}

/// Rows in partitions.
#[derive(Debug, Clone)]
pub struct PartitionPlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Number of partitions.
    pub parts: u32,
    /// Whether rows are counted, and nothing else.
    pub counts: bool,
}

impl PartitionPlan {
    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::partitions(&self.columns)
    }

    /// Bytes, of so many rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        row_bytes(&self.columns, rows)
    }
}

/// Bytes of columns by position.
fn row_bytes(columns: &[BuiltColumn], rows: u64) -> u64 {
    let column = |column: &BuiltColumn| {
        let nulls = if column.nullable { rows.div_ceil(8) } else { 0 };
        rows.saturating_mul(column.width as u64) + nulls
    };
    columns.iter().map(column).sum()
}

/// Groups as a build side.
#[derive(Debug, Clone)]
pub struct GroupBuildPlan {
    /// The possible keys, each of which has its group.
    pub keys: KeySpace,
    /// What is left of each group.
    pub words: GroupWords,
}

impl GroupBuildPlan {
    /// Words of all possible groups.
    pub fn words(&self) -> u64 {
        (self.keys.indices()).saturating_mul(self.words.stride as u64)
    }

    /// What others look up.
    pub fn dimension(&self) -> Dimension {
        Dimension::grouped(&self.keys, self.words.clone())
    }
}
