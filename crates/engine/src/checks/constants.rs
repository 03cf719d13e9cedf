//! Constants that overflow, and casts of literal strings.
//!
//! DataFusion's optimizer folds constants with arithmetic that wraps: `9223372036854775807 + 1` is a negative
//! literal in the plan. The rule runs before each simplification and folds arithmetic on constants itself,
//! with checks. An expression that overflows becomes a call of a function that raises the error for the first
//! row that needs its value, so that a branch which no row takes raises none. Needed while DataFusion folds
//! with arithmetic that wraps (`datafusion_folds_overflow` fails once it does not). Casts of literal strings
//! are folded as [`StringCast`](galatea_expression::StringCast) parses them.

use super::names::names_kept;
use std::sync::{Arc, LazyLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;

use super::overflow::{casts_of_strings, checked};
use super::rules::guarded;
use crate::config::{GalateaConfig, OverflowMode};
use galatea_expression::{Fault, RowError};

/// The rule that folds constants with checks.
#[derive(Debug, Default)]
pub struct CheckConstants;

impl OptimizerRule for CheckConstants {
    fn name(&self) -> &str {
        "galatea_check_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let checks = GalateaConfig::of(&config.options()).overflow == OverflowMode::Error;
        names_kept(plan, |expression| {
            if let Expr::GroupingSet(_) = expression {
                return Ok(Transformed::no(expression));
            }
            let mut folding = Folding {
                constant: Vec::new(),
                options: config.options(),
                checks,
            };
            expression.rewrite(&mut folding)
        })
    }
}

/// Folds arithmetic on constants.
struct Folding {
    /// For each node above: whether all its parts so far are constants.
    constant: Vec<bool>,
    options: Arc<ConfigOptions>,
    /// Whether overflow is an error.
    checks: bool,
}

impl TreeNodeRewriter for Folding {
    type Node = Expr;

    fn f_down(&mut self, node: Expr) -> Result<Transformed<Expr>> {
        self.constant.push(true);
        if !is_constant(&node) {
            // The nodes above are not constant, either, up to the first that is marked already.
            for constant in self.constant.iter_mut().rev() {
                if !std::mem::replace(constant, false) {
                    break;
                }
            }
        }
        // Plans of subqueries have expressions of their own, which the rule visits with the plan.
        let jumps = matches!(node, Expr::ScalarSubquery(_) | Expr::Exists(_));
        let next = if jumps {
            TreeNodeRecursion::Jump
        } else {
            TreeNodeRecursion::Continue
        };
        Ok(Transformed::new(node, false, next))
    }

    fn f_up(&mut self, node: Expr) -> Result<Transformed<Expr>> {
        let constant = self.constant.pop().unwrap_or(false);
        let is_arithmetic = match &node {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
            }
            Expr::Negative(_) => true,
            _ => false,
        };
        if constant && reads_string(&node) {
            // TRY_CAST would be folded to NULL.
            let read = evaluated(&node).map(|value| Transformed::yes(Expr::Literal(value, None)));
            return Ok(read.unwrap_or_else(|_| Transformed::no(node)));
        }
        if !self.checks || !constant || !is_arithmetic {
            return Ok(Transformed::no(node));
        }
        let Ok(data_type) = node.get_type(&DFSchema::empty()) else {
            return Ok(Transformed::no(node));
        };
        if !data_type.is_integer() && !data_type.is_decimal() {
            return Ok(Transformed::no(node));
        }
        // Some functions are evaluated only once they are simplified, such as coalesce to CASE.
        let evaluated = evaluated(&node).or_else(|error| match is_overflow(&error) {
            true => Err(error),
            false => evaluated(
                &node
                    .clone()
                    .map_children(|operand| self.simplified(operand))?
                    .data,
            ),
        });
        Ok(match evaluated {
            Ok(value) => Transformed::yes(Expr::Literal(value, None)),
            Err(error) if is_overflow(&error) => Transformed::yes(raising(&node, &data_type)?),
            // Another error, which DataFusion finds in the same way.
            Err(_) => Transformed::no(node),
        })
    }
}

impl Folding {
    fn simplified(&self, operand: Expr) -> Result<Transformed<Expr>> {
        let context = SimplifyContext::builder().with_config_options(Arc::clone(&self.options));
        let simplified = ExprSimplifier::new(context.build()).simplify(operand)?;
        Ok(Transformed::yes(simplified))
    }
}

/// Whether the node is a cast of a literal string.
fn reads_string(node: &Expr) -> bool {
    let (Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. })) = node else {
        return false;
    };
    matches!(&**expr, Expr::Literal(value, _) if value.data_type().is_string() && !value.is_null())
}

/// Whether the node is constant if its parts are.
pub(crate) fn is_constant(node: &Expr) -> bool {
    match node {
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::BinaryExpr(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => true,
        _ => false,
    }
}

fn evaluated(node: &Expr) -> Result<ScalarValue> {
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let schema = Schema::empty();
    let expression = create_physical_expr(node, &DFSchema::empty(), &props, &context)?;
    let expression = casts_of_strings(&expression, &schema)?.unwrap_or(expression);
    let expression = checked(&expression, &schema)?.unwrap_or(expression);
    let expression = guarded(&expression, &schema)?.unwrap_or(expression);
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(schema), vec![], &options)?;
    match expression.evaluate(&batch)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}

fn is_overflow(error: &DataFusionError) -> bool {
    if let Some(error) = RowError::of(error) {
        return matches!(error.fault, Fault::Overflow { .. });
    }
    let DataFusionError::ArrowError(error, _) = error.find_root() else {
        return false;
    };
    matches!(**error, ArrowError::ArithmeticOverflow(_))
}

/// A call that raises the error of the expression.
fn raising(node: &Expr, data_type: &DataType) -> Result<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Raise::new())));
    let text = lit(node.human_display().to_string());
    let null = Expr::Literal(ScalarValue::try_new_null(data_type)?, None);
    Ok(FUNCTION.call(vec![text, null]))
}

/// `(expression as SQL, NULL of its type)`: raises the overflow of the expression when a row needs the value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Raise {
    signature: Signature,
}

impl Raise {
    fn new() -> Self {
        // Volatile, so that it is not folded.
        Self {
            signature: Signature::any(2, Volatility::Volatile),
        }
    }
}

impl ScalarUDFImpl for Raise {
    fn name(&self) -> &str {
        "galatea_overflow"
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [Expr::Literal(ScalarValue::Utf8(Some(text)), _), _] => Ok(text.clone()),
            _ => internal_err!("galatea_overflow has a string and a NULL"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(data_type)?));
        }
        match args.args.first() {
            Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(text)))) => {
                Err(RowError::overflow(text, data_type).into())
            }
            _ => internal_err!("galatea_overflow has a string and a NULL"),
        }
    }
}
