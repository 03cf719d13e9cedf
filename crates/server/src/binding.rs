//! Binds values to the parameters of a plan.
//!
//! A value keeps its type, so a comparison of an integer column with 10.5 is exact. Only the columns that a
//! statement changes convert values to their types, as an assignment does.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ParamValues, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, DmlStatement, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Values, cast,
};

/// Whether values of the type are strings.
fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string(),
    }
}

/// The type without fractions through which decimals become integers. Conversions of decimals round, and
/// those to integers do not.
const WHOLE: DataType = DataType::Decimal256(76, 0);

/// A value as an assignment to a column of the type converts it: numbers are rounded.
///
/// # Errors
/// The type does not have the value.
pub(crate) fn assigned(value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
    let from = value.data_type();
    if from == *to {
        return Ok(value.clone());
    }
    if to.is_integer() && from.is_decimal() {
        return value.cast_to(&WHOLE)?.cast_to(to);
    }
    match value {
        ScalarValue::Float64(Some(number)) if to.is_integer() => {
            ScalarValue::Float64(Some(number.round_ties_even())).cast_to(to)
        }
        ScalarValue::Float32(Some(number)) if to.is_integer() => {
            ScalarValue::Float32(Some(number.round_ties_even())).cast_to(to)
        }
        _ => value.cast_to(to),
    }
}

/// The type of a decimal parameter in a plan. Its value has another precision and scale.
pub(crate) const ANY_DECIMAL: DataType = DataType::Decimal128(37, 11);

/// Removes the casts of parameters to [`ANY_DECIMAL`].
pub(crate) fn without_any_decimal(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|part| match part {
                Expr::Cast(cast)
                    if *cast.field.data_type() == ANY_DECIMAL
                        && matches!(cast.expr.as_ref(), Expr::Placeholder(_)) =>
                {
                    let name = Expr::Cast(cast.clone()).schema_name().to_string();
                    Ok(Transformed::yes(cast.expr.alias(name)))
                }
                part => Ok(Transformed::no(part)),
            })
        })
    });
    Ok(plan?.data)
}

/// The types that a plan determines for its parameters, by name; `None` for a parameter with no type or with
/// several.
pub(crate) fn parameter_types(plan: &LogicalPlan) -> Result<BTreeMap<String, Option<DataType>>> {
    let mut types = BTreeMap::<String, Vec<DataType>>::new();
    let mut note = |expression: &Expr, data_type: Option<&DataType>| {
        let Expr::Placeholder(placeholder) = expression else {
            return;
        };
        let types = types.entry(placeholder.id.clone()).or_default();
        let inferred = placeholder.field.as_ref().map(|field| field.data_type());
        if let Some(found) = inferred.or(data_type)
            && !types.contains(found)
        {
            types.push(found.clone());
        }
    };
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for rows in limit.skip.iter().chain(&limit.fetch) {
                note(rows, Some(&DataType::Int64));
            }
        }
        let inputs = node.inputs();
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                note(part, None);
                match part {
                    Expr::Cast(cast) => note(&cast.expr, Some(cast.field.data_type())),
                    Expr::Not(operand) => note(operand, Some(&DataType::Boolean)),
                    Expr::BinaryExpr(BinaryExpr {
                        left,
                        op: Operator::And | Operator::Or,
                        right,
                    }) => {
                        note(left, Some(&DataType::Boolean));
                        note(right, Some(&DataType::Boolean));
                    }
                    // x = ANY($1)
                    Expr::ScalarFunction(function) if function.name() == "array_has" => {
                        if let [list @ Expr::Placeholder(_), element] = function.args.as_slice()
                            && let [input] = inputs.as_slice()
                            && let Ok(element) = element.get_type(input.schema())
                        {
                            let element = Field::new_list_field(element, true);
                            note(list, Some(&DataType::List(Arc::new(element))));
                        }
                    }
                    Expr::Case(case) if case.expr.is_none() => {
                        for (condition, _) in &case.when_then_expr {
                            note(condition, Some(&DataType::Boolean));
                        }
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let types = types.into_iter().map(|(name, mut types)| match types.len() {
        1 => (name, types.pop()),
        _ => (name, None),
    });
    Ok(types.collect())
}

/// An expression as an assignment converts it.
fn converted(expression: Expr, from: &DataType, to: &DataType) -> Expr {
    if to.is_integer() && from.is_decimal() {
        return cast(cast(expression, WHOLE), to.clone());
    }
    match to.is_integer() && from.is_floating() {
        true => cast(round(vec![expression]), to.clone()),
        false => cast(expression, to.clone()),
    }
}

/// Puts values in place of the parameters. `types` are the inferred types of the parameters.
///
/// # Errors
/// A string is no value of the type of its parameter; a column does not have the value.
pub(crate) fn bound(
    plan: LogicalPlan,
    types: &[Option<DataType>],
    mut values: Vec<ScalarValue>,
) -> Result<LogicalPlan> {
    for (value, inferred) in values.iter_mut().zip(types) {
        if let Some(inferred) = inferred
            && is_string(&value.data_type())
            && !is_string(inferred)
        {
            *value = value.cast_to(inferred)?;
        }
    }
    let plan = with_wide_arguments(plan, &values)?;
    let LogicalPlan::Dml(statement) = plan else {
        return plan.with_param_values(ParamValues::from(values));
    };
    let columns = Arc::clone(statement.input.schema());
    let rows = with_rows(LogicalPlan::Dml(statement), &values)?;
    let bound = rows.with_param_values(ParamValues::from(values))?;
    let LogicalPlan::Dml(statement) = bound else {
        return plan_err!("a statement with values is another statement");
    };
    let types = columns.fields().iter().map(|field| field.data_type());
    let input = with_types(Arc::unwrap_or_clone(Arc::clone(&statement.input)), types)?;
    Ok(LogicalPlan::Dml(DmlStatement::new(
        statement.table_name.clone(),
        Arc::clone(&statement.target),
        statement.op.clone(),
        Arc::new(input),
    )))
}

/// Puts integers in place of the parameters that are arguments of functions, as Int64: functions do not
/// accept narrower ones as PostgreSQL does.
fn with_wide_arguments(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let is_narrow = |value: &ScalarValue| matches!(value.data_type(), DataType::Int16 | DataType::Int32);
    if !values.iter().any(is_narrow) {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let wide = expression.transform_up(|part| {
                let Expr::ScalarFunction(mut function) = part else {
                    return Ok(Transformed::no(part));
                };
                let mut is_changed = false;
                for argument in &mut function.args {
                    if let Some(value) = parameter(argument, values).filter(|value| is_narrow(value)) {
                        *argument = Expr::Literal(value.cast_to(&DataType::Int64)?, None);
                        is_changed = true;
                    }
                }
                Ok(Transformed::new_transformed(
                    Expr::ScalarFunction(function),
                    is_changed,
                ))
            })?;
            Ok(match wide.transformed {
                true => wide.update_data(|expression| name.restore(expression)),
                false => wide,
            })
        })?
        .map_data(LogicalPlan::recompute_schema)
    });
    Ok(plan?.data)
}

/// Puts values in place of the parameters that are fields of VALUES.
fn with_rows(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let rows = plan.transform_up(|node| {
        let LogicalPlan::Values(rows) = node else {
            return Ok(Transformed::no(node));
        };
        let Values { schema, values: rows } = rows;
        let assigned = rows.into_iter().map(|row| {
            let fields = row.into_iter().zip(schema.fields());
            let fields = fields.map(|(expression, field)| match parameter(&expression, values) {
                Some(value) => Ok(Expr::Literal(assigned(value, field.data_type())?, None)),
                None => Ok(expression),
            });
            fields.collect::<Result<Vec<_>>>()
        });
        let values = assigned.collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
    });
    Ok(rows?.data)
}

/// The value of an expression that is a parameter.
fn parameter<'v>(expression: &Expr, values: &'v [ScalarValue]) -> Option<&'v ScalarValue> {
    let Expr::Placeholder(placeholder) = expression else {
        return None;
    };
    let number: usize = placeholder.id.strip_prefix('$')?.parse().ok()?;
    values.get(number.checked_sub(1)?)
}

/// The rows with columns of these types.
fn with_types<'t>(plan: LogicalPlan, types: impl Iterator<Item = &'t DataType>) -> Result<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let mut changes = false;
    let columns = schema.iter().zip(types).map(|((qualifier, field), wanted)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        if field.data_type() == wanted {
            return column;
        }
        changes = true;
        converted(column, field.data_type(), wanted).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<_> = columns.collect();
    match changes {
        true => Ok(LogicalPlan::Projection(Projection::try_new(
            columns,
            Arc::new(plan),
        )?)),
        false => Ok(plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_round_numbers() {
        let decimal = |number, scale| ScalarValue::Decimal128(Some(number), 10, scale);
        for (value, to, expected) in [
            (decimal(105, 1), DataType::Int32, ScalarValue::Int32(Some(11))),
            (decimal(-105, 1), DataType::Int64, ScalarValue::Int64(Some(-11))),
            (
                decimal(2504, 3),
                DataType::Decimal128(10, 2),
                ScalarValue::Decimal128(Some(250), 10, 2),
            ),
            (
                ScalarValue::Float64(Some(2.5)),
                DataType::Int32,
                ScalarValue::Int32(Some(2)),
            ),
            (
                ScalarValue::Int16(Some(7)),
                DataType::Int64,
                ScalarValue::Int64(Some(7)),
            ),
        ] {
            assert_eq!(assigned(&value, &to).unwrap(), expected, "{value}");
        }
        assert!(assigned(&ScalarValue::Int64(Some(1 << 40)), &DataType::Int32).is_err());
        assert!(assigned(&ScalarValue::from("x"), &DataType::Int32).is_err());
    }
}
