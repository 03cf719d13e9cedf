//! Decimals that are compared or united with floats become floats.
//!
//! DataFusion converts the float to a decimal of 15 digits behind the point. It loses smaller digits, so that
//! 1e-20 equals 0, and it fails for NaN and 1e20. The rule runs before DataFusion's type coercion, and casts
//! the decimals. Constant floats remain with DataFusion: `price > 0.06 + 0.01` is exact as decimals.

use crate::checks::{input_schema, names_kept};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, Case, InList, InSubquery, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Subquery, Union, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Functions that convert their arguments to one type.
const UNITING: [&str; 7] = [
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "nvl",
    "ifnull",
    "make_array",
];

/// The rule that casts decimals.
#[derive(Debug, Default)]
pub(super) struct DecimalsAsFloats;

impl AnalyzerRule for DecimalsAsFloats {
    fn name(&self) -> &'static str {
        "galatea_decimals_as_floats"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

fn in_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => return in_union(union),
        LogicalPlan::Join(join) => LogicalPlan::Join(in_keys(join)?),
        node => node,
    };
    let schema = input_schema(&node);
    let node = names_kept(node, |expr| expr.transform_up(|part| in_part(part, &schema)))?;
    match node.transformed {
        true => node.map_data(LogicalPlan::recompute_schema),
        false => Ok(node),
    }
}

/// The kind of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Decimal,
    Other,
}

fn kind_of_type(data_type: &DataType) -> Kind {
    match data_type {
        data_type if data_type.is_floating() => Kind::Float,
        data_type if data_type.is_decimal() => Kind::Decimal,
        _ => Kind::Other,
    }
}

/// The kind of an expression. A constant float is no float here.
fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr.get_type(schema).map(|data_type| kind_of_type(&data_type)) {
        Ok(Kind::Float) if is_constant(expr) => Kind::Other,
        Ok(kind) => kind,
        Err(_) => Kind::Other,
    }
}

fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::AggregateFunction(_)
        ))
    });
    !varies.unwrap_or(true)
}

/// Casts the decimals among operands that get one type, if one of them is a float. Returns whether it did.
fn unite<'e>(operands: impl IntoIterator<Item = &'e mut Expr>, schema: &DFSchema) -> bool {
    let operands: Vec<(&mut Expr, Kind)> = operands
        .into_iter()
        .map(|operand| {
            let kind = kind(operand, schema);
            (operand, kind)
        })
        .collect();
    let has = |wanted: Kind| operands.iter().any(|(_, kind)| *kind == wanted);
    if !has(Kind::Float) || !has(Kind::Decimal) {
        return false;
    }
    for (operand, kind) in operands {
        if kind == Kind::Decimal {
            *operand = cast(std::mem::take(operand), DataType::Float64);
        }
    }
    true
}

fn in_part(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() || is_equality(*op) => {
            unite([left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            unite([expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            unite(std::iter::once(expr.as_mut()).chain(list.iter_mut()), schema)
        }
        Expr::Case(Case {
            expr,
            when_then_expr,
            else_expr,
        }) => {
            let mut changed = false;
            if let Some(expr) = expr {
                let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                changed |= unite(std::iter::once(expr.as_mut()).chain(whens), schema);
            }
            let results = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            changed |= unite(results.chain(else_expr.iter_mut().map(AsMut::as_mut)), schema);
            changed
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if UNITING.contains(&func.name()) => {
            unite(args.iter_mut(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => in_subquery(expr, subquery, schema)?,
        _ => false,
    };
    Ok(match changed {
        true => Transformed::yes(part),
        false => Transformed::no(part),
    })
}

fn is_equality(op: datafusion::logical_expr::Operator) -> bool {
    use datafusion::logical_expr::Operator;
    matches!(
        op,
        Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
    )
}

fn in_subquery(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let found = subquery.subquery.schema();
    let kinds = (kind(expr, schema), kind_of_type(found.field(0).data_type()));
    match kinds {
        (Kind::Decimal, Kind::Float) => *expr = cast(std::mem::take(expr), DataType::Float64),
        (Kind::Float, Kind::Decimal) => {
            subquery.subquery = Arc::new(with_floats(&subquery.subquery, &[true])?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The plan with some of its columns as floats.
fn with_floats(plan: &LogicalPlan, casts: &[bool]) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().enumerate().map(|(at, (table, field))| {
        let column = Expr::Column(Column::new(table.cloned(), field.name()));
        match casts.get(at) {
            Some(true) => cast(column, DataType::Float64).alias_qualified(table.cloned(), field.name()),
            _ => column,
        }
    });
    LogicalPlanBuilder::from(plan.clone())
        .project(columns.collect::<Vec<_>>())?
        .build()
}

fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let of_column = |input: &LogicalPlan, at: usize| {
        let fields = input.schema().fields();
        fields
            .get(at)
            .map_or(Kind::Other, |field| kind_of_type(field.data_type()))
    };
    let is_mixed = |at: usize| {
        let has = |wanted: Kind| union.inputs.iter().any(|input| of_column(input, at) == wanted);
        has(Kind::Float) && has(Kind::Decimal)
    };
    let mixed: Vec<bool> = (0..width).map(is_mixed).collect();
    if !mixed.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| {
        let casts: Vec<bool> = (0..width)
            .map(|at| mixed[at] && of_column(input, at) == Kind::Decimal)
            .collect();
        match casts.contains(&true) {
            true => with_floats(input, &casts).map(Arc::new),
            false => Ok(Arc::clone(input)),
        }
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// The join with its pairs of keys cast.
fn in_keys(mut join: Join) -> Result<Join> {
    for (left, right) in &mut join.on {
        let kinds = (kind(left, join.left.schema()), kind(right, join.right.schema()));
        let decimal = match kinds {
            (Kind::Float, Kind::Decimal) => right,
            (Kind::Decimal, Kind::Float) => left,
            _ => continue,
        };
        *decimal = cast(std::mem::take(decimal), DataType::Float64);
    }
    Ok(join)
}
