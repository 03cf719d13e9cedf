//! USING SAMPLE: a sample of the rows of all tables of a SELECT, before its WHERE.

use super::SqlError;
use super::clause_parts::SAMPLE_FORM;
use super::clause_tokens::SAMPLE;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Join, JoinConstraint, JoinOperator, Select, TableFactor, TableSample,
    TableSampleKind, TableSampleMethod, TableSampleModifier, TableSampleQuantity, TableSampleSeed,
    TableSampleSeedModifier, TableSampleUnit, TableWithJoins, Value,
};
use std::mem;

/// Whether a table is the marker of a sample of the tables before it.
fn is_sample(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table {
            name, args: Some(_), ..
        } => {
            let [part] = name.0.as_slice() else { return false };
            part.as_ident().is_some_and(|part| part.value == SAMPLE)
        }
        _ => false,
    }
}

/// Moves the sample of a SELECT to its table, or to the join of its tables.
pub(super) fn lift(select: &mut Select) -> Result<()> {
    let last = select.from.last_mut().and_then(|table| table.joins.last());
    if !last.is_some_and(|join| is_sample(&join.relation)) {
        return Ok(());
    }
    let Some(marker) = select.from.last_mut().and_then(|table| table.joins.pop()) else {
        return Ok(());
    };
    if let [table] = select.from.as_mut_slice()
        && table.joins.is_empty()
        && let TableFactor::Table {
            sample, args: None, ..
        }
        | TableFactor::Derived { sample, .. } = &mut table.relation
        && sample.is_none()
    {
        let clause = clause(&marker.relation)?;
        *sample = Some(TableSampleKind::AfterTableAlias(Box::new(clause)));
        return Ok(());
    }
    let mut tables = mem::take(&mut select.from).into_iter();
    let Some(mut all) = tables.next() else {
        return Ok(());
    };
    for table in tables {
        all.joins.push(Join {
            relation: match table.joins.is_empty() {
                true => table.relation,
                false => nested(table),
            },
            global: false,
            join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
        });
    }
    let all = match all.joins.is_empty() {
        true => all.relation,
        false => nested(all),
    };
    select.from = vec![TableWithJoins {
        relation: nested(TableWithJoins {
            relation: all,
            joins: vec![marker],
        }),
        joins: Vec::new(),
    }];
    Ok(())
}

fn nested(table: TableWithJoins) -> TableFactor {
    TableFactor::NestedJoin {
        table_with_joins: Box::new(table),
        alias: None,
    }
}

/// The tables of a nested join with a sample, and the sample; `None` for other tables.
pub(crate) fn sampled(factor: &TableFactor) -> Option<(TableFactor, Result<TableSample>)> {
    let TableFactor::NestedJoin { table_with_joins, .. } = factor else {
        return None;
    };
    let [marker] = table_with_joins.joins.as_slice() else {
        return None;
    };
    is_sample(&marker.relation).then(|| (table_with_joins.relation.clone(), clause(&marker.relation)))
}

fn wrong(problem: String) -> DataFusionError {
    SqlError::clause("USING SAMPLE", problem, SAMPLE_FORM).into()
}

/// The clause that the marker's arguments state.
fn clause(marker: &TableFactor) -> Result<TableSample> {
    let arguments = match marker {
        TableFactor::Table {
            args: Some(found), ..
        } => found.args.as_slice(),
        _ => &[],
    };
    let expressions: Vec<&Expr> = arguments
        .iter()
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
            _ => None,
        })
        .collect();
    let [amount, unit, method, seed] = expressions.as_slice() else {
        return Err(wrong("is incomplete".to_owned()));
    };
    let unit = match text(unit) {
        "PERCENT" => TableSampleUnit::Percent,
        _ => TableSampleUnit::Rows,
    };
    let name = match (text(method), unit) {
        ("", _) | ("RESERVOIR", TableSampleUnit::Rows) => None,
        ("BERNOULLI", TableSampleUnit::Percent) => Some(TableSampleMethod::Bernoulli),
        ("SYSTEM", TableSampleUnit::Percent) => Some(TableSampleMethod::System),
        ("BERNOULLI" | "SYSTEM" | "RESERVOIR", unit) => {
            let amount = match unit {
                TableSampleUnit::Rows => "a number of rows: it accepts a percentage, and reservoir rows",
                TableSampleUnit::Percent => {
                    "a percentage: it accepts rows, and bernoulli and system percentages"
                }
            };
            return Err(wrong(format!("{} cannot draw {amount}", text(method))));
        }
        (other, _) => {
            return Err(wrong(format!(
                "has an unknown method: {other}; methods are bernoulli, system and reservoir"
            )));
        }
    };
    let number = |text: &str| Value::Number(text.to_owned(), false).into();
    Ok(TableSample {
        modifier: TableSampleModifier::TableSample,
        name,
        quantity: Some(TableSampleQuantity {
            parenthesized: true,
            value: (*amount).clone(),
            unit: Some(unit),
        }),
        seed: (!text(seed).is_empty()).then(|| TableSampleSeed {
            modifier: TableSampleSeedModifier::Repeatable,
            value: number(text(seed)),
        }),
        bucket: None,
        offset: None,
    })
}

fn text(expression: &Expr) -> &str {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => "",
        },
        _ => "",
    }
}
