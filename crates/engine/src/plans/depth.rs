//! The depth limit of statements and plans.
//!
//! DataFusion's passes over plans grow the stack where they need it. Evaluating, comparing, printing and
//! dropping an expression do not. So a statement that is too deep is an error before it is planned. Parsing
//! makes a tree of any depth, so it runs on a stack whose size follows from the length of the text.

use crate::stack::with_at_least;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Query, SetExpr, Visit, Visitor};
use std::ops::ControlFlow;

/// The most levels of expressions and queries in a statement.
pub const MAX_LEVELS: usize = 3000;

/// Bytes of stack per byte of a statement's text. A level has at least two bytes of text, and dropping it
/// takes at most a kibibyte.
const STACK_PER_BYTE: usize = 512;

/// The largest stack for a text, in bytes.
const MOST_STACK: usize = 256 << 20;

/// Runs `parse`, which makes a statement of `text`, on a stack that is large enough for any statement of the
/// text. What `parse` refuses, it drops there, too.
pub fn with_stack_for<R>(text: &str, parse: impl FnOnce() -> R) -> R {
    let stack = text.len().saturating_mul(STACK_PER_BYTE).min(MOST_STACK);
    with_at_least(stack, parse)
}

/// Refuses a statement with more than [`MAX_LEVELS`] levels of expressions and queries.
///
/// # Errors
/// A planning error with the number of levels.
pub fn check_statement(statement: &Statement) -> Result<()> {
    let mut levels = Levels::default();
    match statement {
        Statement::Statement(statement) => _ = statement.visit(&mut levels),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &copy.source {
                _ = query.visit(&mut levels);
            }
        }
        Statement::Explain(explain) => return check_statement(&explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
    levels.check()
}

/// Refuses a plan with an expression of more than [`MAX_LEVELS`] levels, for plans that were not made from SQL.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let mut levels = Levels::default();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.visit(&mut levels)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    levels.check()
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

    fn check(&self) -> Result<()> {
        match self.deepest <= MAX_LEVELS {
            true => Ok(()),
            false => Err(too_deep(self.deepest)),
        }
    }
}

fn too_deep(levels: usize) -> DataFusionError {
    plan_datafusion_err!(
        "expression too deep: {levels} levels, the limit is {MAX_LEVELS}\nhint: compute a part of it in a subquery, or aggregate the values of a table"
    )
}

impl<'n> TreeNodeVisitor<'n> for Levels {
    type Node = Expr;

    fn f_down(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.enter();
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _: &'n Expr) -> Result<TreeNodeRecursion> {
        self.leave();
        Ok(TreeNodeRecursion::Continue)
    }
}

impl Visitor for Levels {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter();
        // UNION and its kind nest on their left side.
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
