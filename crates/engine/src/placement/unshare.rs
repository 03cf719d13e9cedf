//! Plans in which every operator instance occurs once.

use crate::graph::renewed_host;
use crate::nodes::GpuExec;
use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use std::collections::HashSet;
use std::sync::Arc;

/// The plan with a copy of each operator instance at its second and later positions, so that one execution of
/// the plan executes no instance twice. Inputs of GPU subtrees are copied when they run.
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
    fn repeated_plan_instance_is_copied_at_its_second_position() {
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
}
