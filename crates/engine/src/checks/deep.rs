//! Evaluation of expressions that need more stack than a program's threads have.
//!
//! DataFusion evaluates an expression by recursion, on threads with a stack that the program chose. A deep
//! expression is evaluated on a separate stack of sufficient size instead, which costs some microseconds per
//! batch.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};

use galatea_base::stack::for_levels;
use galatea_expression::levels;

/// Levels that every thread can evaluate.
const SHALLOW: u32 = 50;

/// An expression that is evaluated on a stack of sufficient size for its levels.
#[derive(Debug, Clone)]
pub(super) struct Deep {
    expression: PhysicalExprRef,
    levels: usize,
}

impl Deep {
    /// The expression, if it is deep and not evaluated on a separate stack already.
    pub(super) fn of(expression: &PhysicalExprRef) -> Option<Self> {
        let levels = levels(expression);
        (levels > SHALLOW && !expression.is::<Self>()).then(|| Self {
            expression: Arc::clone(expression),
            levels: levels as usize,
        })
    }
}

impl PartialEq for Deep {
    fn eq(&self, other: &Self) -> bool {
        for_levels(self.levels, || {
            self.expression.as_ref() == other.expression.as_ref()
        })
    }
}

impl Eq for Deep {}

impl Hash for Deep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for_levels(self.levels, || self.expression.hash(state));
    }
}

impl fmt::Display for Deep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for_levels(self.levels, || self.expression.fmt(f))
    }
}

impl PhysicalExpr for Deep {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        for_levels(self.levels, || self.expression.data_type(schema))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        for_levels(self.levels, || self.expression.nullable(schema))
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        for_levels(self.levels, || self.expression.return_field(schema))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        for_levels(self.levels, || self.expression.evaluate(batch))
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.expression]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        let expression = children.swap_remove(0);
        Ok(Self::of(&expression).map_or(expression, |deep| Arc::new(deep)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for_levels(self.levels, || self.expression.fmt_sql(f))
    }
}
