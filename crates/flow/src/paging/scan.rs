//! The operator that evaluates a query frame by frame, and the sum of its answers.

use std::borrow::Cow;

use super::frame::{PageShape, Paging, ROWS_OF_GROUP};
use super::query::{PageQuery, Wanted};
use crate::operator::GpuOperator;
use crate::topology::PAGE;

/// Bytes of a group's answer before the rows: rows that satisfy the query, sum, bytes read, pages read.
const ANSWER_BYTES: usize = 32;

/// Evaluates a query on each frame. A warp processes a group of rows at a time.
#[derive(Debug, Clone)]
pub struct PagedScan {
    /// The layout of frames.
    pub shape: PageShape,
    /// The order of their values.
    pub paging: Paging,
    /// Whether the index is used.
    pub index: bool,
    /// The query.
    pub query: PageQuery,
}

impl PagedScan {
    fn group_bytes(&self) -> usize {
        match self.query.wanted {
            Wanted::Rows(..) => ANSWER_BYTES + ROWS_OF_GROUP * 8,
            Wanted::Count | Wanted::Sum(_) => ANSWER_BYTES,
        }
    }

    /// Bytes of the frames of answers: whole pages.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        (self.shape.groups * self.group_bytes()).next_multiple_of(PAGE)
    }
}

impl GpuOperator for PagedScan {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("paged scan")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Owned(format!(
            "{}struct Operator {{\n    \
                 GALATEA_INLINE static void begin() {{}}\n    \
                 GALATEA_INLINE static void compute(Work& work) {{ scan_pages<Shape>(work, {}u); }}\n\
             }};\n",
            self.shape.constants(),
            self.group_bytes()
        ))
    }

    fn parameters(&self) -> Vec<u64> {
        self.query.words(self.paging == Paging::Columns, self.index)
    }
}

/// The sum of the answers of frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows that satisfy the query.
    pub count: u64,
    /// The sum, if the query has one.
    pub sum: u64,
    /// The rows, if the query returns rows.
    pub rows: Vec<(u32, u32)>,
    /// Bytes that the device requested: data by lines of 128 bytes, the index by sectors of 32.
    pub bytes: u64,
    /// Pages that it accessed.
    pub pages: u64,
}

impl Answer {
    /// Adds the answer of a frame.
    pub fn add(&mut self, scan: &PagedScan, frame: &[u32]) {
        for group in frame.chunks_exact(scan.group_bytes() / 4) {
            let word = |at: usize| u64::from(group[2 * at]) | u64::from(group[2 * at + 1]) << 32;
            let count = word(0);
            self.count += count;
            self.sum += word(1);
            self.bytes += word(2);
            self.pages += word(3);
            if let Wanted::Rows(..) = scan.query.wanted {
                let rows = group[ANSWER_BYTES / 4..].chunks_exact(2).take(count as usize);
                self.rows.extend(rows.map(|row| (row[0], row[1])));
            }
        }
    }

    /// Adds the answer for other frames.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.rows.extend(other.rows);
    }
}
