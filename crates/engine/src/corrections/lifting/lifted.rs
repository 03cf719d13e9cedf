//! The rows of a subquery without its correlated conditions, and these conditions.

use super::condition::{Condition, Kind};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::collections::{HashMap, HashSet};

/// A plan for all outer rows, with all columns that it had before.
pub(in super::super) struct Lifted {
    pub(in super::super) plan: LogicalPlan,
    pub(in super::super) conditions: Vec<Condition>,
}

impl Lifted {
    pub(super) fn without(plan: LogicalPlan) -> Self {
        let conditions = Vec::new();
        Self { plan, conditions }
    }

    /// The conditions over a plan that has other names for the columns.
    pub(super) fn renamed(
        plan: LogicalPlan,
        conditions: Vec<Condition>,
        names: &HashMap<Column, Column>,
    ) -> Result<Self> {
        let conditions = conditions.into_iter().map(|condition| condition.over(names));
        Ok(Self {
            plan,
            conditions: conditions.collect::<Result<_>>()?,
        })
    }

    pub(super) fn columns(&self) -> HashSet<&Column> {
        let columns = self.conditions.iter().flat_map(Condition::columns);
        columns.collect()
    }

    /// The first condition that DataFusion cannot group by.
    pub(super) fn inequality(&self) -> Option<&Condition> {
        self.conditions.iter().find(|condition| !condition.is_equality())
    }

    /// Whether NULL equals NULL in an equality.
    pub(super) fn has_null_safe_keys(&self) -> bool {
        self.conditions.iter().any(Condition::is_null_safe)
    }

    /// Whether an equality has an expression on its inner side that is equal for several values of a column.
    /// DataFusion groups the rows of an aggregate by the columns in it.
    pub(super) fn has_computed_keys(&self) -> bool {
        self.conditions.iter().any(|condition| match &condition.kind {
            Kind::Equal { inner, .. } => !self.is_injective(inner),
            Kind::Other(_) => false,
        })
    }

    /// Whether an expression is a column, or one cast to a larger integer type.
    fn is_injective(&self, expr: &Expr) -> bool {
        let schema = self.plan.schema();
        match expr {
            Expr::Column(_) => true,
            Expr::Cast(cast) if matches!(*cast.expr, Expr::Column(_)) => {
                let types = (cast.expr.get_type(schema), expr.get_type(schema));
                let (Ok(from), Ok(to)) = types else {
                    return false;
                };
                from.is_integer() && to.is_integer() && from.primitive_width() < to.primitive_width()
            }
            _ => false,
        }
    }
}

/// The state of moving the conditions of one subquery.
pub(in super::super) struct Lifting<'a> {
    aliases: &'a AliasGenerator,
    /// The plan of the outer rows, which conditions that are no equalities get values of.
    pub(super) outer: Option<&'a LogicalPlan>,
    /// Whether rows have been joined with values of the outer rows.
    pub(super) has_domain: bool,
    /// Whether the operators visited so far contain conditions.
    pub(super) has_conditions: bool,
    /// Whether a condition is below an operator, or before one in another input, that DataFusion does not
    /// adapt correctly.
    pub(super) is_changed: bool,
    /// Whether an operator reads outer columns in an expression, so that the subquery cannot become a join.
    pub(super) is_impossible: bool,
}

impl<'a> Lifting<'a> {
    /// For a subquery of rows of `outer`.
    pub(in super::super) fn new(aliases: &'a AliasGenerator, outer: Option<&'a LogicalPlan>) -> Self {
        Self {
            aliases,
            outer,
            has_domain: false,
            has_conditions: false,
            is_changed: false,
            is_impossible: false,
        }
    }

    /// Whether the lifted plan must replace the original.
    pub(in super::super) fn is_needed(&self) -> bool {
        self.is_changed && !self.is_impossible
    }

    /// Whether the subquery cannot become a join.
    pub(in super::super) fn is_impossible(&self) -> bool {
        self.is_impossible
    }

    /// A name that no other column has.
    pub(in super::super) fn fresh_name(&self) -> String {
        self.aliases.next("__galatea_key")
    }
}
