//! Comparisons of floats on the CPU: NaN equals NaN, regardless of its bits, and is above all other values.
//!
//! DataFusion compares floats by IEEE 754 totalOrder: a NaN with its sign set, the result of `0.0 / 0.0` on
//! x86, is below all values and differs from one without, and IN distinguishes zeros of both signs. The rule
//! compares operands with one NaN and one zero. It runs after placement, because kernels compare this way
//! already, and before predicates are pushed into scans: statistics of files do not count NaN, so a scan must
//! not skip rows by a comparison of floats.

use super::is_comparison;
use crate::checks::{Rewrite, all, rewritten};
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, in_list};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use galatea_expression::one_nan::of_one_nan;
use std::sync::Arc;

/// The rule that rewrites comparisons.
#[derive(Debug, Default)]
pub(super) struct CompareFloats;

impl PhysicalOptimizerRule for CompareFloats {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let comparisons = Comparisons {
            options: Arc::new(config.clone()),
        };
        let compared = plan.transform_up(|node| {
            Ok(match rewritten(&node, &comparisons)? {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(node),
            })
        })?;
        Ok(compared.data)
    }

    fn name(&self) -> &'static str {
        "galatea_compare_floats"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rewrites the comparisons of floats in an expression, as the rule does in a plan.
///
/// # Errors
///
/// If a column is not in the schema.
pub fn compare_floats(
    expression: &PhysicalExprRef,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> Result<PhysicalExprRef> {
    let comparisons = Comparisons {
        options: Arc::clone(options),
    };
    let compared = comparisons.compared(expression, schema)?;
    Ok(compared.data)
}

struct Comparisons {
    options: Arc<ConfigOptions>,
}

impl Rewrite for Comparisons {
    fn expression(&self, expression: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        let compared = self.compared(expression, schema)?;
        Ok(compared.transformed.then_some(compared.data))
    }

    /// Comparisons within sort keys. Other rules compare keys that are floats themselves.
    fn order(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        self.expression(key, schema)
    }
}

impl Comparisons {
    fn compared(
        &self,
        expression: &PhysicalExprRef,
        schema: &Schema,
    ) -> Result<Transformed<PhysicalExprRef>> {
        Arc::clone(expression).transform_up(|part| {
            let changed = if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
                self.binary(binary, schema)?
            } else if let Some(list) = part.downcast_ref::<InListExpr>() {
                self.in_list(list, schema)?
            } else {
                None
            };
            Ok(match changed {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(part),
            })
        })
    }

    fn binary(&self, binary: &BinaryExpr, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        if !is_comparison(*binary.op()) {
            return Ok(None);
        }
        let operands = [Arc::clone(binary.left()), Arc::clone(binary.right())];
        let Some(operands) = all(&operands, &|operand| of_one_nan(operand, schema, &self.options))? else {
            return Ok(None);
        };
        let same = Arc::clone(binary.left()).eq(&operands[0]) && Arc::clone(binary.right()).eq(&operands[1]);
        let [left, right] = [Arc::clone(&operands[0]), Arc::clone(&operands[1])];
        Ok((!same).then(|| Arc::new(BinaryExpr::new(left, *binary.op(), right)) as PhysicalExprRef))
    }

    fn in_list(&self, list: &InListExpr, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        let Some(needle) = of_one_nan(list.expr(), schema, &self.options)? else {
            return Ok(None);
        };
        let items = all(list.list(), &|item| of_one_nan(item, schema, &self.options))?;
        let items = items.unwrap_or_else(|| list.list().to_vec());
        in_list(needle, items, &list.negated(), schema).map(Some)
    }
}
