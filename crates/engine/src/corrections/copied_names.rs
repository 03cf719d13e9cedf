//! COPY writes columns of different names.
//!
//! `COPY (SELECT * FROM t JOIN u ...)` of two tables with a column `g` wrote two columns `g`. Readers of
//! Parquet, Arrow and JSON lose one of the two. The second one is `g_1`, as in the columns of a SELECT.

use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::Arc;

/// The rule that renames the columns.
#[derive(Debug, Default)]
pub(super) struct NameCopies;

impl AnalyzerRule for NameCopies {
    fn name(&self) -> &'static str {
        "galatea_name_copies"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let LogicalPlan::Copy(mut copy) = plan else {
            return Ok(plan);
        };
        let schema = copy.input.schema();
        let all: HashSet<&String> = schema.fields().iter().map(|field| field.name()).collect();
        if all.len() < schema.fields().len() {
            let mut taken: HashSet<String> = HashSet::new();
            let columns = schema.iter().map(|(table, field)| {
                let name = field.name();
                let further = (1_usize..).map(|number| format!("{name}_{number}"));
                let mut names =
                    std::iter::once(name.clone()).chain(further.filter(|further| !all.contains(further)));
                let unused = names.find(|name| taken.insert(name.clone()));
                let column = Expr::Column(Column::new(table.cloned(), name));
                column.alias(unused.unwrap_or_else(|| name.clone()))
            });
            let columns: Vec<Expr> = columns.collect();
            let input = LogicalPlanBuilder::from(copy.input.as_ref().clone());
            copy.input = Arc::new(input.project(columns)?.build()?);
        }
        Ok(LogicalPlan::Copy(copy))
    }
}
