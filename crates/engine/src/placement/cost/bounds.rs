//! Upper bounds of the rows of a plan's nodes, from the bounds of group keys.
//!
//! If the number of distinct values of a key is unknown, DataFusion estimates one group per row. But an
//! integer key has at most as many values as there are integers between its bounds, which the statistics of
//! files contain. The bounds of nodes above aggregates follow from those of their inputs.

use super::Estimator;
use crate::join_order::distinct_values;
use crate::placement::plan_node::{Join, PlanNode};
use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, JoinType, ScalarValue};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::joins::HashJoinExec;
use std::sync::Arc;

impl Estimator {
    /// Upper bound of the rows that a node returns, from those of its inputs; infinity if unknown. For joins,
    /// an estimate.
    pub(super) fn most_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let inputs = || plan.children().into_iter().map(|input| self.rows(input));
        let most = match PlanNode::of(plan) {
            PlanNode::Arrangement(_)
            | PlanNode::Filter(_)
            | PlanNode::Sample(_)
            | PlanNode::Projection(_)
            | PlanNode::Window(_)
            | PlanNode::Sort(_)
            | PlanNode::Merge(_)
            | PlanNode::Requirement(_)
            | PlanNode::Limit { .. }
            | PlanNode::Union(_) => inputs().sum(),
            PlanNode::Join(Join::Cross(_)) => inputs().product(),
            PlanNode::Join(_) => self.joined_rows(plan),
            PlanNode::Aggregate(aggregate) => self.most_groups(aggregate),
            _ => f64::INFINITY,
        };
        match self.is_cautious && !plan.children().is_empty() {
            true => most.min(inputs().sum()),
            false => most,
        }
    }

    /// An estimate of a join's rows: DataFusion's, scaled down for each input that has fewer rows than
    /// DataFusion estimates for it, or that of all keys together if it is lower.
    fn joined_rows(&self, join: &Arc<dyn ExecutionPlan>) -> f64 {
        self.scaled_rows(join).min(self.rows_by_keys(join))
    }

    /// An estimate of the rows of a join with several keys. DataFusion counts the distinct values of one key
    /// only, which is too many rows by a factor of the values of the others. Infinity for other joins.
    fn rows_by_keys(&self, join: &Arc<dyn ExecutionPlan>) -> f64 {
        let Some(join) = join
            .downcast_ref::<HashJoinExec>()
            .filter(|join| join.on().len() > 1)
        else {
            return f64::INFINITY;
        };
        let side = |plan: &Arc<dyn ExecutionPlan>, keys: Vec<&PhysicalExprRef>| {
            let (rows, statistics) = (self.rows(plan), self.statistics(plan)?);
            // The keys are assumed to be independent, but their combinations are no more than the rows.
            let values = keys.into_iter().map(|key| {
                let column = key.downcast_ref::<Column>()?;
                distinct_values(statistics.column_statistics.get(column.index())?, rows)
            });
            Some((rows, values.product::<Option<f64>>()?.min(rows).max(1.0)))
        };
        let sides = side(join.left(), join.on().iter().map(|(left, _)| left).collect()).zip(side(
            join.right(),
            join.on().iter().map(|(_, right)| right).collect(),
        ));
        let Some(((left, left_values), (right, right_values))) = sides else {
            return f64::INFINITY;
        };
        let matches = left * right / left_values.max(right_values);
        match join.join_type() {
            JoinType::Inner => matches,
            JoinType::Left => matches.max(left),
            JoinType::Right => matches.max(right),
            JoinType::Full => matches.max(left).max(right),
            // At most one row for each row of one side, as DataFusion estimates it.
            _ => f64::INFINITY,
        }
    }

    /// DataFusion's estimate, scaled down for each input.
    fn scaled_rows(&self, join: &Arc<dyn ExecutionPlan>) -> f64 {
        let estimated = |plan| {
            let statistics = self.statistics(plan)?;
            statistics.num_rows.get_value().map(|rows| *rows as f64)
        };
        let shares = join.children().into_iter().map(|input| match estimated(input) {
            Some(rows) if rows > 0.0 => (self.rows(input) / rows).min(1.0),
            _ => 1.0,
        });
        estimated(join).map_or(f64::INFINITY, |rows| (rows * shares.product::<f64>()).max(1.0))
    }

    /// Upper bound of the groups of an aggregate; infinity without group keys.
    fn most_groups(&self, aggregate: &AggregateExec) -> f64 {
        let (keys, rows) = (aggregate.group_expr(), self.rows(aggregate.input()));
        if keys.expr().is_empty() {
            return f64::INFINITY;
        }
        if aggregate.mode().input_mode() == AggregateInputMode::Partial {
            return rows.min(self.partial_groups(aggregate.input()));
        }
        let input = self.statistics(aggregate.input());
        let values = keys.expr().iter().map(|(key, _)| {
            let column = key.downcast_ref::<Column>()?;
            most_values(input.as_ref()?.column_statistics.get(column.index())?)
        });
        let groups = values.product::<Option<f64>>().unwrap_or(f64::INFINITY);
        // Each grouping set groups all rows, with the keys outside of the set replaced by NULL.
        keys.groups().len().max(1) as f64 * groups.min(rows)
    }

    /// Upper bound of the groups of the aggregate whose partial states `plan` returns.
    fn partial_groups(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        match PlanNode::of(plan) {
            PlanNode::Aggregate(aggregate) => self.most_groups(aggregate),
            PlanNode::Arrangement(input) | PlanNode::Requirement(input) => self.partial_groups(input),
            PlanNode::Merge(merge) => self.partial_groups(merge.input()),
            PlanNode::Sort(sort) => self.partial_groups(sort.input()),
            _ => f64::INFINITY,
        }
    }
}

/// Upper bound of the number of distinct values of an integer, Boolean or date column, NULL included, from
/// the column's minimum and maximum.
fn most_values(column: &ColumnStatistics) -> Option<f64> {
    let number = |bound: &Precision<ScalarValue>| -> Option<f64> {
        let bound = bound.get_value()?;
        let data_type = bound.data_type();
        if !data_type.is_integer() && !matches!(data_type, DataType::Date32 | DataType::Boolean) {
            return None;
        }
        match bound.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(Some(bound)) => Some(bound as f64),
            _ => None,
        }
    };
    let (least, greatest) = (number(&column.min_value)?, number(&column.max_value)?);
    (least <= greatest).then_some(greatest - least + 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::error::Result;
    use datafusion::prelude::{ParquetReadOptions, SessionContext};

    /// 50,000 rows have 100 values of one key and 500 of the other, and each of the 50,000 combinations once.
    #[tokio::test]
    async fn all_keys_of_a_join_limit_its_rows() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("t.parquet").display().to_string();
        let ctx = SessionContext::new();
        let rows = "SELECT value % 100 AS a, value / 100 AS b FROM generate_series(0, 49999)";
        ctx.sql(&format!("COPY ({rows}) TO '{path}'"))
            .await?
            .collect()
            .await?;
        ctx.register_parquet("t", &path, ParquetReadOptions::default())
            .await?;
        for (sql, rows) in [
            (
                "SELECT count(*) FROM t x JOIN t y ON x.a = y.a AND x.b = y.b",
                5e4,
            ),
            ("SELECT count(*) FROM t x JOIN t y ON x.b = y.b", 5e6),
            (
                "SELECT count(*) FROM t x LEFT JOIN (SELECT * FROM t WHERE b < 100) y ON x.a = y.a AND x.b = y.b",
                5e4,
            ),
        ] {
            let plan = ctx.sql(sql).await?.create_physical_plan().await?;
            let joins = found(&plan);
            let estimate = Estimator::new(1).rows(&joins[0]);
            assert!(
                estimate > 0.9 * rows && estimate < 1.1 * rows,
                "{sql}: {estimate} rows"
            );
        }
        Ok(())
    }

    /// The hash joins of a plan.
    fn found(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
        let below = plan.children().into_iter().flat_map(found);
        let own = plan.is::<HashJoinExec>().then(|| Arc::clone(plan));
        own.into_iter().chain(below).collect()
    }

    #[tokio::test]
    async fn bounds_of_keys_limit_groups() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("t.parquet").display().to_string();
        let ctx = SessionContext::new();
        let rows = "SELECT value AS v, value % 10 AS k, value % 2 = 0 AS b, CAST(value % 7 AS VARCHAR) AS s
                    FROM generate_series(1, 50000)";
        let copy = ctx.sql(&format!("COPY ({rows}) TO '{path}'")).await?;
        copy.collect().await?;
        ctx.register_parquet("t", &path, ParquetReadOptions::default())
            .await?;
        for (sql, most) in [
            ("SELECT k, count(*) FROM t GROUP BY k", 11.0),
            ("SELECT k, b, count(*) FROM t GROUP BY k, b", 33.0),
            ("SELECT k, b, count(*) FROM t GROUP BY ROLLUP (k, b)", 99.0),
            (
                "SELECT x.k, count(*) FROM t x JOIN t y ON x.v = y.v GROUP BY x.k",
                11.0,
            ),
            (
                "SELECT * FROM (SELECT k, count(*) AS n FROM t GROUP BY k) x
                 CROSS JOIN (SELECT k, sum(v) AS m FROM t GROUP BY k) y",
                121.0,
            ),
            (
                "SELECT x.k, n, m FROM (SELECT k, count(*) AS n FROM t GROUP BY k) x
                 JOIN (SELECT k, sum(v) AS m FROM t GROUP BY k) y ON x.k = y.k",
                121.0,
            ),
            (
                "SELECT k FROM t GROUP BY k UNION ALL SELECT CAST(b AS BIGINT) FROM (SELECT b FROM t GROUP BY b)",
                14.0,
            ),
            ("SELECT s, count(*) FROM t GROUP BY s", f64::INFINITY),
            ("SELECT k, s, count(*) FROM t GROUP BY k, s", f64::INFINITY),
        ] {
            let plan = ctx.sql(sql).await?.create_physical_plan().await?;
            let rows = Estimator::new(1).rows(&plan);
            match most.is_finite() {
                true => assert!(rows <= most, "{sql}: {rows} rows"),
                false => assert!(rows > 1000.0, "{sql}: {rows} rows"),
            }
        }
        Ok(())
    }
}
