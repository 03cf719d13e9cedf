//! The Set Query benchmark (P. O'Neil, 1991): one table, and the seven queries of the paper.
//!
//! The table has 13 columns of integers: `KSEQ` counts the rows from 1, and `KN` is uniform from 1 to N. The
//! original also has 8 string columns. No query here reads them, and the paper leaves them out.
//!
//! | query | | source |
//! | --- | --- | --- |
//! | Q1 | `COUNT(*)` where `KN = 2` | published scripts |
//! | Q2-A | `COUNT(*)` where `K2 = 2` and `KN = 3` | published scripts |
//! | Q2-B | the same with `KN <> 3` | published scripts |
//! | Q3-A | `SUM(K1K)` where `KSEQ` is from 400000 to 500000 and `KN = 3` | published scripts |
//! | Q3-B | the same, with five ranges of `KSEQ` within that | memory of the definition, not checked |
//! | Q4-A | `KSEQ, K500K` where `K2 = 1`, `K100 > 80`, `K10K` is from 2000 to 3000 | published scripts |
//! | Q4-B | the same, and `K5 = 3` and `K25` is 11 or 19 | memory of the definition, not checked |
//!
//! The original varies `KN` and the conditions of Q4. The paper does not report its choice, so `KN` is a
//! parameter here. The ranges of `KSEQ` are for a million rows; they are scaled with the table.

use galatea_flow::paging::{Condition, PageQuery, PageShape, Paging, Wanted};

use crate::flow::random::Random;

/// Names of the columns, and their numbers of values; 0 for the number of rows.
pub const COLUMNS: [(&str, u32); 13] = [
    ("KSEQ", 0),
    ("K500K", 500_000),
    ("K250K", 250_000),
    ("K100K", 100_000),
    ("K40K", 40_000),
    ("K10K", 10_000),
    ("K1K", 1_000),
    ("K100", 100),
    ("K25", 25),
    ("K10", 10),
    ("K5", 5),
    ("K4", 4),
    ("K2", 2),
];

/// The number of a column.
///
/// # Panics
/// If [`COLUMNS`] does not contain the name.
#[must_use]
pub fn column(name: &str) -> usize {
    let found = COLUMNS.iter().position(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no column {name}"))
}

/// The table.
#[derive(Debug, Clone)]
pub struct SetQuery {
    columns: Vec<Vec<u32>>,
}

impl SetQuery {
    /// A table of `rows` rows.
    #[must_use]
    pub fn new(rows: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut next = || random.next() >> 32;
        let columns = COLUMNS.iter().map(|(_, values)| match values {
            0 => (1..=rows as u32).collect(),
            values => (0..rows)
                .map(|_| ((next() * u64::from(*values)) >> 32) as u32 + 1)
                .collect(),
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns[0].len()
    }

    /// The value of a column in a row.
    #[must_use]
    pub fn value(&self, row: usize, column: usize) -> u32 {
        self.columns[column][row]
    }

    /// The seven queries by name. `n` is the column used as `KN`.
    #[must_use]
    pub fn queries(&self, n: usize) -> Vec<(&'static str, PageQuery)> {
        let scaled = |row: u32| (u64::from(row) * self.rows() as u64 / 1_000_000) as u32;
        let range = |(from, to): (u32, u32)| (scaled(from), scaled(to));
        let sequence = column("KSEQ");
        let query = |conditions: Vec<Condition>, wanted| PageQuery { conditions, wanted };
        let two = Condition::equal(column("K2"), 2);
        let ranges = [
            (400_000, 410_000),
            (420_000, 430_000),
            (440_000, 450_000),
            (460_000, 470_000),
            (480_000, 500_000),
        ];
        let three = |ranges: &[(u32, u32)]| {
            let within = Condition::within(sequence, ranges);
            query(vec![within, Condition::equal(n, 3)], Wanted::Sum(column("K1K")))
        };
        let mut four = vec![
            Condition::equal(column("K2"), 1),
            Condition::within(column("K100"), &[(81, 100)]),
            Condition::within(column("K10K"), &[(2000, 3000)]),
        ];
        let rows = Wanted::Rows(sequence, column("K500K"));
        let four_a = query(four.clone(), rows);
        four.push(Condition::equal(column("K5"), 3));
        four.push(Condition::within(column("K25"), &[(11, 11), (19, 19)]));
        vec![
            ("Q1", query(vec![Condition::equal(n, 2)], Wanted::Count)),
            (
                "Q2-A",
                query(vec![two.clone(), Condition::equal(n, 3)], Wanted::Count),
            ),
            (
                "Q2-B",
                query(vec![two, Condition::different(n, 3)], Wanted::Count),
            ),
            ("Q3-A", three(&[range((400_000, 500_000))])),
            ("Q3-B", three(&ranges.map(range))),
            ("Q4-A", four_a),
            ("Q4-B", query(four, rows)),
        ]
    }

    /// A query's answer, computed on the CPU: count, sum and rows.
    #[must_use]
    pub fn answer(&self, query: &PageQuery, rows: std::ops::Range<usize>) -> (u64, u64, Vec<(u32, u32)>) {
        let (mut count, mut sum, mut found) = (0, 0, Vec::new());
        for row in rows {
            if query.matches(|column| self.value(row, column)) {
                count += 1;
                match query.wanted {
                    Wanted::Count => {}
                    Wanted::Sum(column) => sum += u64::from(self.value(row, column)),
                    Wanted::Rows(first, second) => {
                        found.push((self.value(row, first), self.value(row, second)));
                    }
                }
            }
        }
        (count, sum, found)
    }

    /// Number of frames of the table.
    #[must_use]
    pub fn frames(&self, shape: PageShape) -> usize {
        self.rows().div_ceil(shape.rows())
    }

    /// Writes one frame of the table.
    pub fn write(&self, shape: PageShape, paging: Paging, number: usize, frame: &mut [u32]) {
        let from = number * shape.rows();
        let to = self.rows().min(from + shape.rows());
        let columns: Vec<&[u32]> = self.columns.iter().map(|column| &column[from..to]).collect();
        shape.write(paging, &columns, frame);
    }
}
