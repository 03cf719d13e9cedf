//! The DataFusion expressions that device expressions were lowered from.

use datafusion::physical_expr::PhysicalExpr;
use std::fmt;
use std::sync::Arc;

use super::sql::{Sql, with_sql_constants};
use galatea_base::stack::growing;

/// The DataFusion expression that a device expression was lowered from. Errors show it. It is ignored by
/// equality: expressions that differ only in their origins are equal.
#[derive(Clone)]
pub struct Origin(Arc<dyn PhysicalExpr>);

impl Origin {
    /// The expression.
    pub fn new(expression: &Arc<dyn PhysicalExpr>) -> Self {
        Self(Arc::clone(expression))
    }

    /// The expression.
    #[must_use]
    pub fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        growing(|| {
            let expression = with_sql_constants(&self.0);
            write!(f, "{}", Sql(&expression))
        })
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self})")
    }
}
