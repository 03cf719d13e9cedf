//! TABLESAMPLE: a random sample of a table's rows.
//!
//! | clause | rows |
//! | --- | --- |
//! | `BERNOULLI (p)`, `ROW (p)`, no method | each row with a probability of p percent |
//! | `SYSTEM (p)`, `BLOCK (p)` | each block of 2,048 consecutive rows with a probability of p percent |
//! | `(n ROWS)` | n rows, or all if the table has fewer |
//! | `... REPEATABLE (seed)`, `... SEED (seed)` | the same rows each time, as long as the table stays the same |
//!
//! DataFusion's planner ignores the clause. A sampled table is a table that scans another one in its order,
//! and selects rows by a hash of the seed and the row number ([`galatea_engine::sample`]). So the sample does
//! not depend on partitions or threads. Without a seed, each query uses a different one. The rows of a
//! subquery have no numbers: its sample is a filter by `random()`, or its first rows in a random order, and
//! is not repeatable.

mod table;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::functions::math::random;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, col, lit};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit,
    UnaryOperator, Value,
};

use self::table::SampledTable;
use crate::sql::SqlError;
use galatea_engine::sample::{Draw, Sample};

/// The column of random numbers for sampling the rows of a subquery.
const LOT: &str = "galatea_lot";

/// The plan of a table with a sample; `None` for other tables.
pub(crate) fn planned(
    relation: &mut TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<Option<PlannedRelation>> {
    let (TableFactor::Table { sample, alias, .. } | TableFactor::Derived { sample, alias, .. }) = relation
    else {
        return Ok(None);
    };
    let Some(TableSampleKind::BeforeTableAlias(clause) | TableSampleKind::AfterTableAlias(clause)) =
        sample.take()
    else {
        return Ok(None);
    };
    let alias = alias.take();
    let plan = planned_sample(relation.clone(), &clause, context)?;
    Ok(Some(PlannedRelation::new(plan, alias)))
}

/// The plan of the sample of a table.
pub(crate) fn planned_sample(
    relation: TableFactor,
    clause: &TableSample,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let sample = sample_of(clause)?;
    sampled(context.plan(relation)?, sample)
}

fn wrong(problem: impl Into<String>) -> DataFusionError {
    let hint = "write TABLESAMPLE BERNOULLI (10), SYSTEM (10) or (100 ROWS), and after it REPEATABLE (42) for the \
                same rows each time";
    let problem = problem.into();
    SqlError::Sample { problem, hint }.into()
}

/// The sample that a clause defines.
fn sample_of(clause: &TableSample) -> Result<Sample> {
    let (None, None) = (&clause.bucket, &clause.offset) else {
        return Err(wrong("with BUCKET or OFFSET is not supported"));
    };
    let Some(quantity) = &clause.quantity else {
        return Err(wrong("has no amount"));
    };
    let amount = number(&quantity.value)?;
    let draw = match (&clause.name, &quantity.unit) {
        (Some(TableSampleMethod::System | TableSampleMethod::Block), Some(TableSampleUnit::Rows)) => {
            return Err(wrong(
                "SYSTEM with a number of ROWS is not supported: it draws whole blocks",
            ));
        }
        (_, Some(TableSampleUnit::Rows)) => {
            let rows = amount.parse();
            Draw::Rows(rows.map_err(|_| wrong(format!("needs a whole number of rows from 0 on: {amount}")))?)
        }
        (method, _) => {
            let percent = amount
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent));
            let percent: f64 =
                percent.ok_or_else(|| wrong(format!("needs a percentage from 0 to 100: {amount}")))?;
            match method {
                Some(TableSampleMethod::System | TableSampleMethod::Block) => Draw::blocks(percent),
                _ => Draw::each(percent),
            }
        }
    };
    let seed = clause.seed.as_ref().map(|seed| match &seed.value.value {
        Value::Number(text, _) => {
            seed_of(text).ok_or_else(|| wrong(format!("needs a number as its seed: {text}")))
        }
        other => Err(wrong(format!("needs a number as its seed: {other}"))),
    });
    Ok(Sample {
        draw,
        seed: seed.transpose()?,
    })
}

/// The string of a number, with its sign.
fn number(expression: &SqlExpr) -> Result<String> {
    match expression {
        SqlExpr::Nested(inner) => number(inner),
        SqlExpr::Value(value) => match &value.value {
            Value::Number(text, _) => Ok(text.clone()),
            other => Err(wrong(format!("needs a number: {other}"))),
        },
        SqlExpr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Ok(format!("-{}", number(expr)?)),
        other => Err(wrong(format!("needs a number: {other}"))),
    }
}

/// The seed of a number. Equal numbers are equal seeds.
fn seed_of(text: &str) -> Option<u64> {
    let whole = text.parse().ok();
    whole.or_else(|| {
        Some(
            text.parse::<f64>()
                .ok()
                .filter(|seed| seed.is_finite())?
                .to_bits(),
        )
    })
}

/// The plan of a sample of the rows of `plan`.
fn sampled(plan: LogicalPlan, sample: Sample) -> Result<LogicalPlan> {
    match scanned(&plan) {
        Some((name, table)) => {
            let table = provider_as_source(Arc::new(SampledTable::new(table, sample)));
            LogicalPlanBuilder::scan(name, table, None)?.build()
        }
        None => sampled_subquery(plan, &sample),
    }
}

/// The table of a plan that returns all rows of one table, and its name in the query.
fn scanned(plan: &LogicalPlan) -> Option<(TableReference, Arc<dyn TableProvider>)> {
    match plan {
        LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
            let table = source_as_provider(&scan.source).ok()?;
            // A view is a subquery.
            let is_table = table.get_logical_plan().is_none() && scan.projection.is_none();
            is_table.then(|| (scan.table_name.clone(), table))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (_, table) = scanned(&alias.input)?;
            Some((alias.alias.clone(), table))
        }
        _ => None,
    }
}

/// The plan of a sample of rows without numbers.
fn sampled_subquery(plan: LogicalPlan, sample: &Sample) -> Result<LogicalPlan> {
    if sample.seed.is_some() {
        return Err(wrong(
            "with REPEATABLE needs a table: the rows of a subquery or a view have no order of their own",
        ));
    }
    let plan = LogicalPlanBuilder::from(plan);
    match sample.draw {
        Draw::Each(share) => plan.filter(random().call(Vec::new()).lt(lit(share)))?.build(),
        Draw::Rows(rows) => {
            let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
            // The random number is a column, because DataFusion sorts no rows without columns.
            let lots = random().call(Vec::new()).alias(LOT);
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            plan.project(columns.iter().cloned().chain([lots]))?
                .sort(vec![SortExpr::new(col(LOT), true, false)])?
                .limit(0, Some(rows))?
                .project(columns)?
                .build()
        }
        Draw::Blocks(_) => Err(wrong(
            "SYSTEM needs a table: a subquery or a view has no blocks; use BERNOULLI",
        )),
    }
}
