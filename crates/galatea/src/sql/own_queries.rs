//! The queries of statements that DataFusion does not have, for callers that check the tables and files of a
//! statement before it is executed.

use super::macros::{self, Change};
use super::summarize::Summarize;
use super::variables::VariableStatement;
use datafusion::error::Result;

/// The kind of a statement that [`own_statement`](super::own_statement) executes and that changes at most its
/// session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionStatement {
    /// `SUMMARIZE`, with its query.
    Summarize {
        /// The query.
        query: String,
    },
    /// `SET VARIABLE`, with a query of its value.
    SetVariable {
        /// The query.
        query: String,
    },
    /// `RESET VARIABLE`.
    ResetVariable,
    /// `CREATE MACRO`. The definition is part of each statement that calls the macro.
    CreateMacro,
    /// `DROP MACRO`.
    DropMacro,
}

/// Recognises such a statement; `None` for any other.
///
/// # Errors
/// The statement is malformed.
pub fn session_statement(text: &str) -> Result<Option<SessionStatement>> {
    if let Some(statement) = VariableStatement::read(text)? {
        return Ok(Some(match statement {
            VariableStatement::Set { value, .. } => SessionStatement::SetVariable {
                query: format!("SELECT ({value}) AS value"),
            },
            VariableStatement::Reset { .. } => SessionStatement::ResetVariable,
        }));
    }
    if let Some(summarize) = Summarize::parse(text) {
        let query = summarize.query().to_owned();
        return Ok(Some(SessionStatement::Summarize { query }));
    }
    Ok(macros::change(text).map(|change| match change {
        Change::Create => SessionStatement::CreateMacro,
        Change::Drop => SessionStatement::DropMacro,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_sessions_are_recognised() {
        let read = |text: &str| session_statement(text).expect(text);
        assert_eq!(
            read("SUMMARIZE t;"),
            Some(SessionStatement::Summarize {
                query: "SELECT * FROM t".to_owned()
            })
        );
        assert_eq!(
            read("set variable x = (SELECT max(a) FROM t)"),
            Some(SessionStatement::SetVariable {
                query: "SELECT ((SELECT max(a) FROM t)) AS value".to_owned()
            })
        );
        assert_eq!(read("RESET VARIABLE x"), Some(SessionStatement::ResetVariable));
        assert_eq!(
            read("CREATE OR REPLACE TEMP MACRO f(a) AS a"),
            Some(SessionStatement::CreateMacro)
        );
        assert_eq!(read("DROP MACRO IF EXISTS f"), Some(SessionStatement::DropMacro));
        for other in [
            "SELECT 1",
            "CREATE TABLE macro (a INT)",
            "SET galatea.device = 'cpu'",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert!(session_statement("SET VARIABLE x").is_err());
    }
}
