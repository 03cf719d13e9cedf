//! An aggregate without GROUP BY, which has a row for each outer row, as groups by the keys of its
//! conditions.

use super::condition::Condition;
use super::domain::{all_inside, columns_of, outer_columns, read_inside};
use super::lifted::{Lifted, Lifting};
use datafusion::common::{Column, JoinType, Result, not_impl_err};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, lit, when,
};
use std::sync::Arc;

/// The groups of an aggregate by the keys of its conditions.
pub(in super::super) struct Groups {
    pub(in super::super) plan: LogicalPlan,
    /// The conditions of the join with the outer rows.
    pub(in super::super) conditions: Vec<Condition>,
    /// The results of the calls for an outer row, also if it has no group.
    pub(in super::super) values: Vec<Expr>,
}

impl Groups {
    pub(in super::super) fn new(
        lifting: &mut Lifting<'_>,
        lifted: Lifted,
        aggregate: &Aggregate,
    ) -> Result<Self> {
        let (input, keys, conditions) = lifting.grouped(lifted)?;
        let keys: Vec<Expr> = keys.into_iter().map(Expr::Column).collect();
        let calls = aggregate.aggr_expr.clone();
        let grouped = Aggregate::try_new(Arc::new(input), keys.clone(), calls)?;
        let names: Vec<String> = aggregate.aggr_expr.iter().map(|_| lifting.fresh_name()).collect();
        let results = grouped.schema.columns().into_iter().skip(keys.len()).zip(&names);
        let results = results.map(|(result, name)| Expr::Column(result).alias(name));
        let found = lifting.fresh_name();
        let columns = keys
            .iter()
            .cloned()
            .chain(results)
            .chain([lit(true).alias(&found)]);
        let columns = columns.collect();
        let plan = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(grouped)))?;
        let found = Expr::Column(Column::new_unqualified(found));
        let values = aggregate.aggr_expr.iter().zip(names).map(|(call, name)| {
            let result = Expr::Column(Column::new_unqualified(name));
            let Expr::AggregateFunction(function) = call.clone().unalias() else {
                return not_impl_err!(
                    "an expression of aggregates in a correlated subquery\nhint: compute it in the query around the \
                     subquery"
                );
            };
            let default = function
                .func
                .default_value(&call.get_type(aggregate.input.schema())?)?;
            match default.is_null() {
                true => Ok(result),
                false => when(found.clone().is_null(), Expr::Literal(default, None)).otherwise(result),
            }
        });
        Ok(Self {
            values: values.collect::<Result<_>>()?,
            plan: LogicalPlan::Projection(plan),
            conditions,
        })
    }
}

impl Lifting<'_> {
    /// The row of an aggregate without GROUP BY for each value of the outer columns: a left join of the
    /// values with groups by them. `None` if the values cannot be computed.
    pub(super) fn total(&mut self, aggregate: &Aggregate, lifted: Lifted) -> Result<Option<Lifted>> {
        let mut columns = columns_of(&lifted.conditions)?;
        for call in &aggregate.aggr_expr {
            columns.extend(outer_columns(call)?);
        }
        let Some((domain, of_domain)) = self.domain(&columns)? else {
            return Ok(None);
        };
        let Ok((over, inside)) = self.over_domain(lifted, columns.clone())? else {
            return Ok(None);
        };
        let calls = all_inside(aggregate.aggr_expr.clone(), &inside)?;
        let inner = Aggregate::try_new(Arc::new(over.plan.clone()), Vec::new(), calls)?;
        let groups = Groups::new(self, over, &inner)?;
        let conditions = groups.conditions.into_iter();
        let conditions = conditions.map(|condition| read_inside(condition.expr(), &of_domain));
        let names = aggregate.schema.iter();
        let values = groups.values.into_iter().zip(names);
        let values =
            values.map(|(value, (table, field))| value.alias_qualified(table.cloned(), field.name()));
        let keys = of_domain.values().cloned().map(Expr::Column);
        let plan = LogicalPlanBuilder::from(domain)
            .join_on(
                groups.plan,
                JoinType::Left,
                conditions.collect::<Result<Vec<_>>>()?,
            )?
            .project(keys.chain(values).collect::<Vec<_>>())?
            .build()?;
        let conditions = self.equalities(&columns, &of_domain)?;
        Ok(Some(Lifted { plan, conditions }))
    }
}
