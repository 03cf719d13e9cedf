//! Errors of SQL that is parsed but not supported, or that has no meaning.

use datafusion::error::DataFusionError;

/// The reason that a statement was refused before planning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// A clause, operator or statement that the planner would ignore.
    #[error("{clause} is not supported{}", hint_line(*.hint))]
    Unsupported {
        /// Its name, with the function or operator of the clause.
        clause: String,
        /// The SQL to write instead.
        hint: Option<&'static str>,
    },
    /// The name of a window that no WINDOW clause defines.
    #[error("no such window: {name}\nhint: define it after the tables: WINDOW {name} AS (PARTITION BY ...)")]
    Window {
        /// The name as written in the statement.
        name: String,
    },
    /// A definition of a window that repeats a part of the window that it extends.
    #[error("the window that extends {name} cannot have {clause}, which {name} has or follows from it")]
    WindowClause {
        /// The window that is extended.
        name: String,
        /// The clause.
        clause: &'static str,
    },
    /// A clause that is incomplete, or that does not fit its tables.
    #[error("{clause} {problem}\nhint: {form}")]
    Clause {
        /// The name of the clause.
        clause: &'static str,
        /// The problem.
        problem: String,
        /// The SQL to write instead.
        form: &'static str,
    },
    /// A name of the SELECT list that another clause cannot use.
    #[error("the name {name} of the SELECT list cannot be used here: {problem}\nhint: {hint}")]
    Alias {
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
        /// The SQL to write instead.
        hint: &'static str,
    },
    /// A macro or variable above the maximum number of the session.
    #[error(
        "the session has {count} {kind}, the maximum ({setting} = {most}), and cannot have {name} too\nhint: remove others, or raise {setting}"
    )]
    TooMany {
        /// The kind, in the plural.
        kind: &'static str,
        /// The name of the new one.
        name: String,
        /// The number of macros or variables that the session has.
        count: usize,
        /// The maximum.
        most: usize,
        /// The setting of the maximum.
        setting: &'static str,
    },
    /// A macro, or a call of one, that is not valid.
    #[error("the macro {name} {problem}")]
    Macro {
        /// The name of the macro.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A PIVOT with more columns than a statement may have.
    #[error(
        "PIVOT would have {columns} columns, and the limit is {limit}\nhint: list the values: ON column IN (...)"
    )]
    PivotColumns {
        /// The number of columns; for a column without a list, the least number.
        columns: usize,
        /// The limit.
        limit: usize,
    },
    /// A sample that cannot be drawn from a table.
    #[error("TABLESAMPLE {problem}\nhint: {hint}")]
    Sample {
        /// The problem.
        problem: String,
        /// The SQL to write instead.
        hint: &'static str,
    },
}

impl SqlError {
    /// A clause that is incomplete, or that does not fit its tables, and the SQL to write instead.
    pub(crate) fn clause(clause: &'static str, problem: impl Into<String>, form: &'static str) -> Self {
        Self::Clause {
            clause,
            problem: problem.into(),
            form,
        }
    }

    /// A clause without a hint.
    pub(crate) fn unsupported(clause: impl Into<String>) -> Self {
        Self::Unsupported {
            clause: clause.into(),
            hint: None,
        }
    }
}

fn hint_line(text: Option<&'static str>) -> String {
    text.map(|text| format!("\nhint: {text}")).unwrap_or_default()
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        Self::External(Box::new(error))
    }
}
