//! Joins with USING and NATURAL: the columns of both sides are one column.
//!
//! DataFusion takes the left column in every join, and refuses the name in WHERE. Here the join becomes one
//! with ON, and the name becomes an expression: the left column of INNER and LEFT joins, the right one of
//! RIGHT joins, and the first of both that is not NULL of FULL joins. `*` becomes the list of the columns.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value, WildcardAdditionalOptions,
};

use super::asof;
use super::ast_parts::{and, call, each_part, key};
use super::clause_tokens::SAMPLE;
use super::join_parts::{constraint, constraint_mut, inner, operands};
use super::question::{Answer, Question, query_over};
use super::{merged_names, merged_outer};

/// A column that a name or `*` means.
#[derive(Debug, Clone)]
struct Visible {
    name: String,
    expr: Expr,
    is_merged: bool,
}

fn inner_mut(factor: &mut TableFactor) -> Option<&mut TableWithJoins> {
    inner(factor)?;
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => Some(table_with_joins),
        _ => None,
    }
}

/// Whether the join is the clause USING SAMPLE.
fn is_sample(join: &Join) -> bool {
    matches!(&join.relation, TableFactor::Table { name, .. } if name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == SAMPLE))
}

fn merges(table: &TableWithJoins) -> bool {
    let by_name = |join: &Join| {
        !asof::is_asof(join)
            && matches!(
                constraint(join),
                Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
            )
    };
    table.joins.iter().any(by_name) || operands(table).filter_map(inner).any(merges)
}

/// Replaces joins in parentheses by a query, if they merge columns and have a name, `(t JOIN u USING (k)) AS
/// j`, or are the table of PIVOT or UNPIVOT.
pub(super) fn as_query(factor: &mut TableFactor) {
    let (factor, is_table) = match factor {
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => (table.as_mut(), true),
        factor => (factor, false),
    };
    let TableFactor::NestedJoin {
        table_with_joins,
        alias,
    } = factor
    else {
        return;
    };
    if (is_table || alias.is_some()) && merges(table_with_joins) {
        let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        let tables = vec![table_with_joins.as_ref().clone()];
        *factor = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query_over(all, tables)),
            alias: alias.take(),
            sample: None,
        };
    }
}

/// The tables of a FROM, each by itself, from left to right.
fn factors<'t>(table: &'t TableWithJoins, found: &mut Vec<&'t TableFactor>) {
    let joined = table.joins.iter().filter(|join| !is_sample(join));
    for factor in [&table.relation]
        .into_iter()
        .chain(joined.map(|join| &join.relation))
    {
        match inner(factor) {
            Some(inner) => factors(inner, found),
            None => found.push(factor),
        }
    }
}

/// The tables of a SELECT, each as a query, if one of its joins merges columns.
pub(super) fn question(select: &Select) -> Option<Question> {
    if !select.from.iter().any(merges) {
        return None;
    }
    let mut found = Vec::new();
    select.from.iter().for_each(|table| factors(table, &mut found));
    let tables = found.into_iter().map(|factor| {
        let all = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        let table = TableWithJoins {
            relation: factor.clone(),
            joins: Vec::new(),
        };
        query_over(all, vec![table])
    });
    Some(Question::Joined {
        tables: tables.collect(),
        nested: merged_outer::tables(select),
    })
}

/// Replaces such joins, the names of their columns, and `*`. `order`: the ORDER BY of the SELECT's query.
pub(super) fn rewrite(select: &mut Select, order: Option<&mut OrderBy>, answer: Answer) -> Result<()> {
    let Answer::Joined {
        tables: Some(tables),
        nested,
    } = answer
    else {
        return Ok(());
    };
    let tables = tables.into_iter().map(|columns| {
        let visible = columns.into_iter().map(|(name, expr)| Visible {
            name,
            expr,
            is_merged: false,
        });
        visible.collect()
    });
    let mut tables: Vec<Vec<Visible>> = tables.collect();
    let own: Vec<Expr> = tables
        .iter()
        .flatten()
        .map(|column| column.expr.clone())
        .collect();
    tables.reverse();
    let mut from = select.from.clone();
    let mut visible = Vec::new();
    for table in &mut from {
        match of_joins(table, &mut tables)? {
            Some(columns) => visible.extend(columns),
            // The planner reports the error of the join.
            None => return Ok(()),
        }
    }
    select.from = from;
    let names = Names::of(visible);
    merged_outer::replace(select, &names.merged, &nested);
    merged_names::expand(&mut select.projection, &own, &names.merged);
    names.rewrite(select, order)
}

fn of_factor(factor: &mut TableFactor, tables: &mut Vec<Vec<Visible>>) -> Result<Option<Vec<Visible>>> {
    match inner_mut(factor) {
        Some(inner) => of_joins(inner, tables),
        None => Ok(tables.pop()),
    }
}

/// The columns of joined tables; `None` if a join has no meaning.
fn of_joins(table: &mut TableWithJoins, tables: &mut Vec<Vec<Visible>>) -> Result<Option<Vec<Visible>>> {
    let Some(mut visible) = of_factor(&mut table.relation, tables)? else {
        return Ok(None);
    };
    for join in &mut table.joins {
        if is_sample(join) {
            continue;
        }
        let Some(right) = of_factor(&mut join.relation, tables)? else {
            return Ok(None);
        };
        match joined(join, visible, right)? {
            Some(columns) => visible = columns,
            None => return Ok(None),
        }
    }
    Ok(Some(visible))
}

/// The columns of a join. Its constraint becomes a condition.
fn joined(join: &mut Join, left: Vec<Visible>, right: Vec<Visible>) -> Result<Option<Vec<Visible>>> {
    let kind = mem::discriminant(&join.join_operator);
    let is = |operator: fn(JoinConstraint) -> JoinOperator| {
        kind == mem::discriminant(&operator(JoinConstraint::None))
    };
    let takes_right = is(JoinOperator::Right) || is(JoinOperator::RightOuter);
    let is_full = is(JoinOperator::FullOuter);
    let only_left = [
        JoinOperator::Semi,
        JoinOperator::LeftSemi,
        JoinOperator::Anti,
        JoinOperator::LeftAnti,
    ];
    let only_left = only_left.into_iter().any(is);
    let only_right = is(JoinOperator::RightSemi) || is(JoinOperator::RightAnti);
    let Some(constraint) = constraint_mut(join) else {
        return Ok(None);
    };
    let names: Vec<String> = match &mut *constraint {
        JoinConstraint::Using(names) => {
            let names = names.iter().map(|name| match name.0.as_slice() {
                [part] => part.as_ident().map(key),
                _ => None,
            });
            match names.collect() {
                Some(names) => names,
                None => return Ok(None),
            }
        }
        JoinConstraint::Natural => {
            let is_common = |column: &&Visible| right.iter().any(|other| other.name == column.name);
            left.iter()
                .filter(is_common)
                .map(|column| column.name.clone())
                .collect()
        }
        JoinConstraint::On(condition) => {
            let both = left.iter().chain(&right).cloned().collect();
            Names::of(both).replace(condition)?;
            Vec::new()
        }
        JoinConstraint::None => Vec::new(),
    };
    let is_by_name = matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural);
    let (mut left, mut right) = (left, right);
    let mut condition: Option<Expr> = None;
    for name in names {
        let (Some(at), Some(other)) = (only(&left, &name), only(&right, &name)) else {
            return Ok(None);
        };
        let other = right.remove(other);
        let same = equal(left[at].expr.clone(), other.expr.clone());
        condition = Some(match condition {
            Some(condition) => and(condition, same),
            None => same,
        });
        if only_right {
            right.push(other);
            continue;
        }
        let column = &mut left[at];
        column.is_merged |= !only_left || column.is_merged;
        if takes_right {
            column.expr = other.expr;
        } else if is_full {
            let first = mem::replace(&mut column.expr, Expr::Value(Value::Null.into()));
            column.expr = call("coalesce", vec![first, other.expr]);
        }
    }
    if is_by_name {
        let always = || Expr::Value(Value::Boolean(true).into());
        *constraint = JoinConstraint::On(condition.unwrap_or_else(always));
    }
    Ok(Some(match (only_left, only_right) {
        (true, _) => left,
        (_, true) => right,
        _ => left.into_iter().chain(right).collect(),
    }))
}

/// The index of the only column of a name.
fn only(columns: &[Visible], name: &str) -> Option<usize> {
    let mut found = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.name == name);
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at)
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Eq,
        right: Box::new(right),
    }
}

/// The meaning of names in a SELECT.
struct Names {
    visible: Vec<Visible>,
    /// The columns that joins have merged.
    merged: HashMap<String, Expr>,
}

impl Names {
    fn of(visible: Vec<Visible>) -> Self {
        let merged = visible
            .iter()
            .enumerate()
            .filter(|(at, column)| column.is_merged && only(&visible, &column.name) == Some(*at));
        let merged = merged.map(|(_, column)| (column.name.clone(), column.expr.clone()));
        Self {
            merged: merged.collect(),
            visible,
        }
    }

    fn replace(&self, expression: &mut Expr) -> Result<()> {
        self.replace_except(expression, &HashSet::new())
    }

    fn replace_except(&self, expression: &mut Expr, kept: &HashSet<String>) -> Result<()> {
        each_part(expression, |part| {
            if let Expr::Identifier(name) = part
                && !kept.contains(&key(name))
                && let Some(column) = self.merged.get(&key(name))
            {
                *part = column.clone();
            }
            ControlFlow::Continue(())
        })
    }

    fn rewrite(&self, select: &mut Select, order: Option<&mut OrderBy>) -> Result<()> {
        let mut outputs = HashSet::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => _ = outputs.insert(key(name)),
                SelectItem::ExprWithAlias { alias, .. } => _ = outputs.insert(key(alias)),
                SelectItem::Wildcard(_) => outputs.extend(self.merged.keys().cloned()),
                _ => {}
            }
        }
        let mut items = Vec::new();
        for item in mem::take(&mut select.projection) {
            self.item(item, &mut items)?;
        }
        merged_names::separate(&mut items, &self.merged);
        select.projection = items;
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().try_for_each(|key| self.replace(key))?;
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            keys.iter_mut().try_for_each(|key| self.replace(key))?;
        }
        let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
        for condition in conditions.into_iter().flatten() {
            self.replace(condition)?;
        }
        if let Some(OrderByKind::Expressions(keys)) = order.map(|order| &mut order.kind) {
            for key in keys {
                self.replace_except(&mut key.expr, &outputs)?;
            }
        }
        Ok(())
    }

    /// Adds an item of the SELECT list.
    fn item(&self, item: SelectItem, items: &mut Vec<SelectItem>) -> Result<()> {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) if self.merged.contains_key(&key(&name)) => {
                let name = key(&name);
                items.push(named(&name, self.merged[&name].clone()));
            }
            SelectItem::UnnamedExpr(mut expr) => {
                self.replace(&mut expr)?;
                items.push(SelectItem::UnnamedExpr(expr));
            }
            SelectItem::ExprWithAlias { mut expr, alias } => {
                self.replace(&mut expr)?;
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
            SelectItem::Wildcard(options) => match self.all(&options)? {
                Some(all) => items.extend(all),
                None => items.push(SelectItem::Wildcard(options)),
            },
            other => items.push(other),
        }
        Ok(())
    }

    /// The columns of `*`; `None` with options that no planner reads.
    fn all(&self, options: &WildcardAdditionalOptions) -> Result<Option<Vec<SelectItem>>> {
        if options.opt_ilike.is_some() || options.opt_rename.is_some() || options.opt_alias.is_some() {
            return Ok(None);
        }
        let mut excluded: HashSet<String> = HashSet::new();
        if let Some(except) = &options.opt_except {
            excluded.insert(key(&except.first_element));
            excluded.extend(except.additional_elements.iter().map(key));
        }
        let names = match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
            Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
            None => &[],
        };
        for name in names {
            match name.0.as_slice() {
                [part] => excluded.extend(part.as_ident().map(key)),
                // The column of one table.
                _ => return Ok(None),
            }
        }
        if excluded
            .iter()
            .any(|name| !self.visible.iter().any(|column| column.name == *name))
        {
            return Ok(None);
        }
        let mut items = Vec::new();
        for column in self
            .visible
            .iter()
            .filter(|column| !excluded.contains(&column.name))
        {
            let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
            let mut replaced = replaced.filter(|element| key(&element.column_name) == column.name);
            items.push(match replaced.next() {
                Some(element) => {
                    let mut expr = element.expr.clone();
                    self.replace(&mut expr)?;
                    SelectItem::ExprWithAlias {
                        expr,
                        alias: Ident::with_quote('"', &column.name),
                    }
                }
                None => named(&column.name, column.expr.clone()),
            });
        }
        Ok(Some(items))
    }
}

/// A column under its name.
fn named(name: &str, expr: Expr) -> SelectItem {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(expr),
        expr => SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', name),
        },
    }
}

/// The SELECTs of a query outside of other queries.
pub(super) fn selects<'q>(body: &'q mut SetExpr, found: &mut Vec<&'q mut Select>) {
    match body {
        SetExpr::Select(select) => found.push(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, found);
            selects(right, found);
        }
        _ => {}
    }
}

/// The SELECT of a query, and the query's ORDER BY.
pub(super) fn with_order(query: &mut Query, number: usize) -> Option<(&mut Select, Option<&mut OrderBy>)> {
    let is_one = matches!(query.body.as_ref(), SetExpr::Select(_));
    let order = query.order_by.as_mut().filter(|_| is_one);
    let mut found = Vec::new();
    selects(&mut query.body, &mut found);
    (number < found.len()).then(|| (found.swap_remove(number), order))
}
