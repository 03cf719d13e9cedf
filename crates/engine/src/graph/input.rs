//! Plans of CPU operators that feed a pipeline.
//!
//! An operator keeps the state of one execution: a `DataSourceExec` distributes its files once, a join keeps
//! its build side, a repartition its channels. A plan feeds more than one execution if subtrees share it (the
//! grouping sets of an aggregate, several DISTINCT), if a pipeline reads its input again (partitions of a
//! join), and if a subtree is placed again or falls back to the CPU after a part has run. So the plan itself
//! never runs: [`InputPlan::instance`] is the only way to an executable plan, and every instance is a copy.

use super::renewed_host;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
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
        // EXPLAIN ANALYZE shows the counters of the first instance.
        let _ = self.first.set(Arc::clone(&instance));
        Ok(instance)
    }

    /// The instance that ran first, with its counters; the plan, before any execution.
    pub(crate) fn shown(&self) -> &Arc<dyn ExecutionPlan> {
        self.first.get().unwrap_or(&self.plan)
    }
}

impl From<&Arc<dyn ExecutionPlan>> for InputPlan {
    fn from(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::new(Arc::clone(plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::datasource::memory::MemorySourceConfig;

    fn scan() -> Arc<dyn ExecutionPlan> {
        MemorySourceConfig::try_new_exec(&[vec![]], Arc::new(Schema::empty()), None).expect("a scan")
    }

    #[test]
    fn input_instances_are_distinct_copies() {
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
