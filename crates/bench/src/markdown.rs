//! Tables in Markdown.

use std::fmt::{self, Display};

/// A table that is built column by column.
#[derive(Debug, Clone)]
pub struct Table<R> {
    rows: Vec<R>,
    /// The head, the rule below it, and a line per row.
    lines: Vec<String>,
}

impl<R> Table<R> {
    /// A table of `rows`, without columns.
    pub fn of(rows: impl IntoIterator<Item = R>) -> Self {
        let rows: Vec<R> = rows.into_iter().collect();
        Self {
            lines: vec!["|".to_string(); 2 + rows.len()],
            rows,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a left-aligned column of words.
    #[must_use]
    pub fn words<D: Display>(self, head: &str, cell: impl Fn(&R) -> D) -> Self {
        self.column(head, "---", cell)
    }

    /// Adds a right-aligned column of numbers.
    #[must_use]
    pub fn numbers<D: Display>(self, head: &str, cell: impl Fn(&R) -> D) -> Self {
        self.column(head, "---:", cell)
    }

    /// Adds a column of numbers with `digits` digits after the point, and `-` for a missing number.
    #[must_use]
    pub fn reals<V: Into<Option<f64>>>(self, head: &str, digits: usize, cell: impl Fn(&R) -> V) -> Self {
        self.numbers(head, |row| match cell(row).into() {
            Some(value) => format!("{value:.digits$}"),
            None => "-".to_string(),
        })
    }

    fn column<D: Display>(mut self, head: &str, rule: &str, cell: impl Fn(&R) -> D) -> Self {
        let cells = self.rows.iter().map(|row| cell(row).to_string());
        let cells = [head.to_string(), rule.to_string()].into_iter().chain(cells);
        for (line, cell) in self.lines.iter_mut().zip(cells) {
            *line += &format!(" {cell} |");
        }
        self
    }
}

impl<R> Display for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_table_aligns_columns() {
        let table = Table::of([("a", Some(1.0)), ("b", None)])
            .words("name", |row| row.0)
            .numbers("length", |row| row.0.len())
            .reals("rate", 2, |row| row.1)
            .reals("twice", 1, |_| 2.0);
        assert_eq!((table.len(), table.is_empty()), (2, false));
        assert_eq!(
            table.to_string(),
            "| name | length | rate | twice |\n\
             | --- | ---: | ---: | ---: |\n\
             | a | 1 | 1.00 | 2.0 |\n\
             | b | 1 | - | 2.0 |\n"
        );
    }
}
