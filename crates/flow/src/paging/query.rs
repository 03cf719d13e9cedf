//! Queries over one table: conditions that all must hold, and what is wanted of the rows.

/// Ranges of a condition, at most.
pub(super) const MOST_RANGES: usize = 6;
/// Conditions of a query, at most.
pub(super) const MOST_CONDITIONS: usize = 8;
/// 32-bit words of a condition: column, negated, ranges, nothing; then the least and greatest values.
const CONDITION_WORDS: usize = 4 + 2 * MOST_RANGES;

/// A condition on one column: that its value is in one of some ranges, or in none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    column: usize,
    negated: bool,
    ranges: Vec<(u32, u32)>,
}

impl Condition {
    /// That the column has a value from one of the ranges, both ends included.
    ///
    /// # Panics
    /// For more than six ranges, or none.
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

    /// That the column has a value.
    #[must_use]
    pub fn equal(column: usize, value: u32) -> Self {
        Self::within(column, &[(value, value)])
    }

    /// That it has not.
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

/// What is wanted of the rows that satisfy all conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// How many there are.
    Count,
    /// The sum of a column.
    Sum(usize),
    /// Two columns of each.
    Rows(usize, usize),
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Conditions, at most eight, which are evaluated in their order.
    pub conditions: Vec<Condition>,
    /// What is wanted.
    pub wanted: Wanted,
}

impl PageQuery {
    /// Whether a row satisfies all conditions; `value` gives the row's value of a column.
    pub fn matches(&self, value: impl Fn(usize) -> u32) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.holds(value(condition.column)))
    }

    /// The query as the device reads it.
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
