//! Visits of SQL syntax trees.
//!
//! sqlparser's visit of a tree consists of more than a thousand functions, which the compiler generates for
//! each type of visitor. The functions of this module visit with one type, which calls the visitor through a
//! trait object.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// A visitor, and its result if it ended the visit.
struct Ending<V, B> {
    visitor: V,
    result: Option<B>,
}

impl<V, B> Ending<V, B> {
    fn new(visitor: V) -> Self {
        Self {
            visitor,
            result: None,
        }
    }

    fn flow(self) -> ControlFlow<B> {
        self.result.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

/// Keeps the result of a step.
fn step<B>(flow: ControlFlow<B>, result: &mut Option<B>) -> ControlFlow<()> {
    match flow {
        ControlFlow::Continue(()) => ControlFlow::Continue(()),
        ControlFlow::Break(broke) => {
            *result = Some(broke);
            ControlFlow::Break(())
        }
    }
}

/// Calls a macro with all steps of a visit, and the nodes that they take.
macro_rules! steps_of_a_visit {
    ($define:ident) => {
        $define! {
            pre_visit_query: Query,
            post_visit_query: Query,
            pre_visit_select: Select,
            post_visit_select: Select,
            pre_visit_relation: ObjectName,
            post_visit_relation: ObjectName,
            pre_visit_table_factor: TableFactor,
            post_visit_table_factor: TableFactor,
            pre_visit_expr: Expr,
            post_visit_expr: Expr,
            pre_visit_statement: Statement,
            post_visit_statement: Statement,
            pre_visit_value: ValueWithSpan,
            post_visit_value: ValueWithSpan,
        }
    };
}

/// Defines the steps of a visit, and the type that takes them.
macro_rules! steps {
    ($steps:ident, $taker:ident, $visitor:ident, $($name:ident: $node:ty,)+) => {
        trait $steps {
            $(fn $name(&mut self, node: $node) -> ControlFlow<()>;)+
        }

        impl<B> $steps for Ending<&mut dyn $visitor<Break = B>, B> {
            $(fn $name(&mut self, node: $node) -> ControlFlow<()> {
                step(self.visitor.$name(node), &mut self.result)
            })+
        }

        struct $taker<'s>(&'s mut dyn $steps);

        impl $visitor for $taker<'_> {
            type Break = ();

            $(fn $name(&mut self, node: $node) -> ControlFlow<()> {
                self.0.$name(node)
            })+
        }
    };
}

/// The same for both kinds of visitors.
macro_rules! steps_of_both {
    ($($name:ident: $node:ty,)+) => {
        steps!(Steps, Taker, Visitor, $($name: &$node,)+);
        steps!(StepsMut, TakerMut, VisitorMut, $($name: &mut $node,)+);
    };
}

steps_of_a_visit!(steps_of_both);

/// Visits a part of a statement, as [`Visit::visit`].
pub fn visit<B>(node: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    let mut ending = Ending::new(visitor);
    // A visit that ends early has left a result.
    let _ = node.visit(&mut Taker(&mut ending));
    ending.flow()
}

/// Visits a part of a statement, which the visitor may change, as [`VisitMut::visit`].
pub fn visit_mut<B>(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    let mut ending = Ending::new(visitor);
    // A visit that ends early has left a result.
    let _ = node.visit(&mut TakerMut(&mut ending));
    ending.flow()
}

/// Calls a function for the expressions of a part of a statement, from the outside in.
pub fn visit_expressions<B>(
    node: &impl Visit,
    mut each: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Each<'f, B>(&'f mut dyn FnMut(&Expr) -> ControlFlow<B>);
    impl<B> Visitor for Each<'_, B> {
        type Break = B;

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<B> {
            (self.0)(expression)
        }
    }
    visit(node, &mut Each(&mut each))
}

/// Calls a function for the expressions of a part of a statement, which it may change, from the inside out.
pub fn visit_expressions_mut<B>(
    node: &mut impl VisitMut,
    mut each: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Each<'f, B>(&'f mut dyn FnMut(&mut Expr) -> ControlFlow<B>);
    impl<B> VisitorMut for Each<'_, B> {
        type Break = B;

        fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<B> {
            (self.0)(expression)
        }
    }
    visit_mut(node, &mut Each(&mut each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Value;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn statement(sql: &str) -> Statement {
        let parser = Parser::new(&GenericDialect {}).try_with_sql(sql);
        let parsed = parser.and_then(|mut parser| parser.parse_statement());
        parsed.expect("a statement")
    }

    /// Records every step.
    #[derive(Default)]
    struct Record {
        steps: Vec<&'static str>,
        /// The number of steps before the end.
        most: usize,
    }

    macro_rules! recorded {
        ($visitor:ident, $($name:ident: $node:ty,)+) => {
            impl $visitor for Record {
                type Break = usize;

                $(fn $name(&mut self, _: $node) -> ControlFlow<usize> {
                    self.steps.push(stringify!($name));
                    match self.steps.len() == self.most {
                        true => ControlFlow::Break(self.most),
                        false => ControlFlow::Continue(()),
                    }
                })+
            }
        };
    }

    macro_rules! recorded_by_both {
        ($($name:ident: $node:ty,)+) => {
            recorded!(Visitor, $($name: &$node,)+);
            recorded!(VisitorMut, $($name: &mut $node,)+);
        };
    }

    steps_of_a_visit!(recorded_by_both);

    const SQL: &str =
        "SELECT a + 1, (SELECT max(b) FROM u WHERE c = 'x') FROM t JOIN (SELECT 2) AS s ON a = 3";

    #[test]
    fn visits_have_the_steps_of_the_parser() {
        let mut tree = statement(SQL);
        for most in 0..60 {
            let record = || Record {
                most,
                ..Record::default()
            };
            let (mut own, mut direct) = (record(), record());
            assert_eq!(visit(&tree, &mut own), tree.visit(&mut direct));
            assert_eq!(own.steps, direct.steps);
            let (mut own, mut direct) = (record(), record());
            let flows = (
                visit_mut(&mut tree, &mut own),
                VisitMut::visit(&mut tree, &mut direct),
            );
            assert_eq!(flows.0, flows.1);
            assert_eq!(own.steps, direct.steps);
        }
    }

    #[test]
    fn expressions_are_visited_in_both_directions() {
        let mut tree = statement("SELECT 1 + 2");
        let mut found = Vec::new();
        let whole = visit_expressions(&tree, |expression| {
            found.push(expression.to_string());
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(
            (whole, found),
            (
                ControlFlow::Continue(()),
                vec!["1 + 2".into(), "1".into(), "2".into()]
            )
        );
        let first = visit_expressions_mut(&mut tree, |expression| {
            *expression = Expr::Value(Value::Null.into());
            ControlFlow::Break("the first")
        });
        assert_eq!(first, ControlFlow::Break("the first"));
        assert_eq!(tree.to_string(), "SELECT NULL + 2");
    }
}
