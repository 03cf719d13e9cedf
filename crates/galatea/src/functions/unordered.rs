//! Functions of numbers without a known order.
//!
//! DataFusion derives the order of `abs(x)` from the bounds of `x`, which it does not know for a product, a
//! quotient or a remainder. It then fails with an error for `ORDER BY abs(a % 7)` and for windows.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::registry::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// The functions with an order that depends on bounds.
const NAMES: [&str; 10] = [
    "abs", "acos", "acosh", "asin", "atanh", "ln", "log", "log10", "log2", "sqrt",
];

/// Replaces the functions of a session, unless a program has replaced them before.
pub(super) fn replace(state: &mut SessionState) {
    for name in NAMES {
        let known = state.scalar_functions().get(name).map(Arc::clone);
        let Some(known) = known.filter(|known| !known.inner().is::<Unordered>()) else {
            continue;
        };
        if let Err(error) = state.register_udf(Arc::new(Unordered(known).into())) {
            tracing::warn!(function = name, %error, "the function keeps its order");
        }
    }
}

/// The same function without an order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unordered(Arc<ScalarUDF>);

impl ScalarUDFImpl for Unordered {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.0.inner().is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, context)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.0.evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.0.propagate_constraints(interval, inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
