//! The named facts of an operator that runs on the CPU. The names are those of GPU subtrees.

use crate::facts::{Fact, Facts, files};
use crate::spilling_join::SpillingJoinExec;
use arrow::datatypes::Schema;
use datafusion::common::JoinType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use galatea_store::StoreScanExec;
use std::sync::Arc;

type Expression = Arc<dyn PhysicalExpr>;

/// The facts of an operator; `None` for operators without a case here: DataFusion's line is shown.
pub(super) fn facts(plan: &dyn ExecutionPlan) -> Option<Facts> {
    let facts = scan(plan)
        .or_else(|| rows(plan))
        .or_else(|| groups(plan))
        .or_else(|| join(plan))
        .or_else(|| order(plan))
        .or_else(|| window(plan))
        .or_else(|| flow(plan))?;
    Some(Facts(facts))
}

/// Scans: the source, the columns that are read from it, and the filters by which it may skip rows.
fn scan(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    let (source, filters) = if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
        let filters = scan.filters().iter().flat_map(conjuncts).collect();
        (format!("store {}", scan.source().name()), filters)
    } else {
        let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
        match source.downcast_ref::<FileScanConfig>() {
            Some(scan) => {
                let filter = scan.file_source.filter();
                (files(scan), filter.iter().flat_map(conjuncts).collect())
            }
            None => ("memory".to_owned(), Vec::new()),
        }
    };
    let mut facts = vec![Fact::one("source", source)];
    facts.push(Fact::one("columns", columns(&plan.schema()).join(", ")));
    facts.extend(Fact::list("filters", filters));
    facts.extend(plan.fetch().map(|rows| Fact::one("fetch", rows.to_string())));
    Some(facts)
}

/// Filters and projections.
fn rows(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(
            Fact::list("filters", conjuncts(filter.predicate()))
                .into_iter()
                .collect(),
        );
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let outputs = projection.expr().iter();
    let outputs = outputs
        .map(|output| aliased(&output.expr, &output.alias))
        .collect();
    Some(Fact::list("outputs", outputs).into_iter().collect())
}

/// Groups and their aggregates.
fn groups(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let mode = match aggregate.mode() {
        AggregateMode::Partial => "partial",
        AggregateMode::PartialReduce => "of partial ones",
        AggregateMode::Final => "final",
        AggregateMode::FinalPartitioned => "final, partitioned by the keys",
        AggregateMode::Single => "single",
        AggregateMode::SinglePartitioned => "single, partitioned by the keys",
    };
    let mut facts = vec![Fact::one("mode", mode)];
    facts.extend(Fact::list("keys", keys(aggregate.group_expr())));
    let calls = aggregate.aggr_expr().iter();
    let calls = calls.map(|call| call.human_display().unwrap_or_else(|| call.name()).to_owned());
    facts.extend(Fact::list("aggregates", calls.collect()));
    let wanted = aggregate.limit_options();
    facts.extend(wanted.map(|wanted| Fact::one("fetch", wanted.limit().to_string())));
    Some(facts)
}

/// The grouping keys; with several grouping sets, the keys of each.
fn keys(groups: &PhysicalGroupBy) -> Vec<String> {
    let name = |(expression, alias): &(Expression, String)| aliased(expression, alias);
    if groups.is_single() {
        return groups.expr().iter().map(name).collect();
    }
    let set = |absent: &Vec<bool>| {
        let keys = groups.expr().iter().zip(absent).filter(|(_, absent)| !**absent);
        format!(
            "({})",
            keys.map(|(key, _)| name(key)).collect::<Vec<_>>().join(", ")
        )
    };
    groups.groups().iter().map(set).collect()
}

/// Joins: the kind, the pairs of keys, and conditions beside them.
fn join(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    if plan.is::<SpillingJoinExec>() {
        return Some(Vec::new());
    }
    if plan.is::<CrossJoinExec>() {
        return Some(vec![Fact::one("join", "cross")]);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let mut facts = joined(*join.join_type(), join.on(), join.filter());
        let build = match join.partition_mode() {
            PartitionMode::CollectLeft => "collected, shared by all partitions",
            PartitionMode::Partitioned => "partitioned by the keys",
            PartitionMode::Auto => "not decided",
        };
        facts.push(Fact::one("build side", build));
        return Some(facts);
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return Some(joined(join.join_type(), join.on(), join.filter().as_ref()));
    }
    let join = plan.downcast_ref::<NestedLoopJoinExec>()?;
    Some(joined(*join.join_type(), &[], join.filter()))
}

fn joined(kind: JoinType, on: &[(Expression, Expression)], filter: Option<&JoinFilter>) -> Vec<Fact> {
    let mut facts = vec![Fact::one("join", kind.to_string().to_lowercase())];
    let equal = |(left, right): &(Expression, Expression)| format!("{} = {}", sql(left), sql(right));
    facts.extend(Fact::list("keys", on.iter().map(equal).collect()));
    let conditions = filter.map(|filter| conjuncts(filter.expression()));
    facts.extend(Fact::list("filters", conditions.unwrap_or_default()));
    facts
}

/// Orders.
fn order(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    let keys = match plan.downcast_ref::<SortExec>() {
        Some(sort) => sort.expr(),
        None => plan.downcast_ref::<SortPreservingMergeExec>()?.expr(),
    };
    let mut facts: Vec<Fact> = Fact::list("sorted by", keys.iter().map(sort_key).collect())
        .into_iter()
        .collect();
    facts.extend(plan.fetch().map(|rows| Fact::one("fetch", rows.to_string())));
    Some(facts)
}

/// Window functions.
fn window(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    let functions = match plan.downcast_ref::<WindowAggExec>() {
        Some(window) => window.window_expr(),
        None => plan.downcast_ref::<BoundedWindowAggExec>()?.window_expr(),
    };
    let names = functions.iter().map(|function| function.name().to_owned());
    Some(Fact::list("functions", names.collect()).into_iter().collect())
}

/// Operators that pass rows through.
fn flow(plan: &dyn ExecutionPlan) -> Option<Vec<Fact>> {
    if plan.is::<CoalescePartitionsExec>() || plan.is::<UnionExec>() {
        return Some(Vec::new());
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        let skip = Some(limit.skip()).filter(|skip| *skip > 0);
        let mut facts: Vec<Fact> = skip
            .map(|rows| Fact::one("skip", rows.to_string()))
            .into_iter()
            .collect();
        facts.extend(limit.fetch().map(|rows| Fact::one("fetch", rows.to_string())));
        return Some(facts);
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(vec![Fact::one("fetch", limit.fetch().to_string())]);
    }
    let partitioning = plan.downcast_ref::<RepartitionExec>()?.partitioning();
    let by = match partitioning {
        Partitioning::Hash(keys, count) => {
            let keys: Vec<String> = keys.iter().map(sql).collect();
            format!("{count} by {}", keys.join(", "))
        }
        Partitioning::RoundRobinBatch(count) => format!("{count}, batches in turn"),
        other => other.to_string(),
    };
    Some(vec![Fact::one("partitions", by)])
}

fn sql(expression: &Expression) -> String {
    fmt_sql(expression.as_ref()).to_string()
}

/// The conditions of a conjunction, except dynamic filters.
fn conjuncts(predicate: &Expression) -> Vec<String> {
    let all = split_conjunction(predicate).into_iter();
    let fixed = all.filter(|condition| !condition.is::<DynamicFilterPhysicalExpr>());
    fixed.map(sql).collect()
}

fn aliased(expression: &Expression, alias: &str) -> String {
    let text = sql(expression);
    if text == alias {
        text
    } else {
        format!("{text} AS {alias}")
    }
}

fn sort_key(key: &PhysicalSortExpr) -> String {
    let direction = if key.options.descending { " DESC" } else { "" };
    // NULL is the greatest value by default.
    let nulls = match (key.options.nulls_first, key.options.descending) {
        (true, false) => " NULLS FIRST",
        (false, true) => " NULLS LAST",
        _ => "",
    };
    format!("{}{direction}{nulls}", sql(&key.expr))
}

fn columns(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}
