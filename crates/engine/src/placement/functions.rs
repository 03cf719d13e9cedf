//! The functions of an operator that the device does not support, beside the first, which refused it.

use super::aggregate::call::aggregate_call;
use super::aggregate::classes::classes;
use super::aggregate::steps::grouped;
use super::chain::Finder;
use super::find::subtree;
use super::nodes::first_step;
use super::plan_node::PlanNode;
use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use galatea_base::reason::Reason;
use galatea_base::stack::growing;
use galatea_expression::lower;
use std::sync::Arc;

/// Number of functions of an operator that EXPLAIN shows.
const SHOWN: usize = 3;

/// Further reasons like `first`, why the functions of `plan` have no device version.
pub(super) fn others(plan: &Arc<dyn ExecutionPlan>, first: &Reason, finder: &Finder<'_>) -> Vec<Reason> {
    if !matches!(first, Reason::Function { .. }) {
        return Vec::new();
    }
    let mut found = Found(vec![first.clone()]);
    match PlanNode::of(plan) {
        PlanNode::Aggregate(aggregate) => {
            if let Ok(step) = first_step(aggregate) {
                found.add_expressions(step, &step.input_schema());
                found.add_calls(step, finder);
            }
        }
        _ => {
            if let [input] = plan.children()[..] {
                found.add_expressions(plan.as_ref(), &input.schema());
            }
        }
    }
    found.0.split_off(1)
}

/// Reasons, each once.
struct Found(Vec<Reason>);

impl Found {
    fn is_full(&self) -> bool {
        self.0.len() >= SHOWN
    }

    fn add(&mut self, reason: Reason) {
        if !self.is_full() && !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    fn add_expressions(&mut self, plan: &dyn ExecutionPlan, input: &Schema) {
        // The closure returns no error.
        let _ = plan.apply_expressions(&mut |expression| {
            self.add_parts(expression, input);
            Ok(match self.is_full() {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        });
    }

    /// Adds the reasons of the innermost parts without a device version. Returns whether one is a function.
    fn add_parts(&mut self, expression: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
        if self.is_full() {
            return true;
        }
        let Err(reason @ Reason::Function { .. }) = lower(expression, input) else {
            return false;
        };
        let parts = expression.children();
        let inner = parts
            .into_iter()
            .filter(|part| growing(|| self.add_parts(part, input)));
        if inner.count() == 0 {
            self.add(reason);
        }
        true
    }

    /// Adds the reasons of aggregate functions.
    fn add_calls(&mut self, step: &AggregateExec, finder: &Finder<'_>) {
        let input = step.input_schema();
        for (call, filter) in step.aggr_expr().iter().zip(step.filter_expr()) {
            if self.is_full() {
                return;
            }
            let lowered = aggregate_call(call, None, call.field(), &|argument| lower(argument, &input));
            if !matches!(lowered, Err(Reason::Function { .. })) {
                continue;
            }
            // Some functions are computed in several steps, so the aggregate of this call alone decides.
            let input = Arc::clone(step.input());
            let Some(alone) = grouped(Vec::new(), vec![Arc::clone(call)], vec![filter.clone()], input) else {
                continue;
            };
            if classes(&alone).is_none()
                && let Some(Err(reason @ Reason::Function { .. })) = subtree(&alone, finder)
            {
                self.add(reason);
            }
        }
    }
}
