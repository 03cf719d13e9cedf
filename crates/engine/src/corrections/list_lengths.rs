//! The length of a list is the number of its elements.
//!
//! DataFusion casts the argument of `length` to a string, so that the length of `[1, 2]` was 6.

use crate::checks::{input_schema, names_kept};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions::unicode::character_length::CharacterLengthFunc;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

/// The rule that calls `array_length` for lists. It precedes type coercion.
#[derive(Debug, Default)]
pub(super) struct ListLengths;

impl AnalyzerRule for ListLengths {
    fn name(&self) -> &'static str {
        "galatea_list_lengths"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|node| {
            let schema = input_schema(&node);
            names_kept(node, |expr| expr.transform_up(|part| Ok(elements(part, &schema))))
        });
        Ok(changed?.data)
    }
}

/// The number of elements, if the expression is the length of a list.
fn elements(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let list = match &expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<CharacterLengthFunc>() => call.args.first(),
        _ => None,
    };
    let list = list.filter(|list| {
        matches!(
            list.get_type(schema),
            Ok(DataType::List(_)
                | DataType::LargeList(_)
                | DataType::FixedSizeList(..)
                | DataType::ListView(_)
                | DataType::LargeListView(_))
        )
    });
    match list {
        // The result of `length` has 32 bits, that of `array_length` 64.
        Some(list) => Transformed::yes(cast(array_length_udf().call(vec![list.clone()]), DataType::Int32)),
        None => Transformed::no(expr),
    }
}
