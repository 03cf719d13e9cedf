//! Converts an existing context into a Galatea session, and leaves the rest of it unchanged.
//!
//! The rules of a [`SessionState`] can only be set by building a new state, and the builder registers its
//! inputs again. That would empty the default catalog, and would register every function under its name and
//! aliases in any order, so that an alias of one function could replace the name of another. [`with_rules`]
//! restores both. A state does not expose its prepared statements: those created before are lost, so install
//! first.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::registry::FunctionRegistry;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionConfig;
use galatea_engine::checks::{CheckConstants, CheckSums, CheckUpdates, ComputeOperands, KeepFiltered};
use galatea_engine::corrections;
use galatea_engine::plans::{DeferPlanning, ReusingPlanner};
use galatea_engine::window_filters::FiltersAsArguments;

use crate::functions::with_planners;
use crate::lateral::ComputeLateral;
use crate::nested_text::NestedAsText;
use crate::sql::TypeNames;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The state with this configuration and these physical optimizer rules. Everything else is unchanged.
pub(crate) fn with_rules(
    state: &SessionState,
    config: SessionConfig,
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> SessionState {
    rebuilt(state, config, |builder| {
        builder.with_physical_optimizer_rules(rules)
    })
}

/// Like [`with_rules`], with a planner that reuses plans, the analyzer rule that leaves queries to it, the
/// rules that correct DataFusion's, and optimizer rules around DataFusion's: for LATERAL subqueries, for COPY
/// of nested values to CSV, for the filters and operands of window functions and sorts, and for updates.
pub(crate) fn with_rules_and_planner(
    state: &SessionState,
    config: SessionConfig,
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    planner: ReusingPlanner,
) -> SessionState {
    let mut analyzer = state.analyzer().clone();
    analyzer.rules = corrections::analyzer_rules(&analyzer.rules);
    analyzer.rules.push(Arc::new(CheckSums));
    let defer = DeferPlanning::before(analyzer.rules.clone());
    analyzer.rules.insert(0, Arc::new(defer));
    let corrected = corrections::optimizer_rules(state.optimizers());
    let mut optimizer = Optimizer::with_rules(with_checked_constants(&corrected));
    optimizer.rules.insert(0, Arc::new(ComputeLateral));
    optimizer.rules.insert(0, Arc::new(NestedAsText));
    optimizer.rules.push(Arc::new(FiltersAsArguments));
    optimizer.rules.push(Arc::new(ComputeOperands));
    optimizer.rules.push(Arc::new(CheckUpdates));
    rebuilt(state, config, |builder| {
        let builder = builder.with_physical_optimizer_rules(rules);
        let builder = builder.with_expr_planners(with_planners(state.expr_planners()));
        let mut builder = builder.with_query_planner(Arc::new(planner));
        let types = TypeNames::after(builder.type_planner().take());
        *builder.type_planner() = Some(Arc::new(types));
        *builder.analyzer() = Some(analyzer);
        *builder.optimizer() = Some(optimizer);
        builder
    })
}

/// The rules. Before each that folds constants, a check is inserted, and arguments move behind their FILTER.
fn with_checked_constants(rules: &[Rule]) -> Vec<Rule> {
    let mut checked = Vec::with_capacity(rules.len() + 1);
    for rule in rules {
        if rule.name() == "simplify_expressions" {
            checked.push(Arc::new(CheckConstants) as Rule);
        }
        checked.push(match rule.name() {
            "common_sub_expression_eliminate" => Arc::new(KeepFiltered::around(Arc::clone(rule))),
            _ => Arc::clone(rule),
        });
    }
    checked
}

/// The state with this configuration and the changes of `change`. Everything else is unchanged.
fn rebuilt(
    state: &SessionState,
    config: SessionConfig,
    change: impl FnOnce(SessionStateBuilder) -> SessionStateBuilder,
) -> SessionState {
    let creates = config.options().catalog.create_default_catalog_and_schema;
    let builder = SessionStateBuilder::new_from_existing(state.clone())
        .with_session_id(state.session_id().to_string())
        .with_config(config.with_create_default_catalog_and_schema(false));
    let mut built = change(builder).build();
    built
        .config_mut()
        .options_mut()
        .catalog
        .create_default_catalog_and_schema = creates;
    restore_functions(state, &mut built);
    built
}

/// Registers a function under all its names. Returns the previous function of its main name.
type Register<F> = fn(&mut SessionState, Arc<F>) -> Result<Option<Arc<F>>>;

/// The registry of one kind of function.
struct FunctionKind<F: ?Sized> {
    names: fn(&SessionState) -> std::collections::HashSet<String>,
    get: fn(&SessionState, &str) -> Result<Arc<F>>,
    register: Register<F>,
    /// Whether the second is the first, or the first with the settings of a session.
    same: fn(&F, &F) -> bool,
}

/// Restores every function name in `after` to its meaning in `before`.
fn restore_functions(before: &SessionState, after: &mut SessionState) {
    restore(
        before,
        after,
        &FunctionKind {
            names: FunctionRegistry::udfs,
            get: FunctionRegistry::udf,
            register: FunctionRegistry::register_udf,
            same: |a, b| {
                a == b || a.name() == b.name() && a.inner().as_ref().type_id() == b.inner().as_ref().type_id()
            },
        },
    );
    restore(
        before,
        after,
        &FunctionKind {
            names: FunctionRegistry::higher_order_function_names,
            get: FunctionRegistry::higher_order_function,
            register: FunctionRegistry::register_higher_order_function,
            same: |a, b| a == b,
        },
    );
    restore(
        before,
        after,
        &FunctionKind {
            names: FunctionRegistry::udafs,
            get: FunctionRegistry::udaf,
            register: FunctionRegistry::register_udaf,
            same: |a, b| a == b,
        },
    );
    restore(
        before,
        after,
        &FunctionKind {
            names: FunctionRegistry::udwfs,
            get: FunctionRegistry::udwf,
            register: FunctionRegistry::register_udwf,
            same: |a, b| a == b,
        },
    );
}

/// Registering a function takes all its names. If one of them belonged to another function, that function is
/// registered again. This ends unless two functions each had a name of the other. Then one name of the pair
/// stays wrong, and is logged.
fn restore<F: ?Sized>(before: &SessionState, after: &mut SessionState, kind: &FunctionKind<F>) {
    let names: BTreeSet<String> = (kind.names)(before).into_iter().collect();
    for _ in 0..=names.len() {
        let mut changed = false;
        for name in &names {
            let Ok(original) = (kind.get)(before, name) else {
                continue;
            };
            if (kind.get)(after, name).is_ok_and(|now| (kind.same)(&original, &now)) {
                continue;
            }
            changed = true;
            if let Err(error) = (kind.register)(after, original) {
                tracing::warn!(function = name, %error, "a registered function could not be kept");
            }
        }
        if !changed {
            return;
        }
    }
    tracing::warn!("functions that share names with each other could not all be kept");
}
