//! Queries over one table: a conjunction of conditions, and the result for the rows that satisfy it.

/// Maximum number of ranges of a condition.
pub(super) const MOST_RANGES: usize = 6;
/// Maximum number of conditions of a query.
pub(super) const MOST_CONDITIONS: usize = 8;
/// 32-bit words of a condition: column, negated, ranges, unused; then the minima and maxima of the ranges.
const CONDITION_WORDS: usize = 4 + 2 * MOST_RANGES;

/// A condition on one column: its value is in one of some ranges, or in none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    column: usize,
    negated: bool,
    ranges: Vec<(u32, u32)>,
}

impl Condition {
    /// The column's value is in one of the ranges, both ends included.
    ///
    /// # Panics
    /// On more than six ranges, or none.
    #[must_use]
    pub fn within(column: usize, ranges: &[(u32, u32)]) -> Self {
        assert!(
            (1..=MOST_RANGES).contains(&ranges.len()),
            "{} ranges",
            ranges.len()
        );
        Self {
            column,
            negated: false,
            ranges: ranges.to_vec(),
        }
    }

    /// The column has this value.
    #[must_use]
    pub fn equal(column: usize, value: u32) -> Self {
        Self::within(column, &[(value, value)])
    }

    /// The column does not have this value.
    #[must_use]
    pub fn different(column: usize, value: u32) -> Self {
        Self {
            negated: true,
            ..Self::equal(column, value)
        }
    }

    fn holds(&self, value: u32) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(least, greatest)| (*least..=*greatest).contains(&value)) != self.negated
    }

    fn words(&self) -> [u32; CONDITION_WORDS] {
        let mut words = [0; CONDITION_WORDS];
        words[..3].copy_from_slice(&[
            self.column as u32,
            u32::from(self.negated),
            self.ranges.len() as u32,
        ]);
        for (at, (least, greatest)) in self.ranges.iter().enumerate() {
            words[4 + at] = *least;
            words[4 + MOST_RANGES + at] = *greatest;
        }
        words
    }
}

/// The result for the rows that satisfy all conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The number of rows.
    Count,
    /// The sum of a column.
    Sum(usize),
    /// Two columns of each row.
    Rows(usize, usize),
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Conditions, at most eight, evaluated in this order.
    pub conditions: Vec<Condition>,
    /// The result.
    pub wanted: Wanted,
}

impl PageQuery {
    /// Whether a row satisfies all conditions. `value` returns the row's value of a column.
    pub fn matches(&self, value: impl Fn(usize) -> u32) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.holds(value(condition.column)))
    }

    /// The query in the format that the device reads.
    pub(super) fn words(&self, columnar: bool, index: bool) -> Vec<u64> {
        assert!(self.conditions.len() <= MOST_CONDITIONS, "too many conditions");
        let (kind, first, second) = match self.wanted {
            Wanted::Count => (0, 0, 0),
            Wanted::Sum(column) => (1, column, 0),
            Wanted::Rows(first, second) => (2, first, second),
        };
        let mut words = vec![
            self.conditions.len() as u32,
            kind,
            first as u32,
            second as u32,
            u32::from(columnar),
            u32::from(index),
            0,
            0,
        ];
        for condition in &self.conditions {
            words.extend(condition.words());
        }
        let pair = |pair: &[u32]| u64::from(pair[0]) | u64::from(pair[1]) << 32;
        words.chunks_exact(2).map(pair).collect()
    }
}
