//! UNPIVOT: a row for each of several columns, with the column's name and value.
//!
//! `t UNPIVOT (v FOR n IN (a, b))` joins each row with the list of names, and selects the value by the number
//! of the name: `CASE number WHEN 1 THEN a WHEN 2 THEN b END`. So the table is read once, where a UNION ALL
//! reads it once for each column, and may read other rows of a subquery each time.

use super::SqlError;
use super::ast_parts::{alias, and, column, key, other_columns, parsed_query, text};
use super::column_lists::{argument, matched};
use super::question::{query_of, query_over, select_of};
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Ident, Join, JoinConstraint, JoinOperator, NullInclusion, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};
use std::fmt::Write;

const FORM: &str =
    "write UNPIVOT t ON a, b INTO NAME n VALUE v, or t UNPIVOT [INCLUDE NULLS] (v FOR n IN (a, b))";
/// The name of the list of names in the rewritten query.
const LIST: &str = "galatea unpivot";
/// Its columns. No table has columns of these names.
const LIST_NAME: &str = "galatea name";
const LIST_NUMBER: &str = "galatea number";

fn wrong(problem: impl Into<String>) -> DataFusionError {
    SqlError::clause("UNPIVOT", problem, FORM).into()
}

/// The columns that become a row: expressions, as many as the clause has values, and the name of the row.
struct Row {
    values: Vec<Expr>,
    name: String,
}

/// The subquery of an UNPIVOT of a table with these columns. `kind` is the type of an expression.
///
/// # Errors
/// A part of the clause does not fit the table.
pub(crate) fn joined(
    factor: TableFactor,
    schema: &DFSchema,
    kind: &mut dyn FnMut(&Expr) -> Result<DataType>,
) -> Result<TableFactor> {
    let TableFactor::Unpivot {
        table,
        value,
        name,
        columns,
        null_inclusion,
        alias: outer,
    } = factor
    else {
        return Ok(factor);
    };
    let values = value_names(&value)?;
    let mut rows = Vec::new();
    for item in &columns {
        rows.extend(rows_of(item, schema)?);
    }
    if rows.is_empty() {
        return Err(wrong("has no columns"));
    }
    if let Some(row) = rows.iter().find(|row| row.values.len() != values.len()) {
        return Err(wrong(format!(
            "has {} names of values, and {} columns in {}",
            values.len(),
            row.values.len(),
            row.name
        )));
    }
    for place in 0..values.len() {
        check_types(&rows, place, kind)?;
    }
    let used = rows.iter().flat_map(|row| &row.values);
    let mut items: Vec<SelectItem> = other_columns(schema, used)
        .into_iter()
        .map(SelectItem::UnnamedExpr)
        .collect();
    items.push(SelectItem::ExprWithAlias {
        expr: list_column(LIST_NAME),
        alias: name,
    });
    for (place, alias) in values.iter().enumerate() {
        items.push(SelectItem::ExprWithAlias {
            expr: selected(&rows, place),
            alias: alias.clone(),
        });
    }
    let tables = TableWithJoins {
        relation: *table,
        joins: vec![Join {
            relation: list(&rows),
            global: false,
            join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
        }],
    };
    let mut query = query_over(items, vec![tables]);
    if null_inclusion != Some(NullInclusion::IncludeNulls) {
        let mut outer = select_of(
            vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
            vec![TableWithJoins {
                relation: derived(query, Some(alias(LIST, &[]))),
                joins: Vec::new(),
            }],
        );
        let present = values
            .iter()
            .map(|name| Expr::IsNotNull(Box::new(Expr::Identifier(name.clone()))));
        outer.selection = present.reduce(and);
        query = query_of(SetExpr::Select(Box::new(outer)));
    }
    Ok(derived(query, outer.or_else(|| Some(alias(LIST, &[])))))
}

fn derived(
    query: datafusion::sql::sqlparser::ast::Query,
    alias: Option<datafusion::sql::sqlparser::ast::TableAlias>,
) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias,
        sample: None,
    }
}

/// The names of the values' columns.
fn value_names(value: &Expr) -> Result<Vec<Ident>> {
    match value {
        Expr::Identifier(name) => Ok(vec![name.clone()]),
        Expr::Nested(inner) => value_names(inner),
        Expr::Tuple(parts) => {
            let names = parts.iter().map(|part| match part {
                Expr::Identifier(name) => Ok(name.clone()),
                other => Err(wrong(format!("has {other} in place of a column's name"))),
            });
            names.collect()
        }
        other => Err(wrong(format!("has {other} in place of a column's name"))),
    }
}

/// The rows of an item of the list: a column, several in parentheses, or `COLUMNS(...)`.
fn rows_of(item: &ExprWithAlias, schema: &DFSchema) -> Result<Vec<Row>> {
    if let Some(list) = argument(&item.expr) {
        let mut rows = Vec::new();
        for (table, field) in schema.iter() {
            if matched(list, field.name())?.is_some() {
                rows.push(Row {
                    values: vec![column(table, field.name())],
                    name: field.name().clone(),
                });
            }
        }
        return Ok(rows);
    }
    let values = match &item.expr {
        Expr::Tuple(parts) => parts.clone(),
        other => vec![other.clone()],
    };
    let spelled = values.iter().map(|value| match value {
        Expr::Identifier(name) => key(name),
        Expr::CompoundIdentifier(parts) => parts.last().map(key).unwrap_or_default(),
        other => other.to_string(),
    });
    let name = match &item.alias {
        Some(alias) => key(alias),
        None => spelled.collect::<Vec<_>>().join("_"),
    };
    Ok(vec![Row { values, name }])
}

/// Whether values of both types fit one column without a conversion to another kind of type.
fn fits(one: &DataType, other: &DataType) -> bool {
    let plain = |kind: &DataType| match kind {
        DataType::Dictionary(_, kind) => kind.as_ref().clone(),
        kind => kind.clone(),
    };
    let (one, other) = (&plain(one), &plain(other));
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    one == other
        || one.is_null()
        || other.is_null()
        || one.is_numeric() && other.is_numeric()
        || one.is_temporal() && other.is_temporal()
        || is_text(one) && is_text(other)
}

fn check_types(rows: &[Row], place: usize, kind: &mut dyn FnMut(&Expr) -> Result<DataType>) -> Result<()> {
    let first = kind(&rows[0].values[place])?;
    for row in &rows[1..] {
        let other = kind(&row.values[place])?;
        if !fits(&first, &other) {
            return Err(wrong(format!(
                "has columns of different types: {} is {first}, and {} is {other}; cast one of them",
                rows[0].values[place], row.values[place]
            )));
        }
    }
    Ok(())
}

/// The names with their numbers, as a table.
fn list(rows: &[Row]) -> TableFactor {
    let mut values = String::from("VALUES ");
    for (number, row) in rows.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(values, "{comma}({}, {})", text(&row.name), number + 1);
    }
    derived(
        parsed_query(&values),
        Some(alias(LIST, &[LIST_NAME, LIST_NUMBER])),
    )
}

fn list_column(name: &str) -> Expr {
    column(Some(&datafusion::common::TableReference::bare(LIST)), name)
}

/// The value at a place of the row with the number of the list.
fn selected(rows: &[Row], place: usize) -> Expr {
    let mut query = String::from("SELECT CASE 0");
    for number in 1..=rows.len() {
        let _ = write!(query, " WHEN {number} THEN 0");
    }
    query += " END";
    let mut case = match *parsed_query(&query).body {
        SetExpr::Select(mut select) => match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(case)) => case,
            _ => Expr::Value(Value::Null.into()),
        },
        _ => Expr::Value(Value::Null.into()),
    };
    if let Expr::Case {
        operand, conditions, ..
    } = &mut case
    {
        *operand = Some(Box::new(list_column(LIST_NUMBER)));
        for (condition, row) in conditions.iter_mut().zip(rows) {
            condition.result = row.values[place].clone();
        }
    }
    case
}
