//! Plans of build sides that pipelines build.

use super::plan::Marking;
use galatea_expression::{
    BuiltColumn, GroupWords, KeySpace, LookupSide, OrderedString, PairShape, PairSide, Spare, WindowShape,
};
use galatea_kernels::KeyWidth;

/// A build side built by a pipeline.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// The key space.
    pub keys: KeySpace,
    /// Its columns, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Whether keys are required to be unique.
    pub unique: bool,
    /// The position of the column that marks indices without a row, and the sentinel that its entries hold
    /// there. `None`: presence is a bitmap or a table of keys.
    pub marker: Option<(usize, Spare)>,
}

impl BuildPlan {
    /// Number of indices.
    pub fn indices(&self) -> u64 {
        self.keys.indices()
    }

    /// Number of slots of the table of keys, if it has one.
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

    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::built(&self.keys, &self.columns, self.marker)
    }
}

/// The multimap build side of a join.
#[derive(Debug, Clone)]
pub struct MultimapPlan {
    /// The key space.
    pub keys: KeySpace,
    /// The columns of the join that this side provides, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
}

impl MultimapPlan {
    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::lists(&self.keys)
    }

    /// Bytes of the arrays that are read by key: the start of each key's list.
    pub fn lookup_bytes(&self) -> u64 {
        let slots = self.keys.slots.map_or(0, |slots| 8 * slots);
        4 * self.keys.indices() + slots
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        // The slot, the rank and the list position of each row.
        self.lookup_bytes() + rows * 12 + row_bytes(&self.columns, rows)
    }
}

/// The probe side of a multimap join.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// Number of the build side with the multimap.
    pub build_side: usize,
    /// The columns of the join that this side provides, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Whether rows without a match are kept.
    pub keeps_all: bool,
}

impl ProbePlan {
    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        // The list start, the list length and the offset of the first pair.
        rows * 16 + row_bytes(&self.columns, rows)
    }
}

/// Marks of the pairs and rows that fulfil a join condition.
#[derive(Debug, Clone, Copy)]
pub struct MarkPlan {
    /// Number of the build side that consists of the pairs.
    pub build_side: usize,
    /// The marks that are written.
    pub marking: Marking,
}

/// The matches of a join as a build side: of the rows of `probe` with rows of a multimap that provides the
/// columns `build`. `marking` contains the marks of a condition, if the matches are marked.
pub fn pairs_side(probe: &ProbePlan, build: &[BuiltColumn], marking: Option<Marking>) -> LookupSide {
    let (probe_alone, build_alone, mark) = match marking {
        None => (probe.keeps_all, false, None),
        Some(Marking::Outer {
            probe: alone, build, ..
        }) => (alone || probe.keeps_all, build, None),
        Some(Marking::Semi | Marking::Anti) => (true, false, None),
        Some(Marking::Mark { column }) => (true, false, Some(column)),
    };
    let of = |columns: &[BuiltColumn], side: PairSide| -> Vec<(usize, PairSide)> {
        columns.iter().map(|column| (column.column, side)).collect()
    };
    let sides = [of(&probe.columns, PairSide::Probe), of(build, PairSide::Build)].concat();
    let absent = [(PairSide::Build, probe_alone), (PairSide::Probe, build_alone)];
    let shape = PairShape {
        sides: sides.into_iter().collect(),
        absent: (absent.into_iter())
            .filter_map(|(side, absent)| absent.then_some(side))
            .collect(),
        mark,
    };
    LookupSide::pairs(&probe.columns, build, shape)
}

/// Rows that are sorted into the order of a window.
#[derive(Debug, Clone)]
pub struct WindowsPlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// The words of the sort key after the columns, the most significant first.
    pub words: Vec<KeyWidth>,
    /// Number of words of the partition, and of the order within the partition.
    pub keys: [usize; 2],
    /// The strings without a dictionary in the sort key, each with the number of its word.
    pub texts: Vec<(usize, OrderedString)>,
    /// The window functions.
    pub shape: WindowShape,
}

impl WindowsPlan {
    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::windows(&self.columns, self.shape.clone())
    }

    /// Bytes of `rows` stored rows.
    pub fn stored_bytes(&self, rows: u64) -> u64 {
        let words = self.words.iter().map(|width| width.bytes() as u64);
        rows.saturating_mul(words.sum()) + row_bytes(&self.columns, rows)
    }

    /// Bytes of the arrays that are derived from `rows` rows: the order, partitions and peers with their
    /// starts, prefix sums and trees.
    pub fn made_bytes(&self, rows: u64) -> u64 {
        let derived = self.shape.derived.iter().map(|derived| derived.form.bytes());
        rows.saturating_mul(20 + derived.sum::<u64>())
    }
}

/// Rows by position that are one part of another pipeline's input.
#[derive(Debug, Clone)]
pub struct StorePlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Number of the part.
    pub part: u32,
}

impl StorePlan {
    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::stored(&self.columns, self.part)
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        row_bytes(&self.columns, rows)
    }
}

/// Partitioned rows.
#[derive(Debug, Clone)]
pub struct PartitionPlan {
    /// The columns that are kept, in the order of the outputs.
    pub columns: Vec<BuiltColumn>,
    /// Number of partitions.
    pub parts: u32,
    /// Whether rows are only counted.
    pub counts: bool,
    /// Whether each partition begins at a multiple of 32 rows.
    pub aligned: bool,
}

impl PartitionPlan {
    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::partitions(&self.columns)
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        row_bytes(&self.columns, rows)
    }
}

/// Bytes of columns stored by position.
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
    /// The key space; each key has a group.
    pub keys: KeySpace,
    /// The words that are kept of each group.
    pub words: GroupWords,
}

impl GroupBuildPlan {
    /// Total number of words of all possible groups.
    pub fn words(&self) -> u64 {
        (self.keys.indices()).saturating_mul(self.words.stride as u64)
    }

    /// The build side as other pipelines look it up.
    pub fn build_side(&self) -> LookupSide {
        LookupSide::grouped(&self.keys, self.words.clone())
    }
}
