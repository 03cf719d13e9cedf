//! `SELECT g, sum(a) + 1 FROM t GROUP BY g ORDER BY 2`: positions of computed columns in the order of groups.
//!
//! The planner looks for such an expression among the groups and the aggregates, and does not find it. So the
//! column gets a name, by which the groups are ordered.

use super::ast_parts::{name_as_spelled, position};
use super::unnamed_parts::is_aggregate;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderBy, OrderByKind, Select, SelectItem,
};

/// Rewrites the positions in the ORDER BY of a SELECT with groups.
pub(super) fn by_names(select: &mut Select, order: Option<&mut OrderBy>, state: &SessionState) {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(keys, sets) => !keys.is_empty() || !sets.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if !groups || matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let Some(OrderByKind::Expressions(keys)) = order.map(|order| &mut order.kind) else {
        return;
    };
    for key in keys {
        let Some(position) = position(&key.expr) else {
            continue;
        };
        // The number of columns of a wildcard is unknown.
        let before = select.projection.iter().take(position);
        let mut wildcards = before.filter(|item| {
            !matches!(
                item,
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
            )
        });
        if wildcards.next().is_some() {
            continue;
        }
        let Some(item) = select.projection.get_mut(position - 1) else {
            continue;
        };
        let SelectItem::UnnamedExpr(expr) = item else {
            continue;
        };
        let is_found = match &*expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
            Expr::Function(call) => is_aggregate(call, state),
            _ => false,
        };
        if is_found {
            continue;
        }
        if let Some(name) = name_as_spelled(item) {
            key.expr = Expr::Identifier(name);
        }
    }
}
