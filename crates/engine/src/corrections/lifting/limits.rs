//! LIMIT and OFFSET of the rows of each outer row, by their numbers.

use super::lifted::{Lifted, Lifting};
use super::settle::{Reader, only};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, Filter, Limit, LogicalPlan, SkipType, SortExpr, Window, lit,
};
use std::sync::Arc;

impl Lifting<'_> {
    /// The rows of the limit's input that it keeps for each outer row.
    pub(super) fn limited(&mut self, limit: &Limit, input: Lifted) -> Result<Lifted> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!("LIMIT and OFFSET of a correlated subquery must be constants");
        };
        let order = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => sort.expr.clone(),
            _ => Vec::new(),
        };
        let reader = Reader {
            name: "LIMIT or OFFSET",
            by: &[],
            splits: false,
        };
        let schema = Arc::clone(input.plan.schema());
        let settled = self.settled(input, &reader)?;
        let number = self.fresh_name();
        let keys = settled.keys.iter().cloned().map(Expr::Column).collect();
        let numbered = LogicalPlan::Window(Window::try_new(
            vec![numbers(keys, order)?.alias(&number)],
            Arc::new(settled.plan),
        )?);
        let number = Expr::Column(Column::new_unqualified(number));
        let skip = u64::try_from(skip).unwrap_or(u64::MAX);
        let mut condition = number.clone().gt(lit(skip));
        if let Some(fetch) = fetch {
            let last = skip.saturating_add(u64::try_from(fetch).unwrap_or(u64::MAX));
            condition = condition.and(number.lt_eq(lit(last)));
        }
        let kept = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(numbered))?);
        Ok(Lifted {
            plan: only(kept, &schema, &settled.keys)?,
            conditions: settled.conditions,
        })
    }
}

/// The numbers of rows in partitions.
fn numbers(keys: Vec<Expr>, order: Vec<SortExpr>) -> Result<Expr> {
    let call = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new()));
    call.partition_by(keys).order_by(order).build()
}
