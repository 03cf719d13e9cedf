//! Macros for methods of `ExecutionPlan` that several plan nodes implement alike.

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

/// Checks `partition` of a node that has only one.
pub fn check_partition(node: &impl ExecutionPlan, partition: usize) -> Result<()> {
    if partition != 0 {
        return internal_err!("{} has one partition, {partition} was asked for", node.name());
    }
    Ok(())
}

/// The expression visitor of a node that evaluates no expressions.
#[macro_export]
macro_rules! no_expressions {
    () => {
        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            ) -> ::datafusion::common::Result<
                ::datafusion::common::tree_node::TreeNodeRecursion,
            >,
        ) -> ::datafusion::common::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// Implements `with_new_children`, which the trait requires, by `replace_children`.
#[macro_export]
macro_rules! with_new_children {
    () => {
        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::common::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            use ::datafusion::physical_plan::execution_plan::{
                ChildrenPropertiesMode, ReplaceChildrenOptions,
            };
            self.replace_children(
                children,
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            )
        }
    };
}

/// The properties of a node that returns the rows of its only child, in their order and partitions. The
/// argument is the field of the child.
#[macro_export]
macro_rules! keeps_rows {
    ($this:ident . $child:ident) => {
        fn properties(&$this) -> &::std::sync::Arc<::datafusion::physical_plan::PlanProperties> {
            $this.$child.properties()
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }
    };
}

/// The children of a leaf, which remains unchanged.
#[macro_export]
macro_rules! no_children {
    () => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        fn replace_children(
            self: ::std::sync::Arc<Self>,
            _children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
            _options: ::datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::common::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            Ok(self)
        }

        $crate::with_new_children!();
    };
}

/// The methods of a node with one child. The arguments are the field of the child, and the node for another
/// child.
///
/// `one_child!(self.input, |input| Arc::new(Self::new(self.seed, input)));`
#[macro_export]
macro_rules! one_child {
    ($this:ident . $child:ident, |$new:ident| $node:expr) => {
        fn children(&$this) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            vec![&$this.$child]
        }

        fn replace_children(
            $this: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
            _options: ::datafusion::physical_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::common::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let Ok([$new]) = <[_; 1]>::try_from(children) else {
                return ::datafusion::common::internal_err!("{} has one child", $this.name());
            };
            Ok($node)
        }

        $crate::with_new_children!();
    };
}
