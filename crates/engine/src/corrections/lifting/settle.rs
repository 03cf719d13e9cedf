//! The keys and conditions of the rows that an operator reads together.

use super::condition::{Condition, Kind, outside};
use super::lifted::{Lifted, Lifting};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Projection, when,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The rows below an operator that reads the rows of one outer row together.
pub(super) struct Settled {
    pub(super) plan: LogicalPlan,
    pub(super) conditions: Vec<Condition>,
    /// The columns by which the operator must separate rows.
    pub(super) keys: Vec<Column>,
}

/// An operator that reads rows together.
pub(super) struct Reader<'a> {
    /// Its name in an error.
    pub(super) name: &'a str,
    /// Expressions by which it separates rows already.
    pub(super) by: &'a [Expr],
    /// Whether it may separate rows by any column, because the number of equal rows does not matter.
    pub(super) splits: bool,
}

impl Lifting<'_> {
    /// The input with the keys of its conditions as columns. Other conditions are evaluated over the values
    /// of the outer rows, or refused.
    pub(super) fn settled(&mut self, lifted: Lifted, reader: &Reader<'_>) -> Result<Settled> {
        let is_key = |expr: &Expr| reader.by.contains(expr);
        let mixes = |condition: &Condition| {
            let columns = condition.columns();
            let is_equal = matches!(condition.kind, Kind::Equal { .. });
            !is_equal
                && columns
                    .into_iter()
                    .any(|column| !is_key(&Expr::Column(column.clone())))
        };
        let lifted = match !reader.splits && lifted.conditions.iter().any(mixes) {
            true => self.over_domain_if_any(lifted, BTreeSet::new())?,
            false => lifted,
        };
        let Lifted { plan, conditions } = lifted;
        let mut fresh: Vec<(Expr, String)> = Vec::new();
        let mut keys = Vec::new();
        let mut settled = Vec::new();
        for condition in conditions {
            match &condition.kind {
                Kind::Equal { inner, .. } if !is_key(inner) => {
                    let known = fresh.iter().find(|(expr, _)| expr == inner);
                    let name = match known {
                        Some((_, name)) => name.clone(),
                        None => {
                            let name = self.fresh_name();
                            keys.push(Column::new_unqualified(&name));
                            fresh.push((inner.clone(), name.clone()));
                            name
                        }
                    };
                    let column = Expr::Column(Column::new_unqualified(name));
                    settled.push(condition.with_inner(|_| column));
                    continue;
                }
                Kind::Equal { .. } => {}
                Kind::Other(expr) => {
                    let columns = expr.column_refs().into_iter().cloned();
                    let added = columns.filter(|column| !is_key(&Expr::Column(column.clone())));
                    let added: Vec<Column> = added.filter(|column| !keys.contains(column)).collect();
                    if !added.is_empty() && !reader.splits {
                        return Err(refused(reader.name, &condition));
                    }
                    keys.extend(added);
                }
            }
            settled.push(condition);
        }
        let plan = with_columns(plan, fresh)?;
        Ok(Settled {
            plan,
            conditions: settled,
            keys,
        })
    }

    /// The input of an aggregate of one row for each outer row, its keys and conditions.
    pub(in super::super) fn grouped(
        &mut self,
        lifted: Lifted,
    ) -> Result<(LogicalPlan, Vec<Column>, Vec<Condition>)> {
        let reader = Reader {
            name: "an aggregate",
            by: &[],
            splits: false,
        };
        let settled = self.settled(lifted, &reader)?;
        Ok((settled.plan, settled.keys, settled.conditions))
    }

    /// Some columns of a subquery's rows and those that its conditions read, under names of their own, and
    /// the conditions over them and the outer query.
    pub(in super::super) fn outside(
        &self,
        lifted: Lifted,
        mut columns: Vec<Expr>,
        alias: Option<&TableReference>,
    ) -> Result<(LogicalPlan, Vec<Expr>)> {
        let mut names: HashMap<Column, Expr> = HashMap::new();
        let mut conditions = Vec::new();
        for condition in lifted.conditions {
            let condition = condition.expr().transform_up(|part| {
                let Expr::Column(column) = part else {
                    return Ok(Transformed::no(part));
                };
                let own = names.entry(column.clone()).or_insert_with(|| {
                    let name = self.fresh_name();
                    columns.push(Expr::Column(column).alias(&name));
                    Expr::Column(Column::new(alias.cloned(), name))
                });
                Ok(Transformed::yes(own.clone()))
            })?;
            conditions.push(outside(condition.data)?);
        }
        let mut plan = LogicalPlanBuilder::from(lifted.plan).project(columns)?;
        if let Some(alias) = alias {
            plan = plan.alias(alias.clone())?;
        }
        Ok((plan.build()?, conditions))
    }

    /// The rows with the inner sides of equalities as columns. DataFusion groups by those of `=` alone, so an
    /// equality of NULLs becomes two: of whether the values are NULL, and of the values that are not.
    pub(in super::super) fn with_key_columns(&mut self, lifted: Lifted) -> Result<Lifted> {
        let (others, equal): (Vec<_>, Vec<_>) = lifted
            .conditions
            .into_iter()
            .partition(|condition| matches!(condition.kind, Kind::Other(_)));
        let reader = Reader {
            name: "",
            by: &[],
            splits: false,
        };
        let equal = Lifted {
            plan: lifted.plan,
            conditions: equal,
        };
        let settled = self.settled(equal, &reader)?;
        let mut more = Vec::new();
        let mut conditions = Vec::new();
        for condition in settled.conditions {
            match condition.kind {
                Kind::Equal {
                    inner,
                    op: Operator::IsNotDistinctFrom,
                    outer,
                } => {
                    let zero = ScalarValue::new_default(&inner.get_type(settled.plan.schema())?)?;
                    let zero = Expr::Literal(zero, None);
                    let pairs = [
                        (inner.clone().is_null(), outer.clone().is_null()),
                        (or(&inner, &zero)?, or(&outer, &zero)?),
                    ];
                    for (inner, outer) in pairs {
                        let name = self.fresh_name();
                        conditions.push(Condition::of(
                            Expr::Column(Column::new_unqualified(&name)).eq(outer),
                        ));
                        more.push((inner, name));
                    }
                }
                _ => conditions.push(condition),
            }
        }
        Ok(Lifted {
            plan: with_columns(settled.plan, more)?,
            conditions: conditions.into_iter().chain(others).collect(),
        })
    }
}

/// The value of an expression, or another one for NULL.
fn or(expr: &Expr, other: &Expr) -> Result<Expr> {
    when(expr.clone().is_null(), other.clone()).otherwise(expr.clone())
}

/// A plan with more columns.
pub(super) fn with_columns(plan: LogicalPlan, more: Vec<(Expr, String)>) -> Result<LogicalPlan> {
    if more.is_empty() {
        return Ok(plan);
    }
    let own = plan.schema().columns().into_iter().map(Expr::Column);
    let more = more.into_iter().map(|(expr, name)| expr.alias(name));
    let columns = own.chain(more).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// The columns of a schema and others of a plan.
pub(super) fn only(plan: LogicalPlan, schema: &DFSchema, others: &[Column]) -> Result<LogicalPlan> {
    let own = schema.columns();
    let others = others.iter().filter(|column| !own.contains(column));
    let columns = own.iter().chain(others).cloned().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// The individual sets of a GROUP BY.
pub(in super::super) fn sets_of(sets: &GroupingSet) -> Vec<Vec<Expr>> {
    match sets {
        GroupingSet::Rollup(keys) => (0..=keys.len()).map(|number| keys[..number].to_vec()).collect(),
        GroupingSet::Cube(keys) => {
            let of_mask = |mask: usize| {
                let chosen = keys.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
                chosen.map(|(_, key)| key.clone()).collect()
            };
            // DataFusion refuses more keys than a machine word has bits.
            (0..1_usize << keys.len().min(20)).map(of_mask).collect()
        }
        GroupingSet::GroupingSets(sets) => sets.clone(),
    }
}

/// The error for an operator below a condition that it cannot be separated by.
pub(super) fn refused(operator: &str, condition: &Condition) -> DataFusionError {
    let written = &condition.written;
    let condition = outside(written.clone()).unwrap_or_else(|_| written.clone());
    DataFusionError::NotImplemented(format!(
        "{operator} over the rows that {condition} selects in a subquery for each row of the query around it\nhint: \
         join the tables instead, and group or partition by a key of the outer table"
    ))
}
