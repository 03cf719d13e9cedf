//! The physical rules, which select the expressions of a plan to check and guard.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use super::deep::Deep;
use super::guard::{Guarded, may_raise};
use super::node::{Rewrite, rewritten};
use super::overflow::{casts_of_strings, checked, counted};
use super::shown::CommonExpressions;
use crate::config::{GalateaConfig, OverflowMode};
use galatea_expression::name_errors;

/// Marks arithmetic as checked, and extends casts of strings to common notations, before placement.
#[derive(Debug, Default)]
pub struct CheckArithmetic;

/// Guards the operands of AND, OR and FILTER, and counts the digits of decimals, in operators of the CPU.
/// Conditions of filters are left unguarded, since other rules push them down.
#[derive(Debug, Default)]
pub struct GuardOperands;

/// Guards each condition of a filter by those before it, after the rules that split conditions and before the
/// one that plans sorts.
#[derive(Debug, Default)]
pub struct GuardConjuncts;

/// Adds the failing operation to the error of each operation that may fail. Runs after the rules that analyse
/// expressions and before the one that plans sorts, which compares them, and last in the sorts that it has
/// planned.
#[derive(Debug, Default)]
pub struct NameErrors;

/// Evaluates deep expressions on a stack that is large enough. Runs before sorts are planned, and after all
/// rules that may create other expressions.
#[derive(Debug, Default)]
pub struct GrowStack;

impl PhysicalOptimizerRule for CheckArithmetic {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let checks = Checks {
            overflow: GalateaConfig::of(options).overflow == OverflowMode::Error,
        };
        rewritten_plan(plan, &checks)
    }

    fn name(&self) -> &str {
        "galatea_check_arithmetic"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for GuardOperands {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        rewritten_plan(plan, &Operands)
    }

    fn name(&self) -> &str {
        "galatea_guard_operands"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for GuardConjuncts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        rewritten_plan(plan, &Conjuncts)
    }

    fn name(&self) -> &str {
        "galatea_guard_conjuncts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for NameErrors {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let named = Named(CommonExpressions::of(&plan));
        result_order(&rewritten_plan(plan, &named)?, &NamedKeys(named))
    }

    fn name(&self) -> &str {
        "galatea_name_errors"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for GrowStack {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        rewritten_plan(plan, &DeepExpressions)
    }

    fn name(&self) -> &str {
        "galatea_grow_stack"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn rewritten_plan(plan: Arc<dyn ExecutionPlan>, rewrite: &dyn Rewrite) -> Result<Arc<dyn ExecutionPlan>> {
    let rewritten = plan.transform_up(|node| {
        Ok(match rewritten(&node, rewrite)? {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(node),
        })
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// Casts of strings parse common notations, and overflow is an error.
struct Checks {
    /// Whether overflow is an error.
    overflow: bool,
}

impl Rewrite for Checks {
    fn expression(&self, expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        let read = casts_of_strings(expression, schema)?;
        let checked = match self.overflow {
            true => checked(read.as_ref().unwrap_or(expression), schema)?,
            false => None,
        };
        Ok(checked.or(read))
    }
}

/// Guards operands of AND, OR and FILTER, and limits decimals to the digits of their types.
struct Operands;

impl Rewrite for Operands {
    fn expression(&self, expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        guarded(expression, schema)
    }

    fn argument(
        &self,
        expression: &PhysicalExprRef,
        filter: Option<&PhysicalExprRef>,
        schema: &Schema,
    ) -> Result<Option<PhysicalExprRef>> {
        let changed = guarded(expression, schema)?;
        let argument = changed.as_ref().unwrap_or(expression);
        let guarded = filter.and_then(|filter| Guarded::argument(filter, argument, schema));
        Ok(match guarded {
            Some(guarded) => Some(Arc::new(guarded)),
            None => changed,
        })
    }

    /// Projections compute the keys that need guards.
    fn order(&self, _key: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }

    fn predicate(&self, predicate: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        let mut changed = false;
        let mut conditions = Vec::new();
        for condition in split_conjunction(predicate) {
            let guarded = guarded(condition, schema)?;
            changed |= guarded.is_some();
            conditions.push(guarded.unwrap_or_else(|| Arc::clone(condition)));
        }
        Ok(changed.then(|| conjunction(conditions)))
    }
}

/// Guards conditions of filters by those before them.
struct Conjuncts;

impl Rewrite for Conjuncts {
    fn expression(&self, _expression: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }

    /// Leading conditions that raise no error stay unchanged, since DataFusion infers constant and equal
    /// columns from them.
    fn predicate(&self, predicate: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        let conditions = split_conjunction(predicate);
        let raising = conditions
            .iter()
            .position(|condition| may_raise(condition, schema));
        let Some(raising) = raising.filter(|raising| *raising > 0) else {
            return guarded(predicate, schema);
        };
        let known = conditions[raising].downcast_ref::<Guarded>();
        if known.is_some_and(Guarded::is_condition) {
            return Ok(None);
        }
        let all = |conditions: &[&PhysicalExprRef]| conjunction(conditions.iter().copied().cloned());
        let (leading, rest) = conditions.split_at(raising);
        let (leading, rest) = (all(leading), all(rest));
        let rest = guarded(&rest, schema)?.unwrap_or(rest);
        let rest = Arc::new(Guarded::condition(&leading, &rest));
        Ok(Some(conjunction([leading, rest as PhysicalExprRef])))
    }
}

/// Adds the operation to errors.
struct Named(CommonExpressions);

impl Rewrite for Named {
    fn expression(&self, expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        name_errors(expression, schema, &|operation| self.0.shown(operation))
    }

    /// DataFusion compares the partitions of windows with each other, and with the order of their input.
    fn partition(&self, _key: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }

    /// Windows compare the order of their input with keys that may be unnamed.
    fn order(&self, _key: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }
}

/// Adds the operation to errors of sort keys.
struct NamedKeys(Named);

impl Rewrite for NamedKeys {
    fn expression(&self, _expression: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }

    fn order(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.0.expression(key, schema)
    }
}

/// The plan with rewritten keys in the sorts that order its result, which no other operator compares.
fn result_order(plan: &Arc<dyn ExecutionPlan>, rewrite: &dyn Rewrite) -> Result<Arc<dyn ExecutionPlan>> {
    // Compared by name: the root's type belongs to a higher layer.
    let passes = plan.name() == "PlacementExec"
        || plan.is::<ProjectionExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>();
    let ([input], true) = (&plan.children()[..], passes) else {
        return Ok(Arc::clone(plan));
    };
    let below = result_order(input, rewrite)?;
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let plan = match Arc::ptr_eq(&below, input) {
        true => Arc::clone(plan),
        false => Arc::clone(plan).replace_children(vec![below], changed)?,
    };
    Ok(rewritten(&plan, rewrite)?.unwrap_or(plan))
}

/// Evaluates deep expressions on a separate stack.
struct DeepExpressions;

impl Rewrite for DeepExpressions {
    fn expression(&self, expression: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(Deep::of(expression).map(|deep| Arc::new(deep) as PhysicalExprRef))
    }
}

/// The expression with guarded operands and counted digits; `None` if nothing changes.
pub(crate) fn guarded(expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
    let guarded = Arc::clone(expression).transform_up(|part| {
        let logical = part
            .downcast_ref::<BinaryExpr>()
            .and_then(|binary| Guarded::logical(binary, schema));
        if let Some(guarded) = logical {
            return Ok(Transformed::yes(Arc::new(guarded) as PhysicalExprRef));
        }
        Ok(match counted(&part, schema) {
            Some(counted) => Transformed::yes(counted),
            None => Transformed::no(part),
        })
    })?;
    Ok(guarded.transformed.then_some(guarded.data))
}
