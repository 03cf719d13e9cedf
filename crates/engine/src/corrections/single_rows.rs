//! Correlated scalar subqueries that may have several rows: `(SELECT name FROM u WHERE u.k = t.k)`.
//!
//! DataFusion refuses those that are not aggregated. A query is right if each outer row has at most one row
//! of the subquery, so the subquery becomes two aggregates, and a function that raises an error if there are
//! more:
//!
//! ```text
//! single_row((SELECT min(name) FROM u WHERE u.k = t.k), (SELECT count(*) FROM u WHERE u.k = t.k))
//! ```
//!
//! The rule runs before DataFusion checks subqueries.

use super::far_columns;
use super::lifting;
use crate::checks::{input_schema, names_kept};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::{first_value, min};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Distinct, Expr, FetchType, LogicalPlan, LogicalPlanBuilder,
    Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

/// The rule; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct SingleRows;

impl AnalyzerRule for SingleRows {
    fn name(&self) -> &'static str {
        "galatea_single_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            let outer = input_schema(&node);
            names_kept(node, |expr| {
                expr.transform_up(|part| match part {
                    Expr::ScalarSubquery(subquery) if may_have_rows(&subquery, &outer)? => {
                        single(&subquery).map(Transformed::yes)
                    }
                    part => Ok(Transformed::no(part)),
                })
            })
        });
        Ok(changed?.data)
    }
}

/// Whether a correlated subquery may have more than one row for an outer row.
fn may_have_rows(subquery: &Subquery, outer: &DFSchema) -> Result<bool> {
    if subquery.subquery.schema().fields().len() != 1 || is_single(&subquery.subquery) {
        return Ok(false);
    }
    Ok(!subquery.outer_ref_columns.is_empty() || far_columns::are_in(&subquery.subquery, outer)?)
}

/// Whether a plan has one row for each outer row: that of an aggregate, or the first one.
fn is_single(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_single(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_single(&alias.input),
        LogicalPlan::Filter(filter) => is_single(&filter.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_some_and(|rows| rows <= 1) || is_single(&sort.input),
        LogicalPlan::Limit(limit) => {
            let fetch = limit.get_fetch_type();
            matches!(fetch, Ok(FetchType::Literal(Some(rows))) if rows <= 1) || is_single(&limit.input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => is_single(input),
        LogicalPlan::Aggregate(aggregate) => {
            !aggregate.aggr_expr.is_empty() && is_by_correlated_keys(aggregate)
        }
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// Whether each group key equals an outer value, so that an outer row has one group.
fn is_by_correlated_keys(aggregate: &Aggregate) -> bool {
    let mut equal: Vec<Expr> = Vec::new();
    let found = aggregate.input.apply(|node| {
        match node {
            LogicalPlan::Filter(filter) => {
                for part in split_conjunction(&filter.predicate) {
                    if let Expr::BinaryExpr(BinaryExpr {
                        left,
                        op: Operator::Eq,
                        right,
                    }) = part
                    {
                        let sides = [(left, right), (right, left)];
                        let keys = sides.into_iter().filter(|(inner, outer)| {
                            outer.contains_outer() && !outer.any_column_refs() && !inner.contains_outer()
                        });
                        equal.extend(keys.map(|(inner, _)| inner.as_ref().clone()));
                    }
                }
            }
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => return Ok(TreeNodeRecursion::Stop),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.is_ok() && aggregate.group_expr.iter().all(|key| equal.contains(key))
}

/// The value of the only row.
fn single(subquery: &Subquery) -> Result<Expr> {
    let plan = subquery.subquery.as_ref();
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let value = match has_order(plan.schema().field(0).data_type()) {
        true => min(value),
        false => first_value(value, Vec::new()),
    };
    let value = aggregated(subquery, value)?;
    let count = aggregated(subquery, count_all())?;
    Ok(ScalarUDF::from(SingleRow::new()).call(vec![value, count]))
}

/// Whether values have a minimum.
fn has_order(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
        || data_type.is_string()
        || *data_type == DataType::Boolean
}

/// An aggregate over the rows of the subquery.
fn aggregated(subquery: &Subquery, call: Expr) -> Result<Expr> {
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    let plan = plan.aggregate(Vec::<Expr>::new(), [call])?.build()?;
    Ok(Expr::ScalarSubquery(lifting::replaced(subquery, plan)))
}

/// `single_row(value, rows)`: the value; an error if there are several rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl SingleRow {
    fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &'static str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = args.args.as_slice() else {
            return exec_err!("single_row takes 2 arguments, not {}", args.args.len());
        };
        let most = match rows {
            ColumnarValue::Scalar(ScalarValue::Int64(rows)) => *rows,
            ColumnarValue::Scalar(_) => None,
            ColumnarValue::Array(rows) => rows.as_primitive_opt::<Int64Type>().and_then(|rows| {
                (0..rows.len())
                    .filter(|row| rows.is_valid(*row))
                    .map(|row| rows.value(row))
                    .max()
            }),
        };
        match most {
            Some(most) if most > 1 => exec_err!(
                "a subquery that is used as a value has {most} rows for a row of the query around it\nhint: select one \
                 of them by an aggregate, or by ORDER BY and LIMIT 1"
            ),
            _ => Ok(value.clone()),
        }
    }
}
