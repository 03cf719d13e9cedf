//! Operands of sorts, window functions and ordered aggregates that a projection below them computes.
//!
//! Physical sorts and window functions keep expressions where they cannot be checked and guarded: window
//! functions do not permit the replacement of their arguments and keys, and DataFusion compares the keys of
//! sorts in several operators. It does not recognise the order of all expressions again, either, and then
//! refuses to merge partitions sorted by `a <> 0 AND b` or `abs(a % 7)`. So a projection computes the keys
//! and arguments that are not columns.

use crate::window_filters::{named_as, window_function};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Sort, Window};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use galatea_expression::one_nan::is_one_nan;
use std::sync::Arc;

/// The rule that adds the projections. It runs after DataFusion's own rules.
#[derive(Debug, Default)]
pub struct ComputeOperands;

impl OptimizerRule for ComputeOperands {
    fn name(&self) -> &'static str {
        "galatea_compute_operands"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let rewritten = match &plan {
            LogicalPlan::Sort(sort) => sorted(sort)?,
            LogicalPlan::Window(window) => windowed(window)?,
            LogicalPlan::Aggregate(aggregate) => aggregated(aggregate)?,
            _ => None,
        };
        let Some(rewritten) = rewritten else {
            return Ok(Transformed::no(plan));
        };
        // Only the columns that the plan returns.
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let returned = Projection::try_new(columns.collect(), Arc::new(rewritten))?;
        Ok(Transformed::yes(LogicalPlan::Projection(returned)))
    }
}

/// Expressions that a projection computes, and the columns that hold them.
#[derive(Default)]
struct Computed {
    operands: Vec<Expr>,
}

impl Computed {
    /// The column that replaces an expression; equal expressions have one column.
    fn column(&mut self, operand: &Expr) -> Expr {
        let known = self.operands.iter().position(|known| known == operand);
        let number = known.unwrap_or_else(|| {
            self.operands.push(operand.clone());
            self.operands.len() - 1
        });
        Expr::Column(Column::from_name(name(number)))
    }

    /// The rows with the computed columns.
    fn over(self, input: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let operands = self.operands.into_iter().enumerate();
        let operands = operands.map(|(number, operand)| operand.alias(name(number)));
        let all = columns.chain(operands).collect();
        Projection::try_new(all, Arc::clone(input)).map(|rows| Arc::new(LogicalPlan::Projection(rows)))
    }
}

/// The name of the column of an operand.
fn name(number: usize) -> String {
    format!("__galatea_operand_{number}")
}

fn sorted(sort: &Sort) -> Result<Option<LogicalPlan>> {
    if !sort.expr.iter().any(|key| is_computed(&key.expr)) {
        return Ok(None);
    }
    let mut computed = Computed::default();
    let mut keys = sort.expr.clone();
    for key in keys.iter_mut().filter(|key| is_computed(&key.expr)) {
        key.expr = computed.column(&key.expr);
    }
    Ok(Some(LogicalPlan::Sort(Sort {
        expr: keys,
        input: computed.over(&sort.input)?,
        fetch: sort.fetch,
    })))
}

/// The aggregates with keys of their orders that are columns, under their names. The keys of an aggregate
/// with DISTINCT are its arguments.
fn aggregated(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let mut computed = Computed::default();
    let calls = aggregate.aggr_expr.iter().map(|call| {
        let mut changed = false;
        let name = call.schema_name().to_string();
        let mut ordered = call.clone().unalias();
        if let Expr::AggregateFunction(function) = &mut ordered
            && !function.params.distinct
        {
            for key in function
                .params
                .order_by
                .iter_mut()
                .filter(|key| is_computed(&key.expr))
            {
                key.expr = computed.column(&key.expr);
                changed = true;
            }
        }
        match changed {
            true => ordered.alias(name),
            false => call.clone(),
        }
    });
    let calls: Vec<Expr> = calls.collect();
    if computed.operands.is_empty() {
        return Ok(None);
    }
    let input = computed.over(&aggregate.input)?;
    let aggregate = Aggregate::try_new(input, aggregate.group_expr.clone(), calls)?;
    Ok(Some(LogicalPlan::Aggregate(aggregate)))
}

fn windowed(window: &Window) -> Result<Option<LogicalPlan>> {
    let mut computed = Computed::default();
    let calls = window.window_expr.iter();
    let calls: Vec<Expr> = calls.map(|call| over_columns(call, &mut computed)).collect();
    if computed.operands.is_empty() {
        return Ok(None);
    }
    let input = computed.over(&window.input)?;
    Window::try_new(calls, input).map(|window| Some(LogicalPlan::Window(window)))
}

/// A call over columns that replace computed operands, under its original name.
fn over_columns(call: &Expr, computed: &mut Computed) -> Expr {
    let Some(mut function) = window_function(call).cloned() else {
        return call.clone();
    };
    let mut changed = false;
    let params = &mut function.params;
    for argument in &mut params.args {
        // Some functions accept only constants, such as the offset of LAG.
        if !matches!(argument, Expr::Column(_)) && !argument.column_refs().is_empty() {
            *argument = computed.column(argument);
            changed = true;
        }
    }
    let orders = params.order_by.iter_mut().map(|key| &mut key.expr);
    let keys = params.partition_by.iter_mut().chain(orders);
    for key in keys.filter(|key| is_computed(key)) {
        *key = computed.column(key);
        changed = true;
    }
    match changed {
        true => named_as(call, function),
        false => call.clone(),
    }
}

/// Whether a key is computed from columns. Kernels and other rules recognise a column with one NaN.
fn is_computed(key: &Expr) -> bool {
    let of_column = |key: &Expr| match key {
        Expr::ScalarFunction(call) if is_one_nan(key) => matches!(call.args[..], [Expr::Column(_)]),
        key => matches!(key, Expr::Column(_)),
    };
    !of_column(key) && !key.column_refs().is_empty()
}
