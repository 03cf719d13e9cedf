//! What can be asked of conflict layouts and cannot be had.

use datafusion::error::DataFusionError;

/// Why a conflict layout was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConflictLayoutError {
    /// An option that is none of ours, beside one that is.
    #[error(
        "unknown option: {option}\n\
         hint: options are conflict_layout, conflict_layout.<column>, conflict_window and conflict_budget"
    )]
    Option {
        /// What was written.
        option: String,
    },
    /// A value that the option does not accept.
    #[error("invalid value for {option}: '{value}'\nhint: {option} accepts {accepts}")]
    Value {
        /// The option.
        option: String,
        /// What was written.
        value: String,
        /// What it accepts.
        accepts: &'static str,
    },
    /// A statement that lays out no column.
    #[error(
        "no layout is given\nhint: name one: ALTER TABLE t SET (conflict_layout = 'auto', conflict_window = 16)"
    )]
    Nothing,
    /// There is no such table.
    #[error("no such table: {table}\nhint: {}", tables_there_are(.tables))]
    Table {
        /// What was written.
        table: String,
        /// Those there are in its schema.
        tables: Vec<String>,
    },
    /// There is no such column.
    #[error("no such column: {column}\nhint: columns of {table} are {}", .columns.join(", "))]
    Column {
        /// The table.
        table: String,
        /// What was written.
        column: String,
        /// Those there are.
        columns: Vec<String>,
    },
    /// The table is neither in the store nor in files.
    #[error(
        "{table} cannot be laid out: it is {what}\n\
         hint: tables that CREATE TABLE ... AS makes in a session with a device can be, and files"
    )]
    NotStored {
        /// The table.
        table: String,
        /// What it is.
        what: &'static str,
    },
    /// No device would read the column.
    #[error(
        "conflict layouts serve queries on a device, and this session has none: {reason}\nhint: galatea --set galatea.device=emulated shows what they would do"
    )]
    NoDevice {
        /// Why there is none.
        reason: String,
    },
    /// The context is not a Galatea session.
    #[error(
        "conflict layouts need a Galatea session\nhint: galatea::install makes one of any SessionContext"
    )]
    NoSession,
}

fn tables_there_are(tables: &[String]) -> String {
    let files = "a file is a table in quotes: 'file.parquet'";
    match tables {
        [] => format!("there are no tables; {files}"),
        tables => format!("tables are {}; {files}", tables.join(", ")),
    }
}

impl From<ConflictLayoutError> for DataFusionError {
    fn from(error: ConflictLayoutError) -> Self {
        Self::External(Box::new(error))
    }
}
