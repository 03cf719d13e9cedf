//! Plans the tables of FROM that DataFusion's planner ignores or refuses: samples, PIVOT, UNPIVOT and ASOF
//! joins. The relation planner has their columns before the rest of the query is planned.

use datafusion::common::Result;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::sql::{asof_join, grouped, joined, of_relation};
use crate::{sample, sql};

/// Plans such tables, and refuses others by name.
#[derive(Debug)]
pub(crate) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let Some(error) = of_relation(&relation) {
            return Err(error.into());
        }
        let planned = match &relation {
            TableFactor::Pivot { .. } => pivot(&relation, context)?,
            TableFactor::Unpivot { .. } => unpivot(&relation, context)?,
            TableFactor::NestedJoin { .. } => match sql::sampled(&relation) {
                Some((tables, clause)) => {
                    let plan = sample::planned_sample(tables, &clause?, context)?;
                    Some(PlannedRelation::new(plan, None))
                }
                None => asof_join(&relation, context)?,
            },
            _ => sample::planned(&mut relation, context)?,
        };
        Ok(match planned {
            Some(planned) => RelationPlanning::Planned(Box::new(planned)),
            None => RelationPlanning::Original(Box::new(relation)),
        })
    }
}

/// The plan of a query in FROM, with its alias applied.
fn subquery(
    relation: TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<PlannedRelation>> {
    Ok(Some(PlannedRelation::new(context.plan(relation)?, None)))
}

fn pivot(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<PlannedRelation>> {
    let TableFactor::Pivot { table, .. } = relation else {
        return Ok(None);
    };
    let table = context.plan((**table).clone())?;
    let query = {
        let functions = context.context_provider();
        let is_aggregate = |name: &str| functions.get_aggregate_meta(name).is_some();
        grouped(relation.clone(), table.schema(), &is_aggregate)?
    };
    subquery(query, context)
}

fn unpivot(
    relation: &TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<PlannedRelation>> {
    let TableFactor::Unpivot { table, .. } = relation else {
        return Ok(None);
    };
    let table = context.plan((**table).clone())?;
    let schema = table.schema();
    let mut kind = |expression: &datafusion::sql::sqlparser::ast::Expr| {
        context.sql_to_expr(expression.clone(), schema)?.get_type(schema)
    };
    let query = joined(relation.clone(), schema, &mut kind)?;
    subquery(query, context)
}
