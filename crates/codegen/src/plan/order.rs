//! Row orders of pipelines.

use galatea_expression::{Expr, WindowCall};

/// Rows that are sorted into the order of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowInput {
    /// Columns that are kept, by number, ascending.
    pub columns: Vec<(usize, Expr)>,
    /// Words of the partition, the most significant first, see
    /// [`Function::SortWord`](galatea_expression::Function::SortWord).
    pub partition: Vec<Expr>,
    /// Words of the order within the partition.
    pub order: Vec<Expr>,
    /// The tie-breaker of equal rows, if functions depend on it: their order in the source.
    pub ties: Option<Expr>,
    /// Functions, by the number of their column, ascending.
    pub calls: Vec<(usize, WindowCall)>,
}

impl WindowInput {
    /// All words, the most significant first.
    pub fn words(&self) -> impl Iterator<Item = &Expr> {
        self.partition.iter().chain(&self.order).chain(&self.ties)
    }
}

/// The requested order of rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowOrder {
    /// Only the first rows of an order (top-k).
    First(TopRows),
    /// All rows, sorted. The words of the sort key, the most significant first, see
    /// [`Function::SortWord`](galatea_expression::Function::SortWord).
    All(Vec<Expr>),
}

impl RowOrder {
    /// The expressions of the sort key.
    pub fn expressions(&self) -> &[Expr] {
        match self {
            Self::First(top) => std::slice::from_ref(&top.key),
            Self::All(words) => words,
        }
    }
}

/// The first rows of an order. Rows that tie with the last one by key are returned as well.
#[derive(Debug, Clone, PartialEq)]
pub struct TopRows {
    /// The sort key, see [`Function::SortKey`](galatea_expression::Function::SortKey).
    pub key: Expr,
    /// Whether the key covers all sort columns, within its bits. Rows with equal keys are then
    /// interchangeable.
    pub whole: bool,
    /// Number of requested rows.
    pub fetch: u64,
}
