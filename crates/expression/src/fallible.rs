//! Names the failing expression in errors of DataFusion's operators on the CPU.
//!
//! Errors of Arrow's kernels do not contain the expression. [`name_errors`] wraps each operation that may
//! fail in a [`Fallible`]: division and remainder, checked arithmetic, and casts. It passes batches on to the
//! operation, so it costs one call per batch, and converts an error of Arrow's kernel to a [`RowError`]. All
//! other methods delegate to the operation; its operands are the children. Lowering removes it
//! ([`argument`]), since kernels report the failing expression themselves.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};

use super::error::{Fault, RowError};
use super::interval::widens;
use super::origin::Origin;
use super::string_cast::StringCast;

/// An operation that adds its expression to errors.
#[derive(Debug, Clone)]
pub struct Fallible {
    operation: PhysicalExprRef,
    /// The operation as shown in errors, if the planner generated the names of its columns.
    shown: Option<PhysicalExprRef>,
}

impl Fallible {
    /// Converts an error that the operation returned to a [`RowError`].
    fn named(&self, error: DataFusionError, schema: &Schema) -> DataFusionError {
        // An operand's error already contains the operand.
        if RowError::of(&error).is_some() {
            return error;
        }
        let casts = self.operation.is::<CastExpr>() || self.operation.is::<StringCast>();
        let data_type = self.operation.data_type(schema).unwrap_or(DataType::Null);
        let binary = self.operation.downcast_ref::<BinaryExpr>();
        let adds = binary.is_some_and(|binary| {
            matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply)
        });
        match Fault::of_arrow(&error, &data_type, casts, adds) {
            Some(fault) => {
                let shown = self.shown.as_ref().unwrap_or(&self.operation);
                let expression = Origin::new(&bare(shown)).to_string();
                RowError { fault, expression }.into()
            }
            None => error,
        }
    }
}

/// Returns the form of an expression that errors show; `None` if it is the expression itself.
pub type Show<'a> = dyn Fn(&PhysicalExprRef) -> Option<PhysicalExprRef> + 'a;

/// The operation itself; `None` of other expressions.
pub(crate) fn argument(expression: &PhysicalExprRef) -> Option<&PhysicalExprRef> {
    Some(&expression.downcast_ref::<Fallible>()?.operation)
}

/// Wraps each operation of the expression that may fail in a [`Fallible`]; `None` if no operation may fail.
/// `show` returns the form of an operation that errors show, if it is not the operation itself.
///
/// # Errors
/// DataFusion's.
pub fn name_errors(
    expression: &PhysicalExprRef,
    schema: &Schema,
    show: &Show<'_>,
) -> Result<Option<PhysicalExprRef>> {
    let named = Arc::clone(expression).transform_up(|operation| {
        Ok(match may_fail(&operation, schema) {
            true => Transformed::yes(Arc::new(Fallible {
                shown: show(&operation),
                operation,
            }) as PhysicalExprRef),
            false => Transformed::no(operation),
        })
    })?;
    Ok(named.transformed.then_some(named.data))
}

/// The expression without its [`Fallible`] wrappers.
pub fn bare(expression: &PhysicalExprRef) -> PhysicalExprRef {
    let bare = Arc::clone(expression).transform_up(|part| {
        Ok(match argument(&part) {
            Some(operation) => Transformed::yes(Arc::clone(operation)),
            None => Transformed::no(part),
        })
    });
    bare.map_or_else(|_| Arc::clone(expression), |bare| bare.data)
}

/// Whether the operation at the root may return an error of Arrow's kernels.
fn may_fail(operation: &PhysicalExprRef, schema: &Schema) -> bool {
    let is_exact = || {
        let data_type = operation.data_type(schema);
        data_type.is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
    };
    if let Some(binary) = operation.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::Divide | Operator::Modulo | Operator::Plus | Operator::Minus | Operator::Multiply => {
                is_exact()
            }
            _ => false,
        };
    }
    if let Some(cast) = operation.downcast_ref::<CastExpr>() {
        return !cast.cast_options().safe && !never_fails(cast, schema);
    }
    operation
        .downcast_ref::<StringCast>()
        .is_some_and(|cast| !cast.is_safe())
}

/// Whether a cast succeeds for every value.
pub fn never_fails(cast: &CastExpr, schema: &Schema) -> bool {
    let to = cast.cast_type();
    let from = cast.expr().data_type(schema);
    from.is_ok_and(|from| from == *to || widens(&from, to) || from.is_integer() && to.is_floating())
}

impl PartialEq for Fallible {
    fn eq(&self, other: &Self) -> bool {
        self.operation.as_ref() == other.operation.as_ref()
    }
}

impl Eq for Fallible {}

impl Hash for Fallible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operation.hash(state);
    }
}

impl fmt::Display for Fallible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bare(&self.operation).fmt(f)
    }
}

impl PhysicalExpr for Fallible {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.operation.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.operation.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.operation.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.operation.evaluate(batch);
        value.map_err(|error| self.named(error, batch.schema_ref()))
    }

    fn evaluate_selection(&self, batch: &RecordBatch, selection: &BooleanArray) -> Result<ColumnarValue> {
        let value = self.operation.evaluate_selection(batch, selection);
        value.map_err(|error| self.named(error, batch.schema_ref()))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        self.operation.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        Ok(Arc::new(Self {
            operation: Arc::clone(&self.operation).with_new_children(children)?,
            shown: self.shown.clone(),
        }))
    }

    fn evaluate_bounds(&self, children: &[&Interval]) -> Result<Interval> {
        self.operation.evaluate_bounds(children)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        children: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.operation.propagate_constraints(interval, children)
    }

    fn get_properties(&self, children: &[ExprProperties]) -> Result<ExprProperties> {
        self.operation.get_properties(children)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        bare(&self.operation).fmt_sql(f)
    }
}
