//! The properties of a session that its plans and the meaning of SQL strings depend on: settings, functions,
//! planners, rules.

use datafusion::catalog::TableFunction;
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::planner::{ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use std::collections::HashMap;
use std::sync::Arc;

/// Settings, functions, planners of expressions and relations, and rules of a session at one time.
///
/// Settings and functions are compared by value, planners and rules by their addresses. The objects are held
/// so that no other one gets the same address. (`SET` creates new objects for functions that depend on
/// settings.)
#[derive(Debug)]
pub(super) struct SessionFingerprint {
    /// Unique number of the fingerprint in the cache.
    pub(super) id: u64,
    options: Arc<ConfigOptions>,
    environment: Arc<RuntimeEnv>,
    scalar: HashMap<String, Arc<ScalarUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
    table: HashMap<String, Arc<TableFunction>>,
    expressions: Vec<Arc<dyn ExprPlanner>>,
    relations: Vec<Arc<dyn RelationPlanner>>,
    analyzer: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
    optimizer: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    physical: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl SessionFingerprint {
    pub(super) fn of(state: &SessionState, id: u64) -> Self {
        Self {
            id,
            options: Arc::clone(state.config_options()),
            environment: Arc::clone(state.runtime_env()),
            scalar: state.scalar_functions().clone(),
            higher_order: state.higher_order_functions().clone(),
            aggregate: state.aggregate_functions().clone(),
            window: state.window_functions().clone(),
            table: state.table_functions().clone(),
            expressions: state.expr_planners().to_vec(),
            relations: state.relation_planners().to_vec(),
            analyzer: state.analyzer().rules.clone(),
            optimizer: state.optimizers().to_vec(),
            physical: state.physical_optimizers().to_vec(),
        }
    }

    /// Whether the session still has these properties.
    pub(super) fn hold(&self, state: &SessionState) -> bool {
        let options = state.config_options();
        Arc::ptr_eq(&self.environment, state.runtime_env())
            && self.has_rules_of(state)
            && same_functions(&self.scalar, state.scalar_functions())
            && same_functions(&self.higher_order, state.higher_order_functions())
            && same_functions(&self.aggregate, state.aggregate_functions())
            && same_functions(&self.window, state.window_functions())
            && same_table_functions(&self.table, state.table_functions())
            // Settings are copied before they are changed, as long as these are held.
            && (Arc::ptr_eq(&self.options, options) || self.options.entries() == options.entries())
    }

    /// Whether the session still has these rules and planners.
    pub(super) fn has_rules_of(&self, state: &SessionState) -> bool {
        same_objects(&self.analyzer, &state.analyzer().rules)
            && same_objects(&self.optimizer, state.optimizers())
            && same_objects(&self.physical, state.physical_optimizers())
            && same_objects(&self.expressions, state.expr_planners())
            && same_objects(&self.relations, state.relation_planners())
    }
}

fn same_objects<O: ?Sized>(one: &[Arc<O>], other: &[Arc<O>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

fn same_functions<F: PartialEq>(one: &HashMap<String, Arc<F>>, other: &HashMap<String, Arc<F>>) -> bool {
    let same = |(name, function): (&String, &Arc<F>)| {
        let other = other.get(name);
        other.is_some_and(|other| Arc::ptr_eq(function, other) || function == other)
    };
    one.len() == other.len() && (are_copies(one, other) || one.iter().all(same))
}

/// Whether two maps hold the same objects at the same positions, as copies of one map do: comparing a hundred
/// names is several times faster than looking them up.
fn are_copies<V: ?Sized>(one: &HashMap<String, Arc<V>>, other: &HashMap<String, Arc<V>>) -> bool {
    let mut both = one.iter().zip(other);
    both.all(|((name, value), (other_name, other))| Arc::ptr_eq(value, other) && name == other_name)
}

fn same_table_functions(
    one: &HashMap<String, Arc<TableFunction>>,
    other: &HashMap<String, Arc<TableFunction>>,
) -> bool {
    let same = |(name, function)| other.get(name).is_some_and(|other| Arc::ptr_eq(function, other));
    one.len() == other.len() && one.iter().all(same)
}
