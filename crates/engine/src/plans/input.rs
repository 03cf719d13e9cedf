//! Plans of CPU operators that feed a pipeline.
//!
//! An operator keeps the state of one execution: a `DataSourceExec` hands out its files once, a join its build
//! side, a repartition its channels. A plan feeds more than one execution where subtrees share it (the grouping
//! sets of an aggregate, several DISTINCT), where a pipeline reads its input again (partitions of a join), and
//! where a subtree is placed again or falls back to the CPU after a part has run. So the plan itself never
//! runs: [`InputPlan::instance`] is the only way to an executable plan, and every instance is a copy.

use super::renewed_host;
use crate::execution::GpuExec;
use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

/// A plan that feeds a pipeline. It is never executed; executions run instances of it.
#[derive(Debug, Clone)]
pub struct InputPlan {
    plan: Arc<dyn ExecutionPlan>,
    /// The first instance. Clones of this value share it.
    first: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
}

impl InputPlan {
    /// The input that `plan` computes.
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan,
            first: Arc::default(),
        }
    }

    /// The plan, to be analysed and rewritten.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// A copy for one execution.
    ///
    /// # Errors
    /// DataFusion's, for an operator that cannot be copied.
    pub(crate) fn instance(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let instance = renewed_host(&self.plan)?;
        // Of several instances EXPLAIN ANALYZE shows the counters of the first.
        let _ = self.first.set(Arc::clone(&instance));
        Ok(instance)
    }

    /// The instance that ran first, with its counters; before an execution the plan.
    pub(crate) fn shown(&self) -> &Arc<dyn ExecutionPlan> {
        self.first.get().unwrap_or(&self.plan)
    }
}

impl From<&Arc<dyn ExecutionPlan>> for InputPlan {
    fn from(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::new(Arc::clone(plan))
    }
}

/// The plan with a copy of each operator instance that it has at a second place, so that one execution of the
/// plan executes no instance twice. Inputs of GPU subtrees are copied when they run.
pub(crate) fn unshared(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    unshared_below(plan, &mut HashSet::new())
}

fn unshared_below(
    plan: Arc<dyn ExecutionPlan>,
    seen: &mut HashSet<*const ()>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if !seen.insert(Arc::as_ptr(&plan).cast()) {
        return renewed_host(&plan);
    }
    if plan.is::<GpuExec>() {
        return Ok(plan);
    }
    let children: Vec<_> = plan.children().into_iter().cloned().collect();
    let own = (children.iter())
        .map(|child| unshared_below(Arc::clone(child), seen))
        .collect::<Result<Vec<_>>>()?;
    if own
        .iter()
        .zip(&children)
        .all(|(own, child)| Arc::ptr_eq(own, child))
    {
        return Ok(plan);
    }
    plan.replace_children(own, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::physical_plan::union::UnionExec;

    fn scan() -> Arc<dyn ExecutionPlan> {
        MemorySourceConfig::try_new_exec(&[vec![]], Arc::new(Schema::empty()), None).expect("a scan")
    }

    #[test]
    fn an_instance_at_two_places_is_copied_once() {
        let leaf = scan();
        let shared = UnionExec::try_new(vec![Arc::clone(&leaf), leaf]).expect("a union");
        let own = unshared(shared).expect("a copy");
        let [first, second] = own.children()[..] else {
            panic!("a union of two");
        };
        assert!(!Arc::ptr_eq(first, second));
        let again = unshared(Arc::clone(&own)).expect("a copy");
        assert!(Arc::ptr_eq(&own, &again), "a plan without shared instances stays");
    }

    #[test]
    fn every_instance_of_an_input_is_another_one() {
        let leaf = scan();
        let input = InputPlan::new(Arc::clone(&leaf));
        assert!(Arc::ptr_eq(input.shown(), &leaf));
        let first = input.instance().expect("a copy");
        let second = input.instance().expect("a copy");
        assert!(!Arc::ptr_eq(&first, &leaf) && !Arc::ptr_eq(&first, &second));
        assert!(
            Arc::ptr_eq(input.shown(), &first),
            "EXPLAIN ANALYZE shows the first"
        );
    }
}
