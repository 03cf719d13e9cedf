//! Conditions under which places are evaluated, and the errors that rows raise there.

use super::Emitter;
use crate::code::line;
use crate::error::Fault;
use crate::ir::Expr;
use crate::kernel_error::{KernelError, Number, Place};
use crate::kind::Kind;
use crate::value::Value;
use galatea_base::reason::Reason;

/// An error that an expression can raise.
#[derive(Debug, Clone)]
pub(super) struct Raise {
    /// Guards of the place, outermost first.
    pub(super) guards: Vec<String>,
    pub(super) condition: String,
    pub(super) fault: Fault,
    pub(super) place: Place,
}

impl Emitter<'_> {
    /// The name of the condition under which the current place is evaluated; `None` if always.
    pub(super) fn guard(&mut self) -> Option<String> {
        let guards = self.guards.clone();
        let mut all: Option<String> = None;
        for condition in guards {
            all = Some(match all {
                None => self.define(&Kind::Bool, &condition),
                Some(outer) => self.define(&Kind::Bool, &format!("{outer} && {condition}")),
            });
        }
        all
    }

    /// Emits an expression at a place with one more condition.
    pub(super) fn guarded(&mut self, condition: String, expression: &Expr) -> Result<Value, Reason> {
        self.guards.push(condition);
        let value = self.expression(expression);
        self.guards.pop();
        value
    }

    /// Raises an error if `condition` holds and the value is not NULL, provided that this place is evaluated.
    pub(super) fn raise_unless_null(&mut self, condition: &str, null: Option<&String>, fault: Fault) {
        let condition = self.unless_null(condition, null);
        let place = self.error_place();
        self.raise(&condition, fault, place);
    }

    /// The place of errors: the innermost current expression that exists in DataFusion's plan.
    pub(super) fn error_place(&self) -> Place {
        match self.places.last() {
            Some(expression) => Place::Expression(expression.clone()),
            None => Place::Named("an expression of the pipeline".to_owned()),
        }
    }

    /// Raises an error if `condition` holds, provided that this place is evaluated.
    pub(super) fn raise(&mut self, condition: &str, fault: Fault, place: Place) {
        let (guards, condition) = (self.guards.clone(), condition.to_owned());
        self.raises.push(Raise {
            guards: guards.clone(),
            condition: condition.clone(),
            fault: fault.clone(),
            place: place.clone(),
        });
        if condition == "false" {
            return;
        }
        // An error that was already raised under a subset of the guards covers this one, whichever expression
        // it is of.
        let places = self
            .scope
            .raised
            .entry((condition.clone(), fault.clone()))
            .or_default();
        if places
            .iter()
            .any(|place| place.iter().all(|guard| guards.contains(guard)))
        {
            return;
        }
        places.push(guards);
        let number = Number::of_error(self.parameters.error(KernelError { fault, place }));
        let guard = self
            .guard()
            .map(|guard| format!("{guard} && "))
            .unwrap_or_default();
        line!(
            self.out,
            "if ({guard}{condition}) galatea_raise(args.error, {number}u);"
        );
    }

    /// `condition` if `null` is not set, otherwise false.
    pub(super) fn unless_null(&mut self, condition: &str, null: Option<&String>) -> String {
        match null {
            None => condition.to_owned(),
            Some(null) => self.define(&Kind::Bool, &format!("{condition} && !{null}")),
        }
    }
}
