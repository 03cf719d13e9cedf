//! ASOF joins: each row of the left table with the row of the right table that is nearest in time.
//!
//! `t ASOF JOIN u ON t.k = u.k AND t.at >= u.at` matches a row of t with the last row of u of the same key
//! that is not later. Both tables are united, and each row of t counts the rows of u before it, in a window
//! by key and time. The count is the number of the match among the rows of u with the key, numbered by time.
//! So the match is found by a join by equality of key and number, and each row of t finds one row at most.
//!
//! ```text
//! rows of t, numbered    sum(is_u) OVER (PARTITION BY k ORDER BY at)   over   t UNION ALL u
//! rows of u, numbered    row_number() OVER (PARTITION BY k ORDER BY at)
//! join                   k = k AND number = number
//! ```
//!
//! For `>`, rows of t precede rows of u of the same time. For `<=` and `<`, the order is descending. A NULL
//! in a key or a time has no match. `docs/src/design/joins.md` has the alternatives.

use std::mem;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchemaRef, JoinType, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, WindowFrame,
    WindowFunctionDefinition, binary_expr, col, lit,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins,
};

use super::SqlError;
use super::ast_parts::key;
use super::clause_parts::ASOF_FORM;
use super::clause_tokens::ASOF;

/// Columns of the plan.
const TIME: &str = "galatea_asof_time";
const IS_RIGHT: &str = "galatea_asof_right";
const NUMBER: &str = "galatea_asof_number";

fn wrong(problem: impl Into<String>) -> DataFusionError {
    SqlError::clause("ASOF JOIN", problem, ASOF_FORM).into()
}

fn constraint(join: &Join) -> Option<(JoinType, &JoinConstraint)> {
    match &join.join_operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
            Some((JoinType::Inner, constraint))
        }
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            Some((JoinType::Left, constraint))
        }
        _ => None,
    }
}

/// The condition of an ASOF join without its mark; `None` for other joins.
fn condition(join: &Join) -> Option<(JoinType, Condition<'_>)> {
    let (kind, constraint) = constraint(join)?;
    match constraint {
        JoinConstraint::On(on) => {
            let mut parts = Vec::new();
            conjuncts(on, &mut parts);
            let (SqlExpr::Identifier(mark), rest) = parts.split_first()? else {
                return None;
            };
            (mark.value == ASOF).then(|| (kind, Condition::On(rest.to_vec())))
        }
        JoinConstraint::Using(names) => {
            let names = names.iter().map(|name| match name.0.as_slice() {
                [part] => part.as_ident(),
                _ => None,
            });
            let names: Vec<_> = names.collect::<Option<_>>()?;
            let (mark, rest) = names.split_first()?;
            (mark.value == ASOF).then(|| {
                (
                    kind,
                    Condition::Using(rest.iter().map(|name| key(name)).collect()),
                )
            })
        }
        _ => None,
    }
}

enum Condition<'a> {
    On(Vec<&'a SqlExpr>),
    /// The names of the keys, then of the time.
    Using(Vec<String>),
}

fn conjuncts<'a>(expression: &'a SqlExpr, parts: &mut Vec<&'a SqlExpr>) {
    match expression {
        SqlExpr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        SqlExpr::Nested(inner) if !parts.is_empty() => conjuncts(inner, parts),
        other => parts.push(other),
    }
}

/// Whether a join is an ASOF join.
pub(super) fn is_asof(join: &Join) -> bool {
    condition(join).is_some()
}

/// Puts each ASOF join in parentheses, together with the tables before it, so that it is planned as one
/// table. `is_nested`: the tables are in parentheses of their own.
pub(crate) fn nest(table: &mut TableWithJoins, is_nested: bool) {
    if is_nested && table.joins.len() == 1 {
        return;
    }
    while let Some(at) = table.joins.iter().position(|join| condition(join).is_some()) {
        let rest = table.joins.split_off(at + 1);
        let mut joins = mem::take(&mut table.joins);
        let asof = joins.pop();
        let relation = match joins.is_empty() {
            true => table.relation.clone(),
            false => nested(TableWithJoins {
                relation: table.relation.clone(),
                joins,
            }),
        };
        *table = TableWithJoins {
            relation: nested(TableWithJoins {
                relation,
                joins: asof.into_iter().collect(),
            }),
            joins: rest,
        };
    }
}

fn nested(table: TableWithJoins) -> TableFactor {
    TableFactor::NestedJoin {
        table_with_joins: Box::new(table),
        alias: None,
    }
}

/// The plan of an ASOF join; `None` for other tables.
///
/// # Errors
/// The condition is not one of an ASOF join.
pub(crate) fn planned(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<PlannedRelation>> {
    let TableFactor::NestedJoin {
        table_with_joins,
        alias,
    } = relation
    else {
        return Ok(None);
    };
    let [join] = table_with_joins.joins.as_slice() else {
        return Ok(None);
    };
    let Some((kind, condition)) = condition(join) else {
        return Ok(None);
    };
    let left = context.plan(table_with_joins.relation.clone())?;
    let right = context.plan(join.relation.clone())?;
    check_repeatable(&right)?;
    let matching = match &condition {
        Condition::On(parts) => Matching::on(parts, &left, &right, context)?,
        Condition::Using(names) => Matching::using(names, &left, &right)?,
    };
    let plan = matching.joined(left, right, kind)?;
    Ok(Some(PlannedRelation::new(plan, alias.clone())))
}

/// The right table is read twice, so both reads must return the same rows.
fn check_repeatable(right: &LogicalPlan) -> Result<()> {
    let mut problem = None;
    right.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(_) = node {
            problem = Some("cannot have a right side with LIMIT");
        }
        if node.expressions().iter().any(Expr::is_volatile) {
            problem = Some("cannot have a right side with random values");
        }
        Ok(match problem {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    match problem {
        Some(problem) => {
            let form = "store the right side: CREATE TABLE u AS SELECT ..., and join u";
            Err(SqlError::clause("ASOF JOIN", problem, form).into())
        }
        None => Ok(()),
    }
}

/// The keys and times of both tables.
struct Matching {
    /// Keys of the left and of the right table, which must be equal.
    keys: Vec<(Expr, Expr)>,
    /// Whether a NULL of each key equals a NULL.
    equal_nulls: Vec<bool>,
    /// Times of the left and of the right table.
    times: (Expr, Expr),
    /// Whether the match is later than the row, not earlier.
    later: bool,
    /// Whether the match may have the same time.
    or_same: bool,
    /// Columns of the right table that are not part of the result.
    merged: Vec<Column>,
    /// Conditions of the left table alone: a row that does not fulfil them has no match.
    of_left: Vec<Expr>,
    /// Conditions of the right table alone: only rows that fulfil them match.
    of_right: Vec<Expr>,
}

impl Matching {
    fn using(names: &[String], left: &LogicalPlan, right: &LogicalPlan) -> Result<Self> {
        let column = |plan: &LogicalPlan, name: &String| -> Result<Expr> {
            Ok(Expr::Column(Column::from(
                plan.schema().qualified_field_with_unqualified_name(name)?,
            )))
        };
        let mut pairs = Vec::new();
        for name in names {
            pairs.push((column(left, name)?, column(right, name)?));
        }
        let Some(times) = pairs.pop() else {
            return Err(wrong("has no columns in USING"));
        };
        let merged = pairs
            .iter()
            .chain([&times])
            .filter_map(|(_, right)| right.try_as_col().cloned());
        Ok(Self {
            merged: merged.collect(),
            equal_nulls: vec![false; pairs.len()],
            keys: pairs,
            times,
            later: false,
            or_same: true,
            of_left: Vec::new(),
            of_right: Vec::new(),
        })
    }

    fn on(
        parts: &[&SqlExpr],
        left: &LogicalPlan,
        right: &LogicalPlan,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let schema = left.schema().join(right.schema())?;
        let (mut keys, mut times) = (Vec::new(), None);
        let (mut of_left, mut of_right, mut equal_nulls) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let whole = context.sql_to_expr((*part).clone(), &schema)?;
            if whole.column_refs().is_empty() {
                of_left.push(whole);
                continue;
            }
            match side(&whole, left.schema(), right.schema()) {
                Some(Side::Left) => {
                    of_left.push(whole);
                    continue;
                }
                Some(Side::Right) => {
                    of_right.push(whole);
                    continue;
                }
                None => {}
            }
            let (one, op, other) = match part {
                SqlExpr::BinaryOp { left, op, right } => (left, Some(op), right),
                SqlExpr::IsNotDistinctFrom(left, right) => (left, None, right),
                _ => return Err(wrong(format!("has a condition that compares nothing: {part}"))),
            };
            let one = context.sql_to_expr((**one).clone(), &schema)?;
            let other = context.sql_to_expr((**other).clone(), &schema)?;
            let sides = (
                side(&one, left.schema(), right.schema()),
                side(&other, left.schema(), right.schema()),
            );
            let (pair, exchanged) = match sides {
                (Some(Side::Left), Some(Side::Right)) => ((one, other), false),
                (Some(Side::Right), Some(Side::Left)) => ((other, one), true),
                _ => {
                    return Err(wrong(format!(
                        "has a condition that does not compare the left table with the right: {part}"
                    )));
                }
            };
            let Some(op) = op.filter(|op| **op != BinaryOperator::Eq) else {
                equal_nulls.push(op.is_none());
                keys.push(pair);
                continue;
            };
            let (later, or_same) = match op {
                BinaryOperator::GtEq => (exchanged, true),
                BinaryOperator::Gt => (exchanged, false),
                BinaryOperator::LtEq => (!exchanged, true),
                BinaryOperator::Lt => (!exchanged, false),
                op => return Err(wrong(format!("cannot match rows by the operator {op}"))),
            };
            if times.replace((pair, later, or_same)).is_some() {
                return Err(wrong("has a second inequality"));
            }
        }
        let Some((times, later, or_same)) = times else {
            return Err(wrong("has no inequality, such as t.time >= u.time"));
        };
        Ok(Self {
            keys,
            equal_nulls,
            times,
            later,
            or_same,
            merged: Vec::new(),
            of_left,
            of_right,
        })
    }

    /// The order of rows by time. NULL precedes all times, so it has no match.
    fn order(&self) -> Vec<SortExpr> {
        vec![SortExpr::new(col(TIME), !self.later, true)]
    }

    fn key_names(&self) -> Vec<String> {
        (0..self.keys.len()).map(key_name).collect()
    }

    fn partition(&self) -> Vec<Expr> {
        self.key_names()
            .into_iter()
            .map(|name| Expr::Column(Column::new_unqualified(name)))
            .collect()
    }

    /// The join of both tables.
    fn joined(&self, left: LogicalPlan, right: LogicalPlan, kind: JoinType) -> Result<LogicalPlan> {
        let columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
        let others = right
            .schema()
            .columns()
            .into_iter()
            .filter(|column| !self.merged.contains(column));
        let columns: Vec<Expr> = columns.into_iter().chain(others.map(Expr::Column)).collect();
        let numbered_left = self.numbered_left(left, &right)?;
        let numbered_right = self.numbered_right(right)?;
        let keys = self.equal_nulls.iter().enumerate().map(|(at, equal_nulls)| {
            let name = key_name(at);
            let (left, right) = (
                column_of("galatea_asof_t", &name),
                column_of("galatea_asof_u", &name),
            );
            let op = match equal_nulls {
                true => Operator::IsNotDistinctFrom,
                false => Operator::Eq,
            };
            binary_expr(left, op, right)
        });
        let number = column_of("galatea_asof_t", NUMBER).eq(column_of("galatea_asof_u", NUMBER));
        LogicalPlanBuilder::from(numbered_left)
            .join_on(
                numbered_right,
                kind,
                keys.chain([number]).chain(self.of_left.clone()),
            )?
            .project(columns)?
            .build()
    }

    /// The left rows, each with its keys and the number of right rows before it.
    fn numbered_left(&self, left: LogicalPlan, right: &LogicalPlan) -> Result<LogicalPlan> {
        let schema: DFSchemaRef = left.schema().clone();
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = self.keys.iter().cloned().unzip();
        let own = schema
            .columns()
            .into_iter()
            .enumerate()
            .map(|(at, column)| Expr::Column(column).alias(column_name(at)));
        let rows = own
            .chain(keys(left_keys))
            .chain([self.times.0.clone().alias(TIME), lit(0_i64).alias(IS_RIGHT)]);
        let mut nulls = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let null = ScalarValue::try_from(field.data_type())?;
            nulls.push(Expr::Literal(null, None).alias(column_name(at)));
        }
        let marks = nulls
            .into_iter()
            .chain(keys(right_keys))
            .chain([self.times.1.clone().alias(TIME), lit(1_i64).alias(IS_RIGHT)]);
        let marks = LogicalPlanBuilder::from(right.clone())
            .filter(self.is_complete()?)?
            .project(marks)?
            .build()?;
        let mut order = self.order();
        if !self.or_same {
            order.push(SortExpr::new(col(IS_RIGHT), true, true));
        }
        let sum = WindowFunctionDefinition::AggregateUDF(sum_udaf());
        let number = Expr::from(WindowFunction::new(sum, vec![col(IS_RIGHT)]))
            .partition_by(self.partition())
            .order_by(order)
            .window_frame(WindowFrame::new(Some(false)))
            .build()?
            .alias(NUMBER);
        let restored = schema
            .iter()
            .enumerate()
            .map(|(at, (table, field))| col(column_name(at)).alias_qualified(table.cloned(), field.name()));
        let keys = self
            .key_names()
            .into_iter()
            .map(|name| col(&name).alias_qualified(Some("galatea_asof_t"), name));
        let number_of = col(NUMBER).alias_qualified(Some("galatea_asof_t"), NUMBER);
        let united = LogicalPlanBuilder::from(left).project(rows)?.union(marks)?;
        united
            .window([number])?
            .filter(col(IS_RIGHT).eq(lit(0_i64)))?
            .project(restored.chain(keys).chain([number_of]))?
            .build()
    }

    /// The right rows that can match, each with its keys and its number among the rows with these keys.
    fn numbered_right(&self, right: LogicalPlan) -> Result<LogicalPlan> {
        let own: Vec<Expr> = right.schema().columns().into_iter().map(Expr::Column).collect();
        let (_, right_keys): (Vec<_>, Vec<_>) = self.keys.iter().cloned().unzip();
        let rows = own
            .clone()
            .into_iter()
            .chain(keys(right_keys))
            .chain([self.times.1.clone().alias(TIME)]);
        let number = row_number()
            .partition_by(self.partition())
            .order_by(self.order())
            .build()?
            .alias(NUMBER);
        let windowed = LogicalPlanBuilder::from(right)
            .filter(self.is_complete()?)?
            .project(rows)?
            .window([number])?;
        let number = col(NUMBER).cast_to(&arrow::datatypes::DataType::Int64, windowed.schema())?;
        let number = number.alias_qualified(Some("galatea_asof_u"), NUMBER);
        let keys = self
            .key_names()
            .into_iter()
            .map(|name| col(&name).alias_qualified(Some("galatea_asof_u"), name));
        windowed
            .project(own.into_iter().chain(keys).chain([number]))?
            .build()
    }

    /// Whether a right row has all keys and a time, and fulfils the conditions of its table.
    fn is_complete(&self) -> Result<Expr> {
        let keys = self.keys.iter().zip(&self.equal_nulls);
        let keys = keys
            .filter(|(_, equal_nulls)| !**equal_nulls)
            .map(|((_, right), _)| right);
        let all = keys.chain([&self.times.1]).cloned().map(Expr::is_not_null);
        let all = all.chain(self.of_right.iter().cloned());
        all.reduce(Expr::and).ok_or_else(|| wrong("has no condition"))
    }
}

fn key_name(at: usize) -> String {
    format!("galatea_asof_key{at}")
}

fn column_name(at: usize) -> String {
    format!("galatea_asof_column{at}")
}

fn keys(keys: Vec<Expr>) -> impl Iterator<Item = Expr> {
    keys.into_iter()
        .enumerate()
        .map(|(at, key)| key.alias(key_name(at)))
}

fn column_of(table: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(table), name))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The table of all columns of an expression; `None` for both or none.
fn side(expression: &Expr, left: &DFSchemaRef, right: &DFSchemaRef) -> Option<Side> {
    let columns = expression.column_refs();
    if columns.is_empty() {
        return None;
    }
    let of_left = columns.iter().all(|column| left.has_column(column));
    let of_right = columns.iter().all(|column| right.has_column(column));
    match (of_left, of_right) {
        (true, false) => Some(Side::Left),
        (false, true) => Some(Side::Right),
        _ => None,
    }
}
