//! LEAD with IGNORE NULLS.
//!
//! DataFusion evaluates `lead` while batches arrive, from the distances between the next values, and loses
//! count of NULLs at the end of a batch. Over whole partitions it is right, so our version is evaluated
//! there. `lag` becomes `lead` if the offset is negative or the window is read backwards.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::lead_lag::WindowShift;
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

/// Our version of a function with IGNORE NULLS, if it is `lag` or `lead`.
pub(super) fn shift(function: &Arc<WindowUDF>) -> Option<Arc<WindowUDF>> {
    let is_shift = function.inner().is::<WindowShift>();
    is_shift.then(|| {
        let inner = Arc::clone(function);
        Arc::new(WindowUDF::new_from_impl(Shift { inner }))
    })
}

/// `lag` or `lead`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    /// DataFusion's function.
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.inner().partition_evaluator(args)?;
        Ok(Box::new(ShiftEvaluator { inner }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.inner.field(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(function) => {
                let ours = shift(&function);
                ReversedUDWF::Reversed(ours.unwrap_or(function))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    // The distance to the next value is unknown.
    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// Evaluates whole partitions, unless only earlier rows are read.
#[derive(Debug)]
struct ShiftEvaluator {
    inner: Box<dyn PartitionEvaluator>,
}

impl PartitionEvaluator for ShiftEvaluator {
    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.inner.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.is_causal() && self.inner.supports_bounded_execution()
    }
}
