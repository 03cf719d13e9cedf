//! Errors of statements about conflict layouts.

use datafusion::error::DataFusionError;

/// The reason that a conflict layout was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConflictLayoutError {
    /// A statement with an unknown option and a known one.
    #[error(
        "unknown option: {option}\n\
         hint: options are conflict_layout, conflict_layout.<column>, conflict_window and conflict_budget"
    )]
    Option {
        /// The option as written in the statement.
        option: String,
    },
    /// A value that the option does not accept.
    #[error("invalid value for {option}: '{value}'\nhint: {option} accepts {accepts}")]
    Value {
        /// The option.
        option: String,
        /// The value as written in the statement.
        value: String,
        /// The accepted values.
        accepts: &'static str,
    },
    /// A statement that lays out no column.
    #[error(
        "no layout is given\nhint: name one: ALTER TABLE t SET (conflict_layout = 'auto', conflict_window = 16)"
    )]
    Nothing,
    /// The table does not exist.
    #[error("no such table: {table}\nhint: {}", known_tables(.tables))]
    Table {
        /// The table as written in the statement.
        table: String,
        /// The tables of its schema.
        tables: Vec<String>,
    },
    /// The column does not exist.
    #[error("no such column: {column}\nhint: columns of {table} are {}", .columns.join(", "))]
    Column {
        /// The table.
        table: String,
        /// The column as written in the statement.
        column: String,
        /// The columns of the table.
        columns: Vec<String>,
    },
    /// The table is neither in the store nor in files.
    #[error(
        "{table} cannot be laid out: it is {what}\n\
         hint: files can be, and tables made by CREATE TABLE ... AS in a session with a device"
    )]
    NotStored {
        /// The table.
        table: String,
        /// The kind of the table.
        what: &'static str,
    },
    /// The session has no device that could use the layout.
    #[error(
        "conflict layouts serve queries on a device, and this session has none: {reason}\nhint: galatea --set galatea.device=emulated shows their effect"
    )]
    NoDevice {
        /// The reason that the session has no device.
        reason: String,
    },
    /// The context is not a Galatea session.
    #[error(
        "conflict layouts need a Galatea session\nhint: galatea::install makes one of any SessionContext"
    )]
    NoSession,
}

fn known_tables(tables: &[String]) -> String {
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
