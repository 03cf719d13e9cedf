//! The values that a subquery reads of the query around it, as rows of the subquery (Neumann and Kemper,
//! *Unnesting Arbitrary Queries*, BTW 2015).
//!
//! A condition that is no equality cannot separate the rows of one outer row from those of another. A join
//! with the *domain*, the distinct values of the outer columns, evaluates the condition inside the subquery.
//! The rows then have the outer columns, and the subquery is correlated by equalities with them alone:
//!
//! ```text
//! SELECT count(*) FROM u WHERE u.g < t.g      SELECT count(*) FROM u, (SELECT DISTINCT g AS k FROM t)
//!                                       =>    WHERE u.g < k AND k IS NOT DISTINCT FROM t.g
//! ```
//!
//! The domain may contain values of rows that the outer query filters later, so it is computed without those
//! operators that remove rows and would read outer columns or another choice of rows ([`source`]).

mod source;

use super::condition::{Condition, Kind};
use super::lifted::{Lifted, Lifting};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The columns of the domain, by the outer columns that they contain.
pub(in super::super) type Inside = HashMap<Column, Column>;

impl Lifting<'_> {
    /// The rows with each value of the outer columns of their conditions, and of `more`, that satisfies the
    /// conditions. They are correlated by equalities with these columns. Returns the rows as they are if the
    /// domain cannot be computed.
    pub(super) fn over_domain(
        &mut self,
        lifted: Lifted,
        more: BTreeSet<Column>,
    ) -> Result<std::result::Result<(Lifted, Inside), Lifted>> {
        let mut columns = more;
        columns.extend(columns_of(&lifted.conditions)?);
        let Some((domain, inside)) = self.domain(&columns)? else {
            return Ok(Err(lifted));
        };
        self.is_changed = true;
        self.has_conditions = true;
        self.has_domain = true;
        let rows = LogicalPlanBuilder::from(lifted.plan)
            .cross_join(domain)?
            .build()?;
        let conditions = lifted.conditions.into_iter();
        let conditions = conditions.map(|condition| read_inside(condition.expr(), &inside));
        let plan = match conjunction(conditions.collect::<Result<Vec<_>>>()?) {
            Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows))?),
            None => rows,
        };
        let conditions = self.equalities(&columns, &inside)?;
        Ok(Ok((Lifted { plan, conditions }, inside)))
    }

    /// The same; rows remain as they are if the domain cannot be computed.
    pub(super) fn over_domain_if_any(&mut self, lifted: Lifted, more: BTreeSet<Column>) -> Result<Lifted> {
        Ok(match self.over_domain(lifted, more)? {
            Ok((over, _)) => over,
            Err(same) => same,
        })
    }

    /// Rows with the values of outer columns in columns of their own, correlated by equalities with these.
    /// `None` if the values cannot be computed apart from the outer query.
    pub(in super::super) fn beside_domain(
        &mut self,
        rows: LogicalPlan,
        columns: &BTreeSet<Column>,
    ) -> Result<Option<(LogicalPlan, Inside)>> {
        let Some((domain, inside)) = self.domain(columns)? else {
            return Ok(None);
        };
        let equal = self.equalities(columns, &inside)?;
        let mut rows = LogicalPlanBuilder::from(rows).cross_join(domain)?;
        if let Some(equal) = conjunction(equal.into_iter().map(Condition::expr)) {
            rows = rows.filter(equal)?;
        }
        self.is_changed = true;
        self.has_domain = true;
        Ok(Some((rows.build()?, inside)))
    }

    /// The distinct values of outer columns; `None` if they cannot be computed apart from the outer query.
    pub(super) fn domain(&self, columns: &BTreeSet<Column>) -> Result<Option<(LogicalPlan, Inside)>> {
        let Some(outer) = self.outer.filter(|_| !columns.is_empty()) else {
            return Ok(None);
        };
        for column in columns {
            // Joins by lists and structs are not reliable.
            if !outer.schema().has_column(column) || outer.schema().data_type(column)?.is_nested() {
                return Ok(None);
            }
        }
        let wanted: Vec<Column> = columns.iter().cloned().collect();
        let Some(source) = source::of(outer, &wanted)? else {
            return Ok(None);
        };
        let inside = wanted
            .into_iter()
            .map(|column| (column, Column::new_unqualified(self.fresh_name())));
        let inside: Inside = inside.collect();
        let values = inside
            .iter()
            .map(|(outer, own)| Expr::Column(outer.clone()).alias(own.name()));
        let domain = LogicalPlanBuilder::from(source)
            .project(values.collect::<Vec<_>>())?
            .distinct()?
            .build()?;
        Ok(Some((domain, inside)))
    }

    /// The equalities of the columns of a domain with the outer columns.
    pub(super) fn equalities(&self, columns: &BTreeSet<Column>, inside: &Inside) -> Result<Vec<Condition>> {
        let Some(outer) = self.outer else {
            return Ok(Vec::new());
        };
        let equal = columns.iter().map(|column| {
            let field = Arc::clone(outer.schema().field_from_column(column)?);
            let op = match outer.schema().nullable(column)? {
                true => Operator::IsNotDistinctFrom,
                false => Operator::Eq,
            };
            let own = Expr::Column(inside[column].clone());
            let value = Expr::OuterReferenceColumn(field, column.clone());
            Ok(Condition::of(binary_expr(own, op, value)))
        });
        equal.collect()
    }
}

/// Whether conditions are equalities with outer columns themselves.
pub(super) fn are_columns(conditions: &[Condition]) -> bool {
    conditions.iter().all(|condition| match &condition.kind {
        Kind::Equal { outer, .. } => matches!(outer, Expr::OuterReferenceColumn(..)),
        Kind::Other(_) => false,
    })
}

/// The outer columns of conditions.
pub(super) fn columns_of(conditions: &[Condition]) -> Result<BTreeSet<Column>> {
    let mut columns = BTreeSet::new();
    for condition in conditions {
        columns.extend(outer_columns(&condition.clone().expr())?);
    }
    Ok(columns)
}

/// The outer columns of an expression, without those of subqueries in it.
pub(super) fn outer_columns(expr: &Expr) -> Result<BTreeSet<Column>> {
    let mut columns = BTreeSet::new();
    expr.apply(|part| {
        if let Expr::OuterReferenceColumn(_, column) = part {
            columns.insert(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// The expression over the columns of a domain in the place of the outer columns.
pub(super) fn read_inside(expr: Expr, inside: &Inside) -> Result<Expr> {
    let changed = expr.transform_up(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(field, column) => match inside.get(&column) {
                Some(own) => Transformed::yes(Expr::Column(own.clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            },
            part => Transformed::no(part),
        })
    })?;
    Ok(changed.data)
}

/// The same for expressions of an operator. Its columns keep their names.
pub(super) fn all_inside(exprs: Vec<Expr>, inside: &Inside) -> Result<Vec<Expr>> {
    let exprs = exprs.into_iter().map(|expr| {
        let name = expr.schema_name().to_string();
        let read = read_inside(expr, inside)?;
        let has_name = read.schema_name().to_string() == name;
        Ok(if has_name { read } else { read.alias(name) })
    });
    exprs.collect()
}
