//! The rule that lets hash joins spill: in finished plans of sessions with a limit of the memory pool.
//!
//! Rules can only access settings, not the session's memory pool, so the query planner adds [`BoundedMemory`]
//! to the settings with which it plans.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use super::exec::SpillingJoinExec;
use super::lent::is_bounded;
use super::unspilled::UnspilledJoinExec;

/// Puts a [`SpillingJoinExec`] above hash joins and an [`UnspilledJoinExec`] above nested loop joins, if the
/// memory pool of the session has a limit. Runs after all rules that rearrange the plan.
#[derive(Debug, Default)]
pub struct SpillJoins;

impl PhysicalOptimizerRule for SpillJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match options.extensions.get::<BoundedMemory>() {
            Some(_) => spilling(plan, true),
            None => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "galatea_spill_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with hash joins that may spill if the pool has a limit.
pub(crate) fn with_spilling_joins(
    plan: Arc<dyn ExecutionPlan>,
    pool: &dyn MemoryPool,
) -> Result<Arc<dyn ExecutionPlan>> {
    match is_bounded(pool) {
        true => spilling(plan, true),
        false => Ok(plan),
    }
}

/// `ordered`: whether the operators above rely on the order of the plan's rows. A join that has spilled then
/// sorts its rows.
fn spilling(plan: Arc<dyn ExecutionPlan>, ordered: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<SpillingJoinExec>() || plan.is::<UnspilledJoinExec>() {
        return Ok(plan);
    }
    let required = plan.required_input_ordering();
    let maintained = plan.maintains_input_order();
    let children = plan.children().into_iter().enumerate();
    let children = children.map(|(at, child)| {
        let ordered = required.get(at).is_some_and(Option::is_some)
            || plan.is::<PartialSortExec>()
            || ordered && maintained.get(at).is_some_and(|maintained| *maintained);
        spilling(Arc::clone(child), ordered)
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    let changed = children
        .iter()
        .zip(plan.children())
        .any(|(new, old)| !Arc::ptr_eq(new, old));
    let plan = match changed {
        true => {
            let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(children, changed)?
        }
        false => plan,
    };
    if let Some(node) = UnspilledJoinExec::above(&plan)? {
        return Ok(Arc::new(node));
    }
    Ok(match SpillingJoinExec::above(&plan, ordered) {
        Some(node) => Arc::new(node),
        None => plan,
    })
}

/// Marks the settings of a planning: the memory pool of the session has a limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct BoundedMemory;

impl ConfigExtension for BoundedMemory {
    const PREFIX: &'static str = "galatea_bounded_memory";
}

impl ExtensionOptions for BoundedMemory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        config_err!("unknown setting: {}.{key}", Self::PREFIX)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// The session with the mark for [`SpillJoins`], if its memory pool has a limit.
pub(crate) fn with_bounded_memory(state: &SessionState) -> Option<SessionState> {
    if !is_bounded(state.runtime_env().memory_pool.as_ref()) {
        return None;
    }
    let mut noted = state.clone();
    let extensions = &mut noted.config_mut().options_mut().extensions;
    extensions.insert(BoundedMemory);
    Some(noted)
}
