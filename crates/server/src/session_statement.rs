//! Statements that change at most their session: SUMMARIZE, macros and variables.

use galatea::SessionStatement;

/// The command tags of statements of macros.
pub(crate) const CREATE_MACRO: &str = "CREATE MACRO";
pub(crate) const DROP_MACRO: &str = "DROP MACRO";

/// The command tag of a statement, and the query that is executed with it; `None` for statements that a
/// server does not execute. The body of a macro is checked in each statement that calls the macro.
pub(crate) fn parts(statement: &SessionStatement) -> Option<(&'static str, Option<&str>)> {
    Some(match statement {
        SessionStatement::Summarize { query } => ("SUMMARIZE", Some(query)),
        SessionStatement::SetVariable { query } => ("SET", Some(query)),
        SessionStatement::ResetVariable => ("RESET", None),
        SessionStatement::CreateMacro => (CREATE_MACRO, None),
        SessionStatement::DropMacro => (DROP_MACRO, None),
        _ => return None,
    })
}
