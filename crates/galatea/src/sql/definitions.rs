//! The maximum number of macros, and of variables, that a session of a server may have.

use std::collections::HashMap;

use datafusion::prelude::SessionContext;

use super::SqlError;

/// The maximum number of macros, and of variables, of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefinitionLimit {
    pub(crate) most: usize,
    /// The setting of the maximum.
    pub(crate) setting: &'static str,
}

/// Checks that the session may define `name` beside the macros or variables in `known`. `kind`: the word for
/// them in the error, in the plural.
///
/// # Errors
/// [`SqlError::TooMany`].
pub(super) fn check<V>(
    ctx: &SessionContext,
    known: &HashMap<String, V>,
    kind: &'static str,
    name: &str,
) -> Result<(), SqlError> {
    let Some(limit) = ctx.copied_config().get_extension::<DefinitionLimit>() else {
        return Ok(());
    };
    if known.contains_key(name) || known.len() < limit.most {
        return Ok(());
    }
    Err(SqlError::TooMany {
        kind,
        name: name.to_owned(),
        count: known.len(),
        most: limit.most,
        setting: limit.setting,
    })
}
