//! Constants that a subquery returns: available when the query runs, not when it is planned.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Returns a replacement for a DataFusion expression that reads values of subqueries.
pub type Rebind<'a> = dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> + 'a;

/// The value of an uncorrelated scalar subquery, which DataFusion runs before the plan that needs it.
#[derive(Debug, Clone)]
pub struct PendingScalar(Arc<dyn PhysicalExpr>);

impl PendingScalar {
    /// The pending value of this DataFusion expression.
    pub(super) fn new(expression: Arc<dyn PhysicalExpr>) -> Self {
        Self(expression)
    }

    /// The pending value of the replaced expression.
    pub(super) fn rebound(&self, replace: &Rebind<'_>) -> Result<Self> {
        replace(&self.0).map(Self)
    }

    /// The value.
    ///
    /// # Errors
    /// DataFusion's error if the subquery has not run.
    pub(super) fn value(&self) -> Result<ScalarValue> {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
        match self.0.evaluate(&batch)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
        }
    }
}

impl PartialEq for PendingScalar {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Eq for PendingScalar {}

impl Hash for PendingScalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
