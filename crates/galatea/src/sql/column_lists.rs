//! `COLUMNS('pattern')`, `COLUMNS(*)` and `COLUMNS(['a', 'b'])` in a SELECT list and in WHERE.
//!
//! `SELECT max(COLUMNS('^price')) FROM t` has an expression for each column of the tables that the pattern
//! matches, under the name of the column. In WHERE, the condition has to be true of each column.

use super::SqlError;
use super::ast_parts::{and, each_part, item_expression, key};
use super::question::{Answer, Question, query_over};
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Select, SelectItem, Value, WildcardAdditionalOptions,
};
use galatea_engine::syntax::visit_expressions;
use regex::Regex;
use std::mem;
use std::ops::ControlFlow;

const FORM: &str = "write COLUMNS('pattern'), COLUMNS(*), COLUMNS(* EXCLUDE (a)) or COLUMNS(['a', 'b'])";

fn wrong(problem: impl Into<String>) -> DataFusionError {
    SqlError::clause("COLUMNS", problem, FORM).into()
}

/// The argument of a call of COLUMNS.
pub(super) fn argument(expression: &Expr) -> Option<&FunctionArgExpr> {
    let Expr::Function(function) = expression else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let [part] = function.name.0.as_slice() else {
        return None;
    };
    let name = part.as_ident().filter(|name| name.quote_style.is_none())?;
    match list.args.as_slice() {
        [FunctionArg::Unnamed(argument)] if name.value.eq_ignore_ascii_case("columns") => Some(argument),
        _ => None,
    }
}

/// The argument of the calls in an expression, outside of its queries.
fn list_in(expression: &Expr) -> Result<Option<FunctionArgExpr>> {
    let mut found: Option<FunctionArgExpr> = None;
    let mut copy = expression.clone();
    each_part(&mut copy, |part| {
        match (argument(part), &found) {
            (Some(other), Some(known)) if other != known => {
                return ControlFlow::Break(wrong("occurs twice in an expression, with other columns"));
            }
            (Some(argument), _) => found = Some(argument.clone()),
            (None, _) => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Whether an expression has a call of COLUMNS.
pub(super) fn has_list(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| match argument(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The columns of a SELECT's tables, if it has such a list.
pub(super) fn question(select: &Select) -> Option<Question> {
    let items = select.projection.iter().filter_map(item_expression);
    let has_lists = items.chain(&select.selection).any(has_list);
    has_lists.then(|| {
        let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        Question::Tables(vec![query_over(all, select.from.clone())])
    })
}

/// A column of the tables.
struct Column {
    name: String,
    expr: Expr,
}

/// Replaces the lists.
///
/// # Errors
/// A list matches no column, or is not valid.
pub(super) fn rewrite(select: &mut Select, answer: Answer) -> Result<()> {
    let Answer::Tables(Some(tables)) = answer else {
        return Ok(());
    };
    let columns: Vec<(String, Expr)> = tables.into_iter().flatten().collect();
    let is_only = |name: &str| columns.iter().filter(|(other, _)| other == name).count() == 1;
    let columns = columns.iter().map(|(name, expr)| Column {
        name: name.clone(),
        // A name alone may be that of a merged column.
        expr: match is_only(name) {
            true => Expr::Identifier(Ident::with_quote('"', name)),
            false => expr.clone(),
        },
    });
    let columns: Vec<Column> = columns.collect();
    let mut items = Vec::new();
    for item in mem::take(&mut select.projection) {
        match item_expression(&item).map(list_in).transpose()?.flatten() {
            Some(list) => expand(item, &list, &columns, &mut items)?,
            None => items.push(item),
        }
    }
    select.projection = items;
    if let Some(selection) = &mut select.selection
        && let Some(list) = list_in(selection)?
    {
        let conditions = of_list(&list, &columns)?.into_iter();
        let conditions = conditions.map(|(column, _)| replaced(selection, column));
        let conditions: Result<Vec<Expr>> = conditions.collect();
        if let Some(all) = conditions?.into_iter().reduce(and) {
            *selection = all;
        }
    }
    Ok(())
}

/// The columns of a list, each with the groups of the pattern's match.
fn of_list<'c>(list: &FunctionArgExpr, columns: &'c [Column]) -> Result<Vec<(&'c Column, Vec<String>)>> {
    let mut found = Vec::new();
    for column in columns {
        if let Some(groups) = matched(list, &column.name)? {
            found.push((column, groups));
        }
    }
    match found.is_empty() {
        true => Err(wrong(format!("({list}) matches no column"))),
        false => Ok(found),
    }
}

fn expand(
    item: SelectItem,
    list: &FunctionArgExpr,
    columns: &[Column],
    items: &mut Vec<SelectItem>,
) -> Result<()> {
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
        _ => return Ok(()),
    };
    for (column, groups) in of_list(list, columns)? {
        let name = match &alias {
            Some(alias) => groups
                .iter()
                .enumerate()
                .fold(key(alias), |name, (number, group)| {
                    name.replace(&format!("\\{number}"), group)
                }),
            None => column.name.clone(),
        };
        items.push(match (argument(&expr), &alias) {
            (Some(_), None) => SelectItem::UnnamedExpr(column.expr.clone()),
            _ => SelectItem::ExprWithAlias {
                expr: replaced(&expr, column)?,
                alias: Ident::with_quote('"', name),
            },
        });
    }
    Ok(())
}

/// The expression with the column in place of the list.
fn replaced(expression: &Expr, column: &Column) -> Result<Expr> {
    let mut expression = expression.clone();
    each_part(&mut expression, |part| {
        if argument(part).is_some() {
            *part = column.expr.clone();
        }
        ControlFlow::Continue(())
    })?;
    Ok(expression)
}

/// The groups of a pattern's match with the name of a column, the whole name first; `None` if the list does
/// not have the column.
pub(super) fn matched(argument: &FunctionArgExpr, name: &str) -> Result<Option<Vec<String>>> {
    let whole = |is_in: bool| Ok(is_in.then(|| vec![name.to_owned()]));
    match argument {
        FunctionArgExpr::Wildcard => whole(true),
        FunctionArgExpr::WildcardWithOptions(options) => whole(!excludes(options, name)?),
        FunctionArgExpr::Expr(Expr::Array(names)) => {
            let names = names.elem.iter().map(|element| match element {
                Expr::Value(value) => match &value.value {
                    Value::SingleQuotedString(name) => Some(name.as_str()),
                    _ => None,
                },
                Expr::Identifier(name) => Some(name.value.as_str()),
                _ => None,
            });
            let names: Option<Vec<&str>> = names.collect();
            let names = names.ok_or_else(|| wrong("has a list with another element than a name"))?;
            whole(names.contains(&name))
        }
        FunctionArgExpr::Expr(Expr::Value(pattern)) => {
            let Value::SingleQuotedString(pattern) = &pattern.value else {
                return Err(wrong(format!("has {pattern} in place of a pattern")));
            };
            let pattern = Regex::new(pattern)
                .map_err(|error| wrong(format!("has a pattern that is not valid: {error}")))?;
            Ok(pattern.captures(name).map(|captures| {
                let groups = captures.iter();
                let groups = groups.map(|group| group.map_or("", |group| group.as_str()).to_owned());
                groups.collect()
            }))
        }
        other => Err(wrong(format!("has {other} in place of a pattern"))),
    }
}

/// Whether the options of a wildcard exclude a column.
fn excludes(options: &WildcardAdditionalOptions, name: &str) -> Result<bool> {
    let last = |excluded: &ObjectName| {
        let part = excluded.0.last().and_then(|part| part.as_ident());
        part.is_some_and(|part| key(part) == name)
    };
    let others = options.opt_ilike.is_some() || options.opt_replace.is_some() || options.opt_rename.is_some();
    if others {
        return Err(wrong("accepts EXCLUDE only after *"));
    }
    let excluded = match &options.opt_exclude {
        None => false,
        Some(ExcludeSelectItem::Single(one)) => last(one),
        Some(ExcludeSelectItem::Multiple(several)) => several.iter().any(last),
    };
    let excepted = match &options.opt_except {
        None => false,
        Some(ExceptSelectItem {
            first_element,
            additional_elements,
        }) => key(first_element) == name || additional_elements.iter().any(|part| key(part) == name),
    };
    Ok(excluded || excepted)
}
