//! Conditions under which a place is evaluated, and the errors that rows raise there.

use super::Emitter;
use crate::code::line;
use crate::error::{ErrorCode, overflow_text};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::value::Value;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;

/// An error that an expression may raise.
#[derive(Debug, Clone)]
pub(super) struct Raise {
    /// Conditions of the place, outermost first.
    pub(super) guards: Vec<String>,
    pub(super) condition: String,
    pub(super) code: u32,
}

impl Emitter<'_> {
    /// The name of the condition under which this place is evaluated; `None` if always.
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

    /// Emits an expression at a place that is evaluated under one more condition.
    pub(super) fn guarded(&mut self, condition: String, expression: &Expr) -> Result<Value, Reason> {
        self.guards.push(condition);
        let value = self.expression(expression);
        self.guards.pop();
        value
    }

    /// Raises an error where `condition` holds, if this place is evaluated.
    pub(super) fn raise(&mut self, condition: &str, code: ErrorCode) {
        self.raise_number(condition, code.code());
    }

    /// Raises an error where `condition` holds of a value that is not NULL, if this place is evaluated.
    pub(super) fn raise_unless_null(&mut self, condition: &str, null: Option<&String>, code: ErrorCode) {
        let error = self.unless_null(condition, null);
        self.raise(&error, code);
    }

    /// The error of a result that leaves its type, which names the call that it is of.
    pub(super) fn overflow(&mut self, call: &str, data_type: &DataType) -> ErrorCode {
        let text = overflow_text(&call, data_type);
        ErrorCode::Host(self.parameters.error(text) as u32)
    }

    pub(super) fn raise_number(&mut self, condition: &str, code: u32) {
        let (guards, condition) = (self.guards.clone(), condition.to_owned());
        self.raises.push(Raise {
            guards: guards.clone(),
            condition: condition.clone(),
            code,
        });
        if condition == "false" {
            return;
        }
        // Raised already under fewer conditions, it is raised here, too.
        let places = self.scope.raised.entry((condition.clone(), code)).or_default();
        if places
            .iter()
            .any(|place| place.iter().all(|guard| guards.contains(guard)))
        {
            return;
        }
        places.push(guards);
        let guard = self
            .guard()
            .map(|guard| format!("{guard} && "))
            .unwrap_or_default();
        line!(
            self.out,
            "if ({guard}{condition}) galatea_raise(args.error, {code}u);"
        );
    }

    /// `condition` only where `null` is not set.
    pub(super) fn unless_null(&mut self, condition: &str, null: Option<&String>) -> String {
        match null {
            None => condition.to_owned(),
            Some(null) => self.define(&Kind::Bool, &format!("{condition} && !{null}")),
        }
    }
}
