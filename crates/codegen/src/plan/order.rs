//! Orders of rows that a pipeline knows of.

use galatea_expression::{Expr, WindowCall};

/// Rows that are put in the order of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowInput {
    /// Columns that are kept, by number, ascending.
    pub columns: Vec<(usize, Expr)>,
    /// Words of the partition, the most significant first, see
    /// [`Function::SortWord`](galatea_expression::Function::SortWord).
    pub partition: Vec<Expr>,
    /// Words of the order in it.
    pub order: Vec<Expr>,
    /// What equal rows are ordered by, where functions depend on that: their order in the source.
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

/// An order of rows that a pipeline knows of.
#[derive(Debug, Clone, PartialEq)]
pub enum RowOrder {
    /// The first rows of an order are wanted.
    First(TopRows),
    /// All rows are wanted, in order: the words of their places, the most significant first, see
    /// [`Function::SortWord`](galatea_expression::Function::SortWord).
    All(Vec<Expr>),
}

impl RowOrder {
    /// What rows are ordered by.
    pub fn expressions(&self) -> &[Expr] {
        match self {
            Self::First(top) => std::slice::from_ref(&top.key),
            Self::All(words) => words,
        }
    }
}

/// The first rows of an order: they are returned, and others that are as good by the key.
#[derive(Debug, Clone, PartialEq)]
pub struct TopRows {
    /// The place of a row in the order, see [`Function::SortKey`](galatea_expression::Function::SortKey).
    pub key: Expr,
    /// Whether it is the whole order, as far as it has bits for it: any rows of one key will do.
    pub whole: bool,
    /// How many rows are wanted.
    pub fetch: u64,
}
