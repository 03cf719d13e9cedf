//! Defaults and keys of tables, as the catalog keeps them.

use std::collections::{BTreeMap, HashMap};

use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::unparser::expr_to_sql;

use super::catalog_file::KeyEntry;

/// The default of a column as SQL.
pub(super) fn sql_of(default: &Expr) -> Result<String> {
    Ok(expr_to_sql(default)?.to_string())
}

/// The defaults of columns from their SQL.
pub(super) fn defaults(
    kept: &BTreeMap<String, String>,
    state: &SessionState,
) -> Result<HashMap<String, Expr>> {
    let columns = DFSchema::empty();
    let defaults = kept.iter().map(|(column, sql)| {
        let default = state.create_logical_expr(sql, &columns)?;
        Ok((column.clone(), default))
    });
    defaults.collect()
}

pub(super) fn keys(constraints: &Constraints) -> Vec<KeyEntry> {
    let keys = constraints.iter().map(|constraint| match constraint {
        Constraint::PrimaryKey(columns) => KeyEntry::Primary(columns.clone()),
        Constraint::Unique(columns) => KeyEntry::Unique(columns.clone()),
    });
    keys.collect()
}
