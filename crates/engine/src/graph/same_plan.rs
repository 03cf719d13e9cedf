//! Whether two plans of CPU operators, or two runs of one, return the same rows.

use crate::sample::SampleExec;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// Whether two plans consist of equal nodes over the same data: equal in their display, schema and
/// expressions. Scans are compared by the version of their table or files; scans of other sources differ,
/// since their display does not contain their rows, and so do samples, because each draws its own. Equal
/// volatile expressions count as equal. `exact` hashes a plan with the version of its data.
pub(super) fn is_same(
    a: &Arc<dyn ExecutionPlan>,
    b: &Arc<dyn ExecutionPlan>,
    exact: &dyn Fn(&Arc<dyn ExecutionPlan>) -> u64,
) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    let (inputs, others) = (a.children(), b.children());
    let alike = a.name() == b.name()
        && inputs.len() == others.len()
        && a.schema() == b.schema()
        && line(a) == line(b)
        && !a.is::<SampleExec>()
        && matches!((expressions(a), expressions(b)), (Some(a), Some(b)) if a == b);
    let same_leaf = || is_versioned(a) && exact(a) == exact(b);
    let mut inputs = inputs.into_iter().zip(others);
    alike && (inputs.len() > 0 || same_leaf()) && inputs.all(|(a, b)| is_same(a, b, exact))
}

/// Whether the plan returns the same rows in every run: it contains nothing random and no limit.
pub(crate) fn gives_same_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut same = plan.fetch().is_none();
    let looked = plan.apply_expressions(&mut |expression| {
        same &= !is_volatile(expression);
        Ok(TreeNodeRecursion::Continue)
    });
    same && looked.is_ok() && plan.children().into_iter().all(gives_same_rows)
}

fn line(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).one_line().to_string()
}

/// The expressions of a node, in its order.
fn expressions(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let mut all = Vec::new();
    let visited = plan.apply_expressions(&mut |expression| {
        all.push(Arc::clone(expression));
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok().then_some(all)
}

/// Whether a scan's key contains the version of its data.
fn is_versioned(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<StoreScanExec>()
        || plan
            .downcast_ref::<DataSourceExec>()
            .is_some_and(|scan| scan.data_source().downcast_ref::<FileScanConfig>().is_some())
}
