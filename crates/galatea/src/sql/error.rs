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
