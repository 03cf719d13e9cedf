//! What a session has that its plans, and what a text means, depend on: settings, functions, planners, rules.

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

/// Settings, functions, planners of expressions and relations, and rules of a session at a time.
///
/// Settings and functions are compared by their values, planners and rules by the objects that they are,
/// which are held so that no other one takes an address that is compared. (`SET` makes objects anew for
/// functions that know settings.)
#[derive(Debug)]
pub(super) struct Surroundings {
    /// A number that no other surroundings of the cache have.
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

impl Surroundings {
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

    /// Whether the session has them now.
    pub(super) fn hold(&self, state: &SessionState) -> bool {
        let options = state.config_options();
        Arc::ptr_eq(&self.environment, state.runtime_env())
            && same_objects(&self.analyzer, &state.analyzer().rules)
            && same_objects(&self.optimizer, state.optimizers())
            && same_objects(&self.physical, state.physical_optimizers())
            && same_objects(&self.expressions, state.expr_planners())
            && same_objects(&self.relations, state.relation_planners())
            && same_functions(&self.scalar, state.scalar_functions())
            && same_functions(&self.higher_order, state.higher_order_functions())
            && same_functions(&self.aggregate, state.aggregate_functions())
            && same_functions(&self.window, state.window_functions())
            && same_table_functions(&self.table, state.table_functions())
            // Settings are copied before they are changed, as long as these are held.
            && (Arc::ptr_eq(&self.options, options) || self.options.entries() == options.entries())
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

/// Whether two maps hold the same objects in the same places, as copies of one map do: a hundred names are
/// compared several times as fast as they are looked up.
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
