//! Filters stay above rows with several columns of one name.
//!
//! DataFusion pushes filters, and the dynamic filters of joins and limits, through physical operators by the
//! names of columns. If two columns have the same name, as in a self join, it uses the first. So operators
//! with such columns are hidden from these rules.

use datafusion::physical_plan::ExecutionPlan;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether several columns of the operator have one name.
pub(super) fn repeats_names(node: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = node.schema();
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}
