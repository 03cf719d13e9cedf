//! How results are printed: formats for programs, row by row as they come, and tables for readers, fitted to
//! the terminal.

mod pager;
mod table;
mod target;
mod writable;
mod writer;

pub(crate) use target::{Target, is_closed};
pub(crate) use writer::{Printed, write_rows};

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use clap::ValueEnum;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A table with borders, as wide as the terminal at most.
    Table,
    /// A table in Markdown.
    Markdown,
    /// A line for each value.
    Expanded,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    #[value(name = "ndjson", alias = "nd-json")]
    NdJson,
    /// A table.
    Automatic,
}

impl Format {
    /// Whether it is meant for readers, who do not need every row.
    pub(crate) fn is_for_readers(self) -> bool {
        matches!(self, Self::Table | Self::Expanded | Self::Automatic)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Rows of a table that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowLimit(pub(crate) Option<usize>);

impl FromStr for RowLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "inf" | "infinite" | "none" | "all" => Ok(Self(None)),
            number => match number.parse() {
                Ok(rows) => Ok(Self(Some(rows))),
                Err(_) => Err(format!("expected a number of rows, or inf for all: {text}")),
            },
        }
    }
}

impl fmt::Display for RowLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rows) => write!(f, "{rows}"),
            None => f.write_str("inf"),
        }
    }
}

/// Columns of text that a table may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Those of the terminal; any number where results go elsewhere.
    Auto,
    /// So many.
    Columns(usize),
    /// Any number.
    Unlimited,
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "inf" | "off" => Ok(Self::Unlimited),
            number => match number.parse() {
                Ok(columns) if columns >= 20 => Ok(Self::Columns(columns)),
                _ => Err(format!("expected auto, off, or at least 20 columns: {text}")),
            },
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Columns(columns) => write!(f, "{columns}"),
            Self::Unlimited => f.write_str("off"),
        }
    }
}

/// The options of printing, from arguments or the prompt.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The form of results.
    pub(crate) format: Format,
    /// Whether tables are shown as a line for each value.
    pub(crate) expanded: bool,
    /// Rows of a table that are shown.
    pub(crate) limit: RowLimit,
    /// Columns of text that a table may take.
    pub(crate) width: Width,
    /// Whether long results go through a pager, in the prompt.
    pub(crate) pager: bool,
    /// Whether the footer says where a query's time went.
    pub(crate) timing: bool,
    /// No progress, no footer.
    pub(crate) quiet: bool,
    /// Whether the start-up file runs: its results and errors are shown, but nobody asked how it goes.
    pub(crate) starting: bool,
    /// Whether SQL is coloured.
    pub(crate) color: bool,
    /// Where results go.
    pub(crate) target: Target,
}

/// Rows as a table that fits the terminal, if standard output is one.
pub(crate) fn fitted(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let width = terminal().map(|(columns, _)| columns);
    let options = FormatOptions::default();
    table::shown(Format::Table, schema, batches, false, width, &options).map(|shown| shown.text)
}

impl Output {
    /// The form of results.
    pub(crate) fn form(&self) -> Format {
        match self.format {
            Format::Automatic | Format::Table if self.expanded => Format::Expanded,
            Format::Automatic => Format::Table,
            format => format,
        }
    }

    /// Columns of text that a table may take, if they are limited.
    pub(crate) fn columns(&self) -> Option<usize> {
        match self.width {
            Width::Columns(columns) => Some(columns),
            Width::Auto if self.target.is_terminal() => terminal().map(|(columns, _)| columns),
            Width::Auto | Width::Unlimited => None,
        }
    }

    /// Whether long text goes through a pager: the terminal is interactive.
    pub(crate) fn may_page(&self) -> bool {
        self.pager && self.target.is_terminal() && io::stdin().is_terminal()
    }

    /// Shows text through the pager; false, and nothing shown, where it fits the screen or there is no pager.
    pub(crate) fn page(&self, text: &str) -> bool {
        let long = || {
            let lines = text.lines().count();
            terminal().is_some_and(|(_, rows)| lines > rows.saturating_sub(2))
        };
        self.may_page() && long() && pager::show(text)
    }

    /// Prints text for readers; through a pager where it is longer than the screen and the terminal is
    /// interactive.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        if self.page(text) {
            return Ok(());
        }
        self.write(text)
    }

    /// Prints text for readers without a pager.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut target = self.target.clone();
        target.write_all(text.as_bytes())?;
        target.flush()
    }
}

/// Columns and rows of the terminal that standard output is.
fn terminal() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns.0), usize::from(rows.0)))
}
