//! Names of a merged column and of the columns of single tables beside it: `SELECT k, t.k FROM t FULL JOIN u
//! USING (k)`.
//!
//! DataFusion refuses a column `k` without a table beside `t.k`, and `t.k` twice. As in DuckDB, the further
//! columns are `k_1`, `k_2` and so on.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use super::ast_parts::key;

/// Renames the columns of single tables that have the name of a merged column of the SELECT list.
pub(super) fn separate(items: &mut [SelectItem], merged: &HashMap<String, Expr>) {
    let mut taken: HashSet<String> = items.iter().filter_map(name).collect();
    let computed: HashSet<String> = items
        .iter()
        .filter(|item| matches!(item, SelectItem::ExprWithAlias { .. }))
        .filter_map(name)
        .collect();
    let mut seen = HashSet::new();
    for item in items {
        let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else {
            continue;
        };
        let path: Vec<String> = parts.iter().map(key).collect();
        let Some(name) = path.last().filter(|name| merged.contains_key(*name)).cloned() else {
            continue;
        };
        if !computed.contains(&name) && seen.insert(path) {
            continue;
        }
        let mut names = (1_usize..).map(|number| format!("{name}_{number}"));
        if let Some(name) = names.find(|name| taken.insert(name.clone())) {
            *item = SelectItem::ExprWithAlias {
                expr: Expr::CompoundIdentifier(parts.clone()),
                alias: Ident::with_quote('"', name),
            };
        }
    }
}

/// Replaces `t.*` by the columns of the table, if one of them is merged. `columns`: those of all tables.
pub(super) fn expand(items: &mut Vec<SelectItem>, columns: &[Expr], merged: &HashMap<String, Expr>) {
    let mut expanded = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let columns = table(&item).map(|table| of_table(&table, columns));
        let is_merged = |columns: &Vec<SelectItem>| {
            let mut names = columns.iter().filter_map(name);
            names.any(|name| merged.contains_key(&name))
        };
        match columns.filter(is_merged) {
            Some(columns) => expanded.extend(columns),
            None => expanded.push(item),
        }
    }
    *items = expanded;
}

/// The table of `t.*`.
fn table(item: &SelectItem) -> Option<Vec<String>> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) = item
    else {
        return None;
    };
    let plain = WildcardAdditionalOptions {
        wildcard_token: options.wildcard_token.clone(),
        ..WildcardAdditionalOptions::default()
    };
    if *options != plain {
        return None;
    }
    table.0.iter().map(|part| part.as_ident().map(key)).collect()
}

fn of_table(table: &[String], columns: &[Expr]) -> Vec<SelectItem> {
    let own = columns.iter().filter(|column| match column {
        Expr::CompoundIdentifier(parts) => {
            let parts: Vec<String> = parts.iter().map(key).collect();
            parts.split_last().is_some_and(|(_, path)| path == table)
        }
        _ => false,
    });
    own.cloned().map(SelectItem::UnnamedExpr).collect()
}

/// The name of a column of the result.
fn name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(key(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(key),
        SelectItem::ExprWithAlias { alias, .. } => Some(key(alias)),
        _ => None,
    }
}
