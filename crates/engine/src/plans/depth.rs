//! The depth limit of statements and plans.
//!
//! Some of DataFusion's passes over plans grow the stack if they need it; printing, comparing and dropping an
//! expression do not. So a statement that is too deep is an error before it is planned, and others are
//! planned on a stack sized by their levels. A parser builds a tree of any depth, so it runs on a stack sized
//! by the length of the SQL string.

use crate::syntax::visit;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Query, SetExpr, Visitor};
use galatea_base::stack::{levels_left, with_at_least};
use std::ops::ControlFlow;

/// Maximum levels of expressions and queries in a statement.
pub const MAX_LEVELS: usize = 2000;

/// Bytes of stack per byte of a statement's SQL string. A level has at least two bytes in it, and dropping it
/// takes at most a kibibyte.
const STACK_PER_BYTE: usize = 512;

/// The largest stack for a string, in bytes.
const MOST_STACK: usize = 256 << 20;

/// Parses the SQL string `text` with `parse`, on a stack that is large enough for every statement of that
/// length. Statements that `parse` refuses are dropped on the same stack.
pub fn with_stack_for<R>(text: &str, parse: impl FnOnce() -> R) -> R {
    let stack = text.len().saturating_mul(STACK_PER_BYTE).min(MOST_STACK);
    with_at_least(stack, parse)
}

/// Levels of the expressions and queries of a statement.
///
/// # Errors
/// A planning error with the number of levels if there are more than [`MAX_LEVELS`].
pub fn levels_of_statement(statement: &Statement) -> Result<usize> {
    let mut levels = Levels::default();
    match statement {
        Statement::Statement(statement) => _ = visit(statement.as_ref(), &mut levels),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &copy.source {
                _ = visit(query.as_ref(), &mut levels);
            }
        }
        Statement::Explain(explain) => return levels_of_statement(&explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
    levels.checked()
}

/// Levels of the nodes and expressions of a plan, which may have been built without SQL; an error for more
/// than [`MAX_LEVELS`].
pub(super) fn levels_of_plan(plan: &LogicalPlan) -> Result<usize> {
    let mut levels = Levels::default();
    plan.visit_with_subqueries(&mut levels)?;
    levels.checked()
}

/// Refuses a plan of `levels` that the rest of this thread's stack is too small for.
pub(super) fn check_stack(levels: usize) -> Result<()> {
    let left = levels_left();
    match levels <= left {
        true => Ok(()),
        false => Err(plan_datafusion_err!(
            "expression too deep: {levels} levels, the stack of this thread is large enough for {left}\nhint: plan the statement on a thread with a larger stack, or as a query, with galatea.cache.plans above 0"
        )),
    }
}

/// The current and the deepest level of a walk through a tree.
#[derive(Debug, Default)]
struct Levels {
    level: usize,
    deepest: usize,
}

impl Levels {
    fn enter(&mut self) {
        self.level += 1;
        self.deepest = self.deepest.max(self.level);
    }

    fn leave(&mut self) {
        self.level -= 1;
    }

    fn checked(self) -> Result<usize> {
        let levels = self.deepest;
        match levels <= MAX_LEVELS {
            true => Ok(levels),
            false => Err(plan_datafusion_err!(
                "expression too deep: {levels} levels, the limit is {MAX_LEVELS}\nhint: compute a part of it in a subquery, or aggregate the values of a table"
            )),
        }
    }
}

/// Visits the levels of the expressions of a plan's nodes.
struct OfExpressions<'a>(&'a mut Levels);

impl<'n> TreeNodeVisitor<'n> for Levels {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: &'n LogicalPlan) -> Result<TreeNodeRecursion> {
        self.enter();
        node.apply_expressions(|expression| {
            expression.visit(&mut OfExpressions(self))?;
            Ok(TreeNodeRecursion::Continue)
        })
    }

    fn f_up(&mut self, _: &'n LogicalPlan) -> Result<TreeNodeRecursion> {
        self.leave();
        Ok(TreeNodeRecursion::Continue)
    }
}

impl<'n> TreeNodeVisitor<'n> for OfExpressions<'_> {
    type Node = Expr;

    fn f_down(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.0.enter();
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.0.leave();
        Ok(TreeNodeRecursion::Continue)
    }
}

impl Visitor for Levels {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter();
        // UNION and similar operators nest on their left side.
        let (mut body, mut nested) = (query.body.as_ref(), 0);
        while let SetExpr::SetOperation { left, .. } = body {
            body = left;
            nested += 1;
        }
        self.deepest = self.deepest.max(self.level + nested);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &SqlExpr) -> ControlFlow<()> {
        self.enter();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &SqlExpr) -> ControlFlow<()> {
        self.leave();
        ControlFlow::Continue(())
    }
}
