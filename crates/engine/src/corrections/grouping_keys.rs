//! Computed keys of grouping sets are columns of a projection below.
//!
//! The columns of grouping sets have the names of their expressions, and DataFusion accepts no aliases there.
//! So other rules cannot replace such keys: `CUBE (nullif(x, 0))` grouped 0.0 and -0.0 apart.
//!
//! ```text
//! GROUP BY CUBE (nullif(x, 0))
//!     GROUP BY CUBE ("nullif(x,0)") over (SELECT *, nullif(x, 0) AS "nullif(x,0)")
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The rule; see the module documentation. It runs before rules that replace expressions.
#[derive(Debug, Default)]
pub(super) struct ComputeGroupingKeys;

impl AnalyzerRule for ComputeGroupingKeys {
    fn name(&self) -> &'static str {
        "galatea_compute_grouping_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) => over_columns(aggregate),
            node => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }
}

/// The aggregate with columns in the place of computed keys, and of arguments of `grouping` that are equal.
fn over_columns(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let unchanged = |aggregate| Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    if !matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)]) {
        return unchanged(aggregate);
    }
    let mut computed: Vec<(Expr, Expr)> = Vec::new();
    for key in grouping_set_to_exprlist(&aggregate.group_expr)? {
        let is_column = matches!(key, Expr::Column(_)) || key.column_refs().is_empty();
        if !is_column && !computed.iter().any(|(known, _)| known == key) {
            let name = key.schema_name().to_string();
            computed.push((key.clone(), Expr::Column(Column::new_unqualified(name))));
        }
    }
    let fields = aggregate.input.schema().fields();
    let is_taken = |name: &str| fields.iter().any(|field| field.name() == name);
    let is_outer = |key: &Expr| key.contains_outer();
    computed.retain(|(key, column)| !is_taken(&column.schema_name().to_string()) && !is_outer(key));
    if computed.is_empty() {
        return unchanged(aggregate);
    }
    let own = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let keys = computed
        .iter()
        .map(|(key, column)| key.clone().alias(column.schema_name().to_string()));
    let columns: Vec<Expr> = own.chain(keys).collect();
    let input = LogicalPlanBuilder::from(aggregate.input)
        .project(columns)?
        .build()?;
    let as_column = |part: Expr| match computed.iter().find(|(key, _)| *key == part) {
        Some((_, column)) => Transformed::yes(column.clone()),
        None => Transformed::no(part),
    };
    let replaced = |expression: Expr| Ok(expression.transform_down(|part| Ok(as_column(part)))?.data);
    let sets = aggregate.group_expr.into_iter().map(replaced);
    let sets = sets.collect::<Result<Vec<_>>>()?;
    let calls = aggregate.aggr_expr.into_iter().map(|call| {
        let is_grouping =
            |call: &Expr| matches!(call, Expr::AggregateFunction(call) if call.func.name() == "grouping");
        let found = call.exists(|part| Ok(is_grouping(part)))?;
        if found { replaced(call) } else { Ok(call) }
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    let aggregate = Aggregate::try_new(Arc::new(input), sets, calls)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}
