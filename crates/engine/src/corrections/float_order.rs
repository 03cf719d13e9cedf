//! Sort and join keys on the CPU: NaN is one value, above all others, and zero another.
//!
//! Sorts compare floats by IEEE 754 totalOrder, and joins and repartitioning the bits of their keys. The rule
//! replaces keys of floats by keys with one NaN and one zero. Other rules recognise orders and partitions by
//! the expressions of their keys, so it runs after them, and changes the keys of all operators of the plan
//! alike.

use crate::checks::{Rewrite, all, rewritten};
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{Distribution, LexOrdering, Partitioning, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use galatea_expression::one_nan::of_one_nan;
use std::sync::Arc;

/// The rule that rewrites keys.
#[derive(Debug, Default)]
pub(super) struct OrderFloats;

impl PhysicalOptimizerRule for OrderFloats {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = Keys {
            options: Arc::new(config.clone()),
        };
        let ordered = plan.transform_up(|node| {
            Ok(match keys.replaced(&node)? {
                Some(changed) => Transformed::yes(changed),
                None => Transformed::no(node),
            })
        })?;
        Ok(ordered.data)
    }

    fn name(&self) -> &'static str {
        "galatea_order_floats"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

struct Keys {
    options: Arc<ConfigOptions>,
}

impl Rewrite for Keys {
    /// The keys of windows have one NaN in logical plans already.
    fn expression(&self, _expression: &PhysicalExprRef, _schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        Ok(None)
    }

    fn order(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        of_one_nan(key, schema, &self.options)
    }

    fn join_key(&self, key: &PhysicalExprRef, schema: &Schema) -> Result<Option<PhysicalExprRef>> {
        of_one_nan(key, schema, &self.options)
    }
}

impl Keys {
    fn replaced(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
            return self.repartition(repartition);
        }
        if let Some(sort) = node.downcast_ref::<PartialSortExec>() {
            return self.partial_sort(sort);
        }
        let Some(changed) = rewritten(node, self)? else {
            return Ok(None);
        };
        // A dynamic filter for the join's keys compares their bits in scans.
        let changed = match changed.downcast_ref::<HashJoinExec>() {
            Some(join) => join.builder().reset_state().build_exec()?,
            None => changed,
        };
        self.co_partitioned(changed).map(Some)
    }

    /// The operator over inputs that are partitioned by its keys. An input that is partitioned by the keys of
    /// another operator, such as a join by the same floats, is partitioned again.
    fn co_partitioned(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let requirements = node.input_distribution_requirements();
        let children = node.children();
        let inputs: Vec<&dyn ExecutionPlan> = children.iter().map(AsRef::as_ref).collect();
        let unsatisfied = requirements.unsatisfied_co_partitioned_children(node.name(), &inputs)?;
        if unsatisfied.is_empty() {
            return Ok(node);
        }
        let orders = node.required_input_ordering();
        let count = self.options.execution.target_partitions;
        let children = requirements.per_child_distributions().zip(children).enumerate();
        let children = children.map(|(number, (distribution, child))| {
            let child = Arc::clone(child);
            let Distribution::KeyPartitioned(keys) = distribution else {
                return Ok(child);
            };
            let hashed = RepartitionExec::try_new(child, Partitioning::Hash(keys.clone(), count))?;
            let keeps_order = orders.get(number).is_some_and(Option::is_some);
            let hashed = if keeps_order {
                hashed.with_preserve_order()
            } else {
                hashed
            };
            Ok(Arc::new(hashed) as Arc<dyn ExecutionPlan>)
        });
        let children = children.collect::<Result<Vec<_>>>()?;
        let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        node.replace_children(children, changed)
    }

    fn repartition(&self, repartition: &RepartitionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Partitioning::Hash(keys, count) = repartition.partitioning() else {
            return Ok(None);
        };
        let schema = repartition.input().schema();
        let Some(keys) = all(keys, &|key| of_one_nan(key, &schema, &self.options))? else {
            return Ok(None);
        };
        let input = Arc::clone(repartition.input());
        let hashed = RepartitionExec::try_new(input, Partitioning::Hash(keys, *count))?;
        Ok(Some(Arc::new(match repartition.preserve_order() {
            true => hashed.with_preserve_order(),
            false => hashed,
        })))
    }

    fn partial_sort(&self, sort: &PartialSortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = sort.input().schema();
        let keys: Vec<_> = sort.expr().iter().map(|key| Arc::clone(&key.expr)).collect();
        let Some(keys) = all(&keys, &|key| self.order(key, &schema))? else {
            return Ok(None);
        };
        let keys = keys.into_iter().zip(sort.expr());
        let order = keys.map(|(key, old)| PhysicalSortExpr::new(key, old.options));
        let Some(order) = LexOrdering::new(order) else {
            return Ok(None);
        };
        let sorted = PartialSortExec::new(order, Arc::clone(sort.input()), sort.common_prefix_length());
        let sorted = sorted
            .with_preserve_partitioning(sort.preserve_partitioning())
            .with_fetch(sort.fetch());
        Ok(Some(Arc::new(sorted)))
    }
}
