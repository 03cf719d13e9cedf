//! PIVOT: a column for each value of another column, with an aggregate of the rows that have the value.
//!
//! `PIVOT t ON a USING sum(x) GROUP BY k` is `SELECT k, sum(x) FILTER (WHERE a = 1) AS "1", ... FROM t GROUP
//! BY k`. So the aggregates of all values are computed in one pass, on the device if it has the aggregate.
//! Values that the statement does not list are read by a query before.

use super::clause_parts::PIVOT;
use super::clause_tokens::GROUP;
use super::question::{Answer, Question, Value, ValuesQuery, query_of, query_over, select_of};
use super::{SqlError, ast_parts};
use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use ast_parts::{alias, call, called, each_part, key, named, parsed_query, text};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, PivotValueSource, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    UnaryOperator, Value as Literal,
};
use std::collections::HashSet;
use std::mem;
use std::ops::ControlFlow;

/// The maximum number of columns that a PIVOT creates.
const MAX_COLUMNS: usize = 1000;

const FORM: &str = "write PIVOT t ON column IN (1, 2) USING sum(x) GROUP BY k, or t PIVOT (sum(x) FOR column IN (1, 2) GROUP BY k)";

fn wrong(problem: impl Into<String>) -> DataFusionError {
    SqlError::clause("PIVOT", problem, FORM).into()
}

/// The arguments of a call of this function.
fn arguments_of<'a>(expression: &'a Expr, name: &str) -> Option<Vec<&'a Expr>> {
    let FunctionArguments::List(list) = &called(expression, name)?.args else {
        return None;
    };
    let expressions = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    });
    expressions.collect()
}

/// Replaces the SELECT of a rewritten PIVOT statement by the PIVOT of a table.
///
/// # Errors
/// The statement has another clause.
pub(super) fn from_select(select: &mut Select) -> Result<()> {
    let is_column = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(call) if arguments_of(call, PIVOT).is_some());
    if !select.projection.first().is_some_and(is_column) {
        return Ok(());
    }
    let mut groups = match mem::replace(
        &mut select.group_by,
        GroupByExpr::Expressions(Vec::new(), Vec::new()),
    ) {
        GroupByExpr::Expressions(groups, modifiers) if modifiers.is_empty() => groups,
        _ => return Err(wrong("cannot have GROUP BY ALL or a modifier of GROUP BY")),
    };
    let mut aggregates = Vec::new();
    for item in mem::take(&mut select.projection) {
        aggregates.push(match item {
            SelectItem::UnnamedExpr(expr) => ExprWithAlias { expr, alias: None },
            SelectItem::ExprWithAlias { expr, alias } => ExprWithAlias {
                expr,
                alias: Some(alias),
            },
            other => return Err(wrong(format!("cannot aggregate {other}"))),
        });
    }
    if !groups.is_empty() {
        let arguments = mem::take(&mut groups);
        aggregates.push(named(call(GROUP, arguments), None));
    }
    let mut tables = mem::take(&mut select.from);
    let (Some(table), true) = (tables.pop(), tables.is_empty()) else {
        return Err(wrong("needs one table"));
    };
    let table = match table.joins.is_empty() {
        true => table.relation,
        false => TableFactor::NestedJoin {
            table_with_joins: Box::new(table),
            alias: None,
        },
    };
    let rest = mem::replace(
        select,
        select_of(vec![SelectItem::Wildcard(Default::default())], Vec::new()),
    );
    let has_more = rest.selection.is_some()
        || rest.having.is_some()
        || rest.qualify.is_some()
        || rest.distinct.is_some()
        || !rest.named_window.is_empty();
    if has_more {
        return Err(wrong("cannot have WHERE, HAVING, QUALIFY, WINDOW or DISTINCT"));
    }
    let Some((column, values)) = column(&aggregates.remove(0).expr) else {
        return Err(wrong("has a column that is not an expression"));
    };
    let pivot = TableFactor::Pivot {
        table: Box::new(table),
        aggregate_functions: aggregates,
        value_column: vec![column],
        value_source: values,
        default_on_null: None,
        alias: None,
    };
    select.from = vec![TableWithJoins {
        relation: pivot,
        joins: Vec::new(),
    }];
    Ok(())
}

/// Names the aggregates of a PIVOT with several, before their functions are rewritten.
pub(super) fn name_aggregates(factor: &mut TableFactor) {
    let TableFactor::Pivot {
        aggregate_functions, ..
    } = factor
    else {
        return;
    };
    let is_aggregate = |item: &&mut ExprWithAlias| {
        arguments_of(&item.expr, PIVOT).is_none() && arguments_of(&item.expr, GROUP).is_none()
    };
    let aggregates: Vec<_> = aggregate_functions.iter_mut().filter(is_aggregate).collect();
    if aggregates.len() < 2 {
        return;
    }
    for item in aggregates {
        let spelled = || Ident::with_quote('"', item.expr.to_string());
        if item.alias.is_none() {
            item.alias = Some(spelled());
        }
    }
}

/// The column and the values of a call of the column's function.
fn column(expression: &Expr) -> Option<(Expr, PivotValueSource)> {
    match arguments_of(expression, PIVOT)?.as_slice() {
        [column] => Some(((*column).clone(), PivotValueSource::Any(Vec::new()))),
        [column, Expr::Subquery(values)] => Some(((*column).clone(), source(values))),
        _ => None,
    }
}

/// The values of a list, or of a query.
fn source(values: &Query) -> PivotValueSource {
    let list = match values.body.as_ref() {
        SetExpr::Select(select) if select.from.is_empty() && values.with.is_none() => {
            let items = select.projection.iter().map(|item| match item {
                SelectItem::UnnamedExpr(expr) => Some(named(expr.clone(), None)),
                SelectItem::ExprWithAlias { expr, alias } => Some(named(expr.clone(), Some(alias.clone()))),
                _ => None,
            });
            items.collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    match list {
        Some(list) => PivotValueSource::List(list),
        None => PivotValueSource::Subquery(Box::new(values.clone())),
    }
}

/// The columns of a PIVOT, each with its values.
fn columns_of(factor: &TableFactor) -> Vec<(Expr, PivotValueSource)> {
    let TableFactor::Pivot {
        aggregate_functions,
        value_column,
        value_source,
        ..
    } = factor
    else {
        return Vec::new();
    };
    let first = value_column
        .first()
        .map(|column| (column.clone(), value_source.clone()));
    let others = aggregate_functions.iter().filter_map(|item| column(&item.expr));
    first.into_iter().chain(others).collect()
}

/// The number of columns after FOR or ON.
pub(super) fn columns(factor: &TableFactor) -> usize {
    columns_of(factor).len()
}

/// The question for the values of a column that are not listed.
pub(super) fn question(factor: &TableFactor, number: usize) -> Option<Question> {
    let (column, values) = columns_of(factor).swap_remove(number);
    let inner = match values {
        PivotValueSource::List(_) => return None,
        PivotValueSource::Any(_) => {
            let TableFactor::Pivot { table, .. } = factor else {
                return None;
            };
            let tables = TableWithJoins {
                relation: (**table).clone(),
                joins: Vec::new(),
            };
            let item = SelectItem::ExprWithAlias {
                expr: column,
                alias: Ident::with_quote('"', "value"),
            };
            query_over(vec![item], vec![tables])
        }
        PivotValueSource::Subquery(query) => *query,
    };
    let mut query = parsed_query(&format!(
        "SELECT DISTINCT \"value\", CAST(\"value\" AS VARCHAR) AS \"name\" FROM (SELECT 1) AS v(\"value\") \
         WHERE \"value\" IS NOT NULL ORDER BY \"name\" LIMIT {}",
        MAX_COLUMNS + 1
    ));
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(table) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut table.relation
    {
        **subquery = inner;
    }
    Some(Question::Values(ValuesQuery { query }))
}

impl ValuesQuery {
    /// The values in the rows of the query.
    pub(super) fn read(&self, rows: &[RecordBatch]) -> Result<Vec<Value>> {
        let mut values = Vec::new();
        for batch in rows {
            let kind = match batch.column(0).data_type() {
                DataType::Dictionary(_, kind) => kind.as_ref().clone(),
                kind => kind.clone(),
            };
            let names = cast(batch.column(1), &DataType::Utf8)?;
            let names = arrow::array::AsArray::as_string::<i32>(&names);
            for row in 0..batch.num_rows() {
                let name = names.value(row).to_owned();
                let literal = literal(&name, &kind);
                values.push(Value { literal, name });
            }
        }
        if values.len() > MAX_COLUMNS {
            return Err(too_many(values.len()));
        }
        Ok(values)
    }
}

fn too_many(columns: usize) -> DataFusionError {
    let limit = MAX_COLUMNS;
    SqlError::PivotColumns { columns, limit }.into()
}

/// A literal of this type, from the string of its value.
fn literal(name: &str, kind: &DataType) -> Expr {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => text(name),
        kind if kind.is_integer() => {
            let number = |digits: &str| Expr::Value(Literal::Number(digits.to_owned(), false).into());
            match name.strip_prefix('-') {
                Some(digits) => Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(number(digits)),
                },
                None => number(name),
            }
        }
        DataType::Boolean => Expr::Value(Literal::Boolean(name == "true").into()),
        kind => call("arrow_cast", vec![text(name), text(&kind.to_string())]),
    }
}

/// Lists the values of a column.
pub(super) fn rewrite(factor: &mut TableFactor, number: usize, answer: Answer) -> Result<()> {
    let Answer::Values(values) = answer else {
        return Ok(());
    };
    let list = values.into_iter().map(|value| {
        let name = if value.name.is_empty() { "''" } else { &value.name };
        named(value.literal, Some(Ident::with_quote('"', name)))
    });
    let list: Vec<ExprWithAlias> = list.collect();
    let TableFactor::Pivot {
        aggregate_functions,
        value_source,
        ..
    } = factor
    else {
        return Ok(());
    };
    if number == 0 {
        *value_source = PivotValueSource::List(list);
        return Ok(());
    }
    let others = aggregate_functions
        .iter_mut()
        .filter(|item| arguments_of(&item.expr, PIVOT).is_some());
    if let Some(item) = others.into_iter().nth(number - 1)
        && let Some((column, _)) = column(&item.expr)
    {
        let items = list.into_iter().map(|item| match item.alias {
            Some(alias) => SelectItem::ExprWithAlias {
                expr: item.expr,
                alias,
            },
            None => SelectItem::UnnamedExpr(item.expr),
        });
        let list = query_over(items.collect(), Vec::new());
        item.expr = call(PIVOT, vec![column, Expr::Subquery(Box::new(list))]);
    }
    Ok(())
}

/// The subquery of a PIVOT of a table with these columns. `is_aggregate`: whether a function of this name is
/// an aggregate.
///
/// # Errors
/// A part of the clause does not fit the table.
pub(crate) fn grouped(
    factor: TableFactor,
    schema: &DFSchema,
    is_aggregate: &dyn Fn(&str) -> bool,
) -> Result<TableFactor> {
    let columns = columns_of(&factor);
    let TableFactor::Pivot {
        table,
        aggregate_functions,
        value_column,
        default_on_null,
        alias: outer,
        ..
    } = factor
    else {
        return Ok(factor);
    };
    if value_column.len() != 1 {
        return Err(wrong(
            "FOR (a, b) is not supported: write FOR a IN (...) b IN (...)",
        ));
    }
    if default_on_null.is_some() {
        return Err(SqlError::unsupported("DEFAULT ON NULL of PIVOT").into());
    }
    let mut groups = None;
    let mut aggregates = Vec::new();
    for item in aggregate_functions {
        if let Some(arguments) = arguments_of(&item.expr, GROUP) {
            groups = Some(arguments.into_iter().cloned().collect::<Vec<_>>());
        } else if arguments_of(&item.expr, PIVOT).is_none() {
            aggregates.push(item);
        }
    }
    let is_set = |group: &Expr| matches!(group, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    if groups.iter().flatten().any(is_set) {
        return Err(wrong("cannot have ROLLUP, CUBE or GROUPING SETS in its GROUP BY"));
    }
    let combinations = combinations(&columns, aggregates.len())?;
    let groups = match groups {
        Some(groups) => groups,
        None => {
            let used = columns.iter().map(|(column, _)| column);
            let used = used.chain(aggregates.iter().map(|item| &item.expr));
            ast_parts::other_columns(schema, used)
        }
    };
    let mut items: Vec<SelectItem> = groups.iter().cloned().map(SelectItem::UnnamedExpr).collect();
    let mut names: HashSet<String> = groups.iter().filter_map(last_name).collect();
    for (condition, name) in &combinations {
        for aggregate in &aggregates {
            let mut expr = aggregate.expr.clone();
            filter(&mut expr, condition, is_aggregate)?;
            let mut name = match &aggregate.alias {
                Some(alias) => format!("{name}_{}", key(alias)),
                None => name.clone(),
            };
            while !names.insert(name.clone()) {
                name += "_1";
            }
            let alias = Ident::with_quote('"', name);
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
    }
    if items.is_empty() {
        return Err(wrong("has neither values nor groups: its table has no rows"));
    }
    let tables = TableWithJoins {
        relation: *table,
        joins: Vec::new(),
    };
    let mut select = select_of(items, vec![tables]);
    select.group_by = GroupByExpr::Expressions(groups, Vec::new());
    Ok(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(SetExpr::Select(Box::new(select)))),
        alias: outer.or_else(|| Some(alias(PIVOT, &[]))),
        sample: None,
    })
}

fn last_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(key(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(key),
        _ => None,
    }
}

/// A condition for each combination of the columns' values, and its name.
fn combinations(columns: &[(Expr, PivotValueSource)], aggregates: usize) -> Result<Vec<(Expr, String)>> {
    let mut found: Vec<(Option<Expr>, String)> = vec![(None, String::new())];
    for (column, values) in columns {
        let PivotValueSource::List(values) = values else {
            return Err(wrong("needs the values of its column: IN (1, 2)"));
        };
        let number = found.len() * values.len() * aggregates;
        if number > MAX_COLUMNS {
            return Err(too_many(number));
        }
        let mut next = Vec::with_capacity(number);
        for (condition, name) in &found {
            for value in values {
                let equal = equals(column, &value.expr);
                let spelled = spelled(value);
                next.push(match condition {
                    None => (Some(equal), spelled),
                    Some(condition) => (
                        Some(ast_parts::and(condition.clone(), equal)),
                        format!("{name}_{spelled}"),
                    ),
                });
            }
        }
        found = next;
    }
    let found = found
        .into_iter()
        .filter_map(|(condition, name)| Some((condition?, name)));
    Ok(found.collect())
}

/// The name of a value's column.
fn spelled(value: &ExprWithAlias) -> String {
    match (&value.alias, &value.expr) {
        (Some(alias), _) => key(alias),
        (None, Expr::Value(literal)) => match &literal.value {
            Literal::SingleQuotedString(text) if text.is_empty() => "''".to_owned(),
            Literal::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        (None, Expr::Identifier(name)) => key(name),
        (None, other) => other.to_string(),
    }
}

fn equals(column: &Expr, value: &Expr) -> Expr {
    let column = Box::new(Expr::Nested(Box::new(column.clone())));
    if matches!(value, Expr::Value(literal) if literal.value == Literal::Null) {
        return Expr::IsNull(column);
    }
    Expr::BinaryOp {
        left: column,
        op: BinaryOperator::Eq,
        right: Box::new(value.clone()),
    }
}

/// Adds a condition to the aggregates of an expression.
fn filter(expression: &mut Expr, condition: &Expr, is_aggregate: &dyn Fn(&str) -> bool) -> Result<()> {
    let mut found = false;
    each_part(expression, |part| {
        if let Expr::Function(function) = part
            && function.over.is_none()
            && is_aggregate(&function.name.to_string().to_lowercase())
        {
            found = true;
            add_filter(function, condition);
        }
        ControlFlow::Continue(())
    })?;
    match found {
        true => Ok(()),
        false => Err(wrong(format!(
            "needs an aggregate function, and {expression} has none"
        ))),
    }
}

fn add_filter(function: &mut Function, condition: &Expr) {
    let own = function.filter.take();
    function.filter = Some(Box::new(match own {
        Some(own) => ast_parts::and(*own, condition.clone()),
        None => condition.clone(),
    }));
}
