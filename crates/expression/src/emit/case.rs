//! CASE: all branches are computed, and the result is selected. Only errors depend on the branch that is
//! taken.

use super::{Emitter, as_kind};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::string::is_string;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    pub(super) fn case(
        &mut self,
        expression: &Expr,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Result<Value, Reason> {
        let depth = self.guards.len();
        let emitted = self.branches(expression, branches, otherwise);
        self.guards.truncate(depth);
        let (conditions, results) = emitted?;
        let results = if is_string(expression.data_type()) {
            self.unify(results)?
        } else {
            results
        };
        self.select(expression, &conditions, results)
    }

    /// The conditions and the results, followed by the result of ELSE.
    fn branches(
        &mut self,
        expression: &Expr,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Result<(Vec<String>, Vec<Value>), Reason> {
        let mut conditions = Vec::with_capacity(branches.len());
        let mut results = Vec::with_capacity(branches.len() + 1);
        for (when, then) in branches {
            let condition = self.expression(when)?.code;
            self.guards.push(condition.clone());
            let result = self.result(expression, then);
            self.guards.pop();
            let result = result?;
            self.guards.push(format!("!{condition}"));
            conditions.push(condition);
            results.push(result);
        }
        results.push(match otherwise {
            Some(otherwise) => self.result(expression, otherwise)?,
            None => self.null_value(expression.data_type())?,
        });
        Ok((conditions, results))
    }

    /// One result. String literals become dictionaries, so that they can be merged with others.
    fn result(&mut self, case: &Expr, result: &Expr) -> Result<Value, Reason> {
        if is_string(case.data_type()) {
            self.string_operand(result)
        } else {
            self.expression(result)
        }
    }

    /// `results[i]` for the first true `conditions[i]`, or the last result.
    pub(super) fn select(
        &mut self,
        expression: &Expr,
        conditions: &[String],
        results: Vec<Value>,
    ) -> Result<Value, Reason> {
        let mut kind = results[0].kind.clone();
        let mut range = None;
        if results.iter().all(|result| result.kind.is_integer()) {
            let interval = results
                .iter()
                .skip(1)
                .fold(results[0].interval(), |hull, result| hull.hull(result.interval()));
            kind = interval.kind();
            range = Some((interval.low, interval.high));
        } else if results
            .iter()
            .any(|result| matches!(result.kind, Kind::ComputedString))
        {
            return Ok(self.chosen(expression, conditions, &results));
        } else if results.iter().any(|result| result.kind.c_type() != kind.c_type()) {
            return Err(Reason::Expression {
                expression: expression.to_string(),
                detail: "branches of different kinds".to_owned(),
            });
        }
        let choose = |of: &dyn Fn(&Value) -> String| {
            let mut text = String::new();
            for (condition, result) in conditions.iter().zip(&results) {
                text.push_str(&format!("{condition} ? {} : ", of(result)));
            }
            text.push_str(&of(&results[results.len() - 1]));
            text
        };
        let null = if results.iter().any(|result| result.null.is_some()) {
            let rhs = choose(&|result| result.null.clone().unwrap_or_else(|| "false".to_owned()));
            Some(self.define(&Kind::Bool, &rhs))
        } else {
            None
        };
        let code = self.define(&kind, &choose(&|result| as_kind(result, &kind)));
        Ok(Value {
            code,
            null,
            kind,
            data_type: expression.data_type().clone(),
            range,
        })
    }
}
