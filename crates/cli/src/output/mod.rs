//! Output of results: formats for programs, written row by row as rows arrive, and tables for readers, fitted
//! to the terminal.

mod pager;
mod store;
mod table;
mod target;
mod writable;
mod writer;

pub(crate) use store::OutputStore;
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

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A table with borders, at most as wide as the terminal.
    Table,
    /// A table in Markdown.
    Markdown,
    /// One line per value.
    Expanded,
    /// One JSON array of objects.
    Json,
    /// One JSON object per line.
    #[value(name = "ndjson", alias = "nd-json")]
    NdJson,
    /// The default: a table.
    Automatic,
}

impl Format {
    /// Whether the format is meant for readers, who do not need every row.
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

/// The maximum number of rows of a table to show.
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

/// The width of tables in terminal columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// The width of the terminal; unlimited if results go elsewhere.
    Auto,
    /// This number of columns.
    Columns(usize),
    /// Unlimited.
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

/// The options of printing, set by arguments or the prompt.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// The format of results.
    pub(crate) format: Format,
    /// Whether tables are shown with one line per value.
    pub(crate) expanded: bool,
    /// The maximum number of rows of a table to show.
    pub(crate) limit: RowLimit,
    /// The width of tables in terminal columns.
    pub(crate) width: Width,
    /// Whether long results go through a pager at the prompt.
    pub(crate) pager: bool,
    /// Whether the footer lists the times of a query's phases.
    pub(crate) timing: bool,
    /// Whether progress and footer are omitted.
    pub(crate) quiet: bool,
    /// Whether the start-up file is running. Its results and errors are shown, but no other reports.
    pub(crate) starting: bool,
    /// Whether SQL is coloured.
    pub(crate) color: bool,
    /// The target of results.
    pub(crate) target: Target,
}

/// Rows as a table that fits the terminal, if standard output is one.
pub(crate) fn fitted(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let width = terminal().map(|(columns, _)| columns);
    let options = FormatOptions::default();
    table::shown(Format::Table, schema, batches, false, width, &options).map(|shown| shown.text)
}

impl Output {
    /// The format of results.
    pub(crate) fn form(&self) -> Format {
        match self.format {
            Format::Automatic | Format::Table if self.expanded => Format::Expanded,
            Format::Automatic => Format::Table,
            format => format,
        }
    }

    /// The maximum width of a table in terminal columns, if it is limited.
    pub(crate) fn columns(&self) -> Option<usize> {
        match self.width {
            Width::Columns(columns) => Some(columns),
            Width::Auto if self.target.is_terminal() => terminal().map(|(columns, _)| columns),
            Width::Auto | Width::Unlimited => None,
        }
    }

    /// Whether a pager may be used, because the terminal is interactive.
    pub(crate) fn may_page(&self) -> bool {
        self.pager && self.target.is_terminal() && io::stdin().is_terminal()
    }

    /// Shows output through the pager. Returns false without showing it, if it fits the screen or no pager
    /// exists.
    pub(crate) fn page(&self, text: &str) -> bool {
        let long = || {
            let lines = text.lines().count();
            terminal().is_some_and(|(_, rows)| lines > rows.saturating_sub(2))
        };
        self.may_page() && long() && pager::show(text)
    }

    /// Prints output for readers; through a pager if it is longer than the screen and the terminal is
    /// interactive.
    pub(crate) fn text(&self, text: &str) -> io::Result<()> {
        if self.page(text) {
            return Ok(());
        }
        self.write(text)
    }

    /// Prints output for readers without a pager.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut target = self.target.clone();
        target.write_all(text.as_bytes())?;
        target.flush()
    }
}

/// The number of columns and rows of the terminal, if standard output is one.
fn terminal() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns.0), usize::from(rows.0)))
}
