//! Planner rules for queries with wrong results in DataFusion 55.
//!
//! Each file corrects one kind of query by rewriting its plan before DataFusion's own rules process it, so
//! that the CPU and the device run the same, correct plan:
//!
//! ```text
//! subqueries      NOT IN with correlation, IN and EXISTS as values, EXISTS and IN over ungrouped aggregates
//! changes         DELETE and UPDATE with conditions on other tables are refused
//! copied_names    COPY writes columns of different names
//! correlated_names  inner columns of one name in correlated subqueries are different columns
//! subquery_places  subqueries in ON, ORDER BY, GROUP BY and windows are columns below
//! outer_conditions  conditions on outer columns in ON of joins inside subqueries
//! lifting         operators inside correlated subqueries see the rows of one outer row
//! far_columns     subqueries read columns of a query two levels around them
//! scalars         scalar subqueries with LIMIT or GROUP BY
//! single_rows     scalar subqueries that are not aggregated
//! laterals        LATERAL subqueries over aggregates without GROUP BY, and with other operators
//! set_comparisons  ANY and ALL with subqueries keep the names of columns
//! set_operations  EXCEPT ALL and INTERSECT ALL count copies
//! closures        lambdas over lists read the columns of their rows
//! list_lengths    the length of a list is the number of its elements
//! struct_fields   a field of a NULL struct is NULL
//! float_extremes  grouped MIN and MAX order NaN above all other values
//! float_distinct  approx_distinct counts floats
//! float_ranks     integers in the order of floats, for float_extremes and float_distinct
//! float_keys      NaN is one group and one distinct value
//! float_compare   comparisons and IN: NaN equals NaN and is above all other values
//! decimal_constants  constant floats beside decimals have their spelled digits
//! float_decimals  decimals compared or united with floats are floats
//! float_constants  columns of files are not constant by statistics without NaN
//! float_order     sorts and joins: the same for their keys
//! float_windows   windows: the same for their keys
//! frames          sums of floats and exclusive ors over sliding frames contain only the rows of the frame
//! aggregates      the exclusive or of distinct values in groups reads each once
//! aggregate_orders  several aggregates of one GROUP BY with ORDER BY in other orders
//! interval_compare  intervals and differences of timestamps are compared by their lengths
//! aggregate_bounds  MIN and MAX of computed values and with FILTER read all rows; joins by lists
//! grouping_sets   keys that grouping sets replace by NULL are neither constant nor in the order of the input
//! grouping_keys   computed keys of grouping sets are columns, which other rules can replace
//! group_keys      GROUP BY and DISTINCT keep columns beside the key of a subquery
//! volatile_columns  filters over random() and uuid() test the returned values
//! repeated_orders  ORDER BY with the same expression twice in aggregates and DISTINCT ON
//! distinct_rows   DISTINCT in corr, covar_*, regr_*, stddev and approximate percentiles
//! ignored_nulls   LEAD with IGNORE NULLS is evaluated over whole partitions
//! deviations      variance, covariance, correlation and regression of large close values
//! self_equalities  windows and sorts by c above filters such as lower(c) = c
//! same_names      filters stay above rows with several columns of one name
//! null_keys       equalities beside joins by IS NOT DISTINCT FROM match no NULLs
//! nullable_subqueries  scalar subqueries without rows are NULL
//! coarse_timestamps  comparisons of timestamps of seconds with constants of finer units, and with dates
//! session_zone    columns of timestamps with time zone are in the zone of the session
//! moved_times     timestamps of seconds plus intervals of finer units; dates plus hours
//! scalar_functions  nullif and CASE of -0.0, casts of timestamps with time zones, lpad to negative lengths
//! timestamps      date_trunc and date_bin beyond the years of 64-bit nanoseconds, and of constants before 1970
//! offsets         OFFSET without LIMIT skips the rows of its own order
//! merge_join      sort-merge joins keep their filters when a projection moves below them
//! ```
//!
//! The tests of `crates/galatea/tests/answers/upstream.rs` run the same queries on plain DataFusion. A test
//! fails once DataFusion is correct, and names the rule to remove.

mod aggregate_bounds;
mod aggregate_orders;
mod aggregates;
mod changes;
mod closures;
mod coarse_timestamps;
mod copied_names;
mod correlated_names;
mod decimal_constants;
mod deviations;
mod distinct_rows;
mod far_columns;
mod float_compare;
mod float_constants;
mod float_decimals;
mod float_distinct;
mod float_extremes;
mod float_keys;
mod float_order;
mod float_ranks;
mod float_windows;
mod frames;
mod group_keys;
mod grouping_keys;
mod grouping_sets;
mod hidden;
mod ignored_nulls;
mod interval_compare;
mod laterals;
mod lifting;
mod list_lengths;
mod marks;
mod merge_join;
mod moved_times;
mod null_keys;
mod nullable_subqueries;
mod offsets;
mod one_row;
mod outer_conditions;
mod repeated_orders;
mod same_names;
mod scalar_functions;
mod scalars;
mod self_equalities;
mod session_zone;
mod set_comparisons;
mod set_operations;
mod single_rows;
mod struct_fields;
mod subqueries;
mod subquery_places;
mod timestamps;
mod volatile_columns;

pub use float_compare::compare_floats;
pub use moved_times::MovedTimes;

use datafusion::logical_expr::Operator;
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use hidden::Hiding;
use offsets::KeepOffsets;
use std::sync::Arc;

/// Whether an operator compares its operands.
fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The session's analyzer rules, including ours.
#[must_use]
pub fn analyzer_rules(
    rules: &[Arc<dyn AnalyzerRule + Send + Sync>],
) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    // EXCEPT ALL and INTERSECT ALL are recognised by their join keys, which type coercion may wrap in casts.
    let mut all: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(session_zone::SessionZone),
        Arc::new(subquery_places::PlaceSubqueries),
        Arc::new(single_rows::SingleRows),
        Arc::new(repeated_orders::OrderOnce),
        Arc::new(set_operations::CountCopies),
        Arc::new(grouping_keys::ComputeGroupingKeys),
        Arc::new(float_decimals::DecimalsAsFloats),
        Arc::new(list_lengths::ListLengths),
        Arc::new(coarse_timestamps::CoarseTimestamps),
        Arc::new(scalar_functions::ReplaceScalars),
        Arc::new(interval_compare::CompareLengths),
        Arc::new(aggregate_orders::OrderedAggregates),
    ];
    all.extend(rules.iter().cloned());
    all.push(Arc::new(decimal_constants::SpelledDecimals));
    all.push(Arc::new(nullable_subqueries::NullableSubqueries));
    all.push(Arc::new(struct_fields::MaskFields));
    all.push(Arc::new(timestamps::KeepUnits));
    all.push(Arc::new(changes::RefuseOtherTables));
    all.push(Arc::new(copied_names::NameCopies));
    all.push(Arc::new(aggregates::ReplaceAggregates));
    all.push(Arc::new(closures::CloseLambdas));
    all
}

/// The session's optimizer rules, including ours: before those that rewrite subqueries to joins, and for
/// windows at the end.
#[must_use]
pub fn optimizer_rules(
    rules: &[Arc<dyn OptimizerRule + Send + Sync>],
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let rules = rules.iter().map(|rule| match rule.name() {
        "extract_equijoin_predicate" => null_keys::EqualKeys::around(rule),
        "eliminate_cross_join" => null_keys::MergeJoins::around(rule),
        "rewrite_set_comparison" => set_comparisons::KeepNames::around(rule),
        name if group_keys::READERS.contains(&name) => group_keys::AllKeys::around(rule),
        _ => Arc::clone(rule),
    });
    let mut all: Vec<Arc<dyn OptimizerRule + Send + Sync>> = rules.collect();
    let after = all
        .iter()
        .position(|rule| rule.name() == "rewrite_set_comparison");
    all.insert(
        after.map_or(0, |at| at + 1),
        Arc::new(far_columns::JoinFarColumns),
    );
    all.insert(
        after.map_or(0, |at| at + 1) + 1,
        Arc::new(subqueries::RewriteSubqueries),
    );
    all.insert(after.map_or(0, |at| at + 1) + 2, Arc::new(laterals::JoinLaterals));
    all.push(Arc::new(float_windows::OrderWindows));
    let simplified = all.iter().position(|rule| rule.name() == "simplify_expressions");
    all.insert(
        simplified.unwrap_or(0),
        Arc::new(coarse_timestamps::ExactLiterals),
    );
    all
}

/// The session's physical rules, including ours: no constants of floats by statistics of files; one NaN for
/// grouping, comparisons and the keys of sorts and joins; sort-merge joins with filters are hidden from
/// projection push-down; no sort moves below an OFFSET.
#[must_use]
pub fn physical_rules(
    rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>],
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let rules = rules.iter().map(|rule| match rule.name() {
        "ProjectionPushdown" => Hiding::around(rule, merge_join::has_filter),
        "EnsureRequirements" => KeepOffsets::around(rule),
        "LimitAggregation" => Hiding::around(rule, float_keys::compares_floats),
        name if name.starts_with("FilterPushdown") => {
            let hides = |node: &_| same_names::repeats_names(node) || volatile_columns::computes_them(node);
            aggregate_bounds::KeepBoundsExact::around(Hiding::around(rule, hides))
        }
        _ => Arc::clone(rule),
    });
    let mut all: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = rules.collect();
    all.insert(0, Arc::new(float_constants::NoFloatConstants));
    // Before rows are repartitioned by keys. Placement is inserted in front of it.
    let after = all.iter().position(|rule| rule.name() == "aggregate_statistics");
    let at = after.map_or(0, |at| at + 1);
    all.insert(at, Arc::new(float_keys::OneNan));
    all.insert(at + 1, Arc::new(float_compare::CompareFloats));
    all.insert(at + 2, Arc::new(grouping_sets::ForgetOrder));
    all.insert(at + 3, Arc::new(self_equalities::KeepColumns));
    all.push(Arc::new(float_order::OrderFloats));
    all
}
