//! Columns with a conflict layout ("laid-out columns"). Their codes are slots of a table in which values are
//! replicated, so that lanes of a warp that group by the column access different banks of shared memory
//! (Sitaridi & Ross, DaMoN 2012; `galatea_layout` has the algorithm).
//!
//! ```text
//! column         R   N   R   A  NULL  R        values A N R, NULL the last
//! codes          2   1   2   0   3    2
//! slots          2   1   5   0   3    4        slots 0 to 3 hold the values themselves, 4 and 5 copies of R
//!
//! SlotMap        0→0  1→1  2→2  3→3  4→2  5→2          which aggregates belong together
//! slot codes     0→0  1→1  2→2  3→0  4→2  5→2          what a slot decodes to; NULL and holes to 0
//! ```
//!
//! A code has the same meaning as without a layout: a rank in the dictionary, or a multiple of a factor above
//! a base, which here is the same for all chunks. Zones, ranges and validity bitmaps do not change. NULL rows
//! have a value of their own, so that they can be grouped by slot, too.
//!
//! Appended rows get the first copy of their value, whose slot is the value itself. If the layout lacks a
//! value, the append lays the column out again. The requested layout is stored with the table. A column that
//! cannot have it, because it has no rows or too many values, gets it once it can. Columns of files get it
//! whenever they are loaded.

mod pattern;

use std::fmt;

use arrow::array::ArrayRef;
use galatea_layout::model::Machine;
use galatea_layout::{
    AccessPattern, Analyser, Budget, Conflicts, Goal, Layout, LayoutError, LayoutOptions, LayoutReport,
    SlotMap,
};

pub use self::pattern::{ChunkTiles, PIPELINE_TILES, TileShape};
use crate::width::Width;

/// Maximum bytes of shared memory of the table with copies, with [`SLOT_BYTES`] each slot: three blocks fit a
/// multiprocessor.
pub const TABLE_BYTES: u64 = 64 << 10;
/// Bytes of a slot: one 64-bit accumulator.
pub const SLOT_BYTES: u32 = 8;

/// A requested layout: the conflicts to avoid and the memory for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConflictLayout {
    /// The conflicts to avoid.
    pub goal: Goal,
    /// Limit on copies.
    pub room: Room,
}

/// Limit on the size of a table with copies, in addition to [`TABLE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Room {
    /// Like [`Room::Table`], but a column of at most 256 values has at most 256 slots, so that slot numbers
    /// take one byte. It gets more slots only if they save more time than reading the wider column costs. If
    /// 256 slots are too few for the window, the window is reduced.
    Auto,
    /// [`TABLE_BYTES`] alone.
    Table,
    /// Copies per value, on average.
    Copies(f64),
}

impl ConflictLayout {
    /// The default window: the number of accesses during which a copy is not used again. Larger windows gain
    /// little (§4, Figure 5).
    pub const WINDOW: usize = 16;

    /// The layout for unknown queries: for writes, which avoids conflicts of reads as well.
    pub const AUTO: Self = Self {
        goal: Goal::Writes { window: Self::WINDOW },
        room: Room::Auto,
    };

    /// Lays out a column of codes below `values`.
    ///
    /// # Errors
    /// The errors of [`galatea_layout::lay_out`].
    pub fn lay_out<P: AccessPattern>(
        &self,
        codes: Vec<u32>,
        values: usize,
        pattern: &P,
    ) -> Result<Layout, LayoutError> {
        let table = Budget::shared_memory(TABLE_BYTES, SLOT_BYTES);
        let lay_out = |codes, goal, budget| {
            galatea_layout::lay_out(codes, values, pattern, &LayoutOptions::new(goal, budget))
        };
        let budget = match self.room {
            Room::Auto | Room::Table => table,
            Room::Copies(copies) => table.and_copies(copies),
        };
        if self.room != Room::Auto || values > BYTE_SLOTS {
            return lay_out(codes, self.goal, budget);
        }
        let bytes = Budget::shared_memory((BYTE_SLOTS * SLOT_BYTES as usize) as u64, SLOT_BYTES);
        let mut narrow: Option<(f64, Layout)> = None;
        for goal in with_smaller_windows(self.goal) {
            let found = lay_out(codes.clone(), goal, bytes)?;
            let time = counting(1, self.rounds(&found.slots, pattern));
            if time <= counting(2, 1.0) {
                return Ok(found);
            }
            if narrow.as_ref().is_none_or(|(least, _)| time < *least) {
                narrow = Some((time, found));
            }
        }
        let wide = lay_out(codes, self.goal, budget)?;
        let time = counting(2, self.rounds(&wide.slots, pattern));
        match narrow {
            Some((least, found)) if least <= time => Ok(found),
            _ => Ok(wide),
        }
    }

    /// Mean rounds of an access to the words of a column: of writes or reads, according to the goal.
    fn rounds<P: AccessPattern>(&self, words: &[u32], pattern: &P) -> f64 {
        let conflicts: Conflicts = Analyser::default().words(words, pattern);
        match self.goal {
            Goal::Reads => conflicts.mean_read_rounds(),
            Goal::Writes { .. } | Goal::WritesByValue { .. } => conflicts.mean_write_rounds(),
        }
    }
}

/// Number of slots whose numbers fit one byte.
const BYTE_SLOTS: usize = 256;

/// A goal, followed by the same goal with a quarter of its window and without a window, which need fewer
/// copies.
fn with_smaller_windows(goal: Goal) -> Vec<Goal> {
    let mut goals: Vec<Goal> = match goal {
        Goal::Reads => vec![goal],
        Goal::Writes { window } => [window, window / 4, 0]
            .map(|window| Goal::Writes { window })
            .into(),
        Goal::WritesByValue { window } => [window, window / 4, 0]
            .map(|window| Goal::WritesByValue { window })
            .into(),
    };
    goals.dedup();
    goals
}

/// Predicted time of an access, in rounds, for a query that counts rows by a column of `bytes` bytes a row.
/// Reads and updates overlap, so it is the longer of the two, by the model's figures of an H200 (reading a
/// byte of each row takes 1.7 rounds). Such a query reads nothing else, so conflicts weigh most.
fn counting(bytes: u32, rounds: f64) -> f64 {
    const ROWS: f64 = 32.0;
    let machine = Machine::H200;
    let read = f64::from(bytes) * ROWS * machine.rounds_per_second / machine.memory_bytes_per_second;
    read.max(rounds)
}

/// The meaning of a value's code.
#[derive(Debug, Clone)]
pub enum CodeMeaning {
    /// A rank in a sorted dictionary.
    Dictionary {
        /// As in [`crate::Encoding::Dictionary`].
        values: ArrayRef,
    },
    /// `base + factor * code`, in all chunks.
    Integer {
        /// The integer of code 0.
        base: i64,
        /// At least 1.
        factor: u64,
    },
}

/// The rows of a column as dense codes, to be laid out.
#[derive(Debug)]
pub(crate) struct DenseCodes {
    /// The code of each row, of all chunks in order.
    pub(crate) codes: Vec<u32>,
    /// Rows of each chunk.
    pub(crate) chunk_rows: Vec<u32>,
    /// Number of possible codes, that of NULL included.
    pub(crate) values: usize,
    /// The code of NULL rows, which is the last one; none without NULL rows.
    pub(crate) null: Option<u32>,
    /// The meaning of the other codes.
    pub(crate) meaning: CodeMeaning,
}

/// The layout of a laid-out column: the mapping from slots to codes, and its quality.
pub struct SlotLayout {
    /// The value of each slot. Values are the codes, followed by NULL if the column had NULL rows.
    pub map: SlotMap,
    /// The value of NULL rows: the number of the other values.
    pub null: Option<u32>,
    /// The meaning of codes.
    pub meaning: CodeMeaning,
    /// The access pattern of the layout.
    pub tiles: TileShape,
    /// The layout as requested.
    pub requested: ConflictLayout,
    /// Slots, copies and time of computing the layout.
    pub report: LayoutReport,
    /// Mean rounds of an access to one accumulator per value, before and after: of writes or reads, according
    /// to the goal.
    pub rounds: (f64, f64),
    slot_codes: Vec<u32>,
}

impl fmt::Debug for SlotLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotLayout")
            .field("values", &self.map.values())
            .field("slots", &self.map.slots())
            .field("null", &self.null)
            .field("requested", &self.requested)
            .finish_non_exhaustive()
    }
}

impl SlotLayout {
    /// Lays out the rows of a column. Also returns their slots.
    pub(crate) fn new(column: DenseCodes, requested: ConflictLayout) -> Result<(Self, Vec<u32>), NoLayout> {
        let (values, null, tiles) = (column.values, column.null, PIPELINE_TILES);
        let pattern = tiles.in_chunks(&column.chunk_rows)?;
        let codes = column.codes;
        let before = requested.rounds(&codes, &pattern);
        let found = requested.lay_out(codes, values, &pattern)?;
        // NULL is the last value; holes have larger numbers.
        let codes = values - usize::from(null.is_some());
        let slot_code = |&value: &u32| if (value as usize) < codes { value } else { 0 };
        let layout = Self {
            slot_codes: found.map.as_slice().iter().map(slot_code).collect(),
            map: found.map,
            null,
            meaning: column.meaning,
            tiles,
            requested,
            report: found.report,
            rounds: (before, requested.rounds(&found.slots, &pattern)),
        };
        Ok((layout, found.slots))
    }

    /// The code that each slot decodes to: 0 for slots of NULL, and for holes.
    pub fn slot_codes(&self) -> &[u32] {
        &self.slot_codes
    }

    /// Bytes per slot number in the column: at least one.
    pub fn width(&self) -> Width {
        Width::for_maximum(self.map.slots().saturating_sub(1) as u64).max(Width::One)
    }

    /// The integer of code 0; 0 for dictionaries.
    pub fn base(&self) -> i64 {
        match self.meaning {
            CodeMeaning::Integer { base, .. } => base,
            CodeMeaning::Dictionary { .. } => 0,
        }
    }

    /// The factor of codes; 1 for dictionaries.
    pub fn factor(&self) -> u64 {
        match self.meaning {
            CodeMeaning::Integer { factor, .. } => factor,
            CodeMeaning::Dictionary { .. } => 1,
        }
    }

    /// Values that are not NULL.
    pub(crate) fn codes(&self) -> u64 {
        self.map.values() as u64 - u64::from(self.null.is_some())
    }

    /// Heap memory of the map and of the slots' codes, in bytes; the dictionary is not part of it.
    pub fn bytes(&self) -> u64 {
        2 * 4 * self.map.slots() as u64
    }
}

/// The reason why a column cannot have a conflict layout.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLayout {
    /// Its values are not dense codes.
    #[error("{0}\nhint: integers, dates, times, decimals and strings that repeat can have one")]
    Encoding(&'static str),
    /// The column has no rows.
    #[error("the column has no rows")]
    Empty,
    /// The column has more values than slots.
    #[error(
        "it spans {values} values, and a block has shared memory for at most {limit} slots of {SLOT_BYTES} bytes \
         in {TABLE_BYTES} bytes\nhint: integers count from the least to the greatest in steps of their common divisor"
    )]
    TooManyValues {
        /// Number of values, NULL included if the column has NULL rows.
        values: u128,
        /// The maximum.
        limit: u64,
    },
    /// The algorithm refused.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
