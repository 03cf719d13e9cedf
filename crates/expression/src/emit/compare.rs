//! Comparisons and three-valued logic. The code of a boolean is false if it is NULL.

use super::{Emitter, as_kind, boolean};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::operator::Comparison;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    pub(super) fn comparison(
        &mut self,
        operator: Comparison,
        left: &Expr,
        right: &Expr,
        equal_zeros: bool,
    ) -> Result<Value, Reason> {
        let refuse = || Reason::Operator {
            operator: operator.to_string(),
            left: left.data_type().clone(),
            right: right.data_type().clone(),
        };
        if crate::string::is_string(left.data_type()) {
            return self.string_comparison(operator, left, right);
        }
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let sign = operator.c_operator();
        let condition = match (&left.kind, &right.kind) {
            (a, b) if a.is_integer() && b.is_integer() => {
                let kind = left.interval().hull(right.interval()).kind();
                format!("{} {sign} {}", as_kind(&left, &kind), as_kind(&right, &kind))
            }
            (Kind::Bool, Kind::Bool) => format!("{} {sign} {}", left.code, right.code),
            (Kind::F32, Kind::F32) | (Kind::F64, Kind::F64) => {
                let left = self.float_key(&left, equal_zeros);
                let right = self.float_key(&right, equal_zeros);
                format!("{left} {sign} {right}")
            }
            _ => return Err(refuse()),
        };
        Ok(self.compared(operator, &condition, &left, &right))
    }

    /// An integer with the order of the float: with one zero, and one NaN above infinity, or by IEEE 754
    /// totalOrder.
    pub(super) fn float_key(&mut self, value: &Value, equal_zeros: bool) -> String {
        let kind = if matches!(value.kind, Kind::F32) {
            Kind::I32
        } else {
            Kind::I64
        };
        let name = if equal_zeros {
            "float_key"
        } else {
            "float_total_key"
        };
        self.define(&kind, &format!("{name}({})", value.code))
    }

    /// Adds the NULL handling of a comparison of two values.
    pub(super) fn compared(
        &mut self,
        operator: Comparison,
        condition: &str,
        left: &Value,
        right: &Value,
    ) -> Value {
        if matches!(operator, Comparison::Distinct | Comparison::NotDistinct) {
            let equal = operator == Comparison::NotDistinct;
            let code = match (&left.null, &right.null) {
                (None, None) => self.define(&Kind::Bool, condition),
                (Some(null), None) | (None, Some(null)) => {
                    let rhs = if equal {
                        format!("!{null} && ({condition})")
                    } else {
                        format!("{null} || ({condition})")
                    };
                    self.define(&Kind::Bool, &rhs)
                }
                (Some(a), Some(b)) => {
                    let rhs = if equal {
                        format!("{a} == {b} && ({a} || ({condition}))")
                    } else {
                        format!("{a} != {b} || (!{a} && ({condition}))")
                    };
                    self.define(&Kind::Bool, &rhs)
                }
            };
            return boolean(code, None);
        }
        let null = self.any_null(&[left, right]);
        let code = match &null {
            None => self.define(&Kind::Bool, condition),
            Some(null) => self.define(&Kind::Bool, &format!("{condition} && !{null}")),
        };
        boolean(code, null)
    }

    pub(super) fn and(&mut self, left: &Expr, right: &Expr) -> Result<Value, Reason> {
        let left = self.expression(left)?;
        // Only FALSE decides the result: the right side is needed if the left side is TRUE or NULL.
        let undecided = match &left.null {
            None => left.code.clone(),
            Some(null) => format!("({} || {null})", left.code),
        };
        let right = self.guarded(undecided, right)?;
        let code = self.define(&Kind::Bool, &format!("{} && {}", left.code, right.code));
        let null = match (&left.null, &right.null) {
            (None, None) => None,
            (None, Some(null)) => Some(format!("{} && {null}", left.code)),
            (Some(null), None) => Some(format!("{null} && {}", right.code)),
            (Some(a), Some(b)) => Some(format!(
                "({a} && ({} || {b})) || ({b} && {})",
                right.code, left.code
            )),
        };
        let null = null.map(|rhs| self.define(&Kind::Bool, &rhs));
        Ok(boolean(code, null))
    }

    pub(super) fn or(&mut self, left: &Expr, right: &Expr) -> Result<Value, Reason> {
        let left = self.expression(left)?;
        let right = self.guarded(format!("!{}", left.code), right)?;
        let code = self.define(&Kind::Bool, &format!("{} || {}", left.code, right.code));
        let null = match (&left.null, &right.null) {
            (None, None) => None,
            (Some(null), None) | (None, Some(null)) => Some(format!("{null} && !{code}")),
            (Some(a), Some(b)) => Some(format!("({a} || {b}) && !{code}")),
        };
        let null = null.map(|rhs| self.define(&Kind::Bool, &rhs));
        Ok(boolean(code, null))
    }

    pub(super) fn not(&mut self, input: &Expr) -> Result<Value, Reason> {
        let input = self.expression(input)?;
        let rhs = match &input.null {
            None => format!("!{}", input.code),
            Some(null) => format!("!{} && !{null}", input.code),
        };
        let code = self.define(&Kind::Bool, &rhs);
        Ok(boolean(code, input.null))
    }
}
