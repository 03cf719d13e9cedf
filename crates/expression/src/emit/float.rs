//! Functions of floats.

use super::Emitter;
use crate::error::Fault;
use crate::function::{Elementary, Function};
use crate::ir::Expr;
use crate::kind::Kind;
use crate::value::Value;
use galatea_base::reason::Reason;

impl Emitter<'_> {
    pub(super) fn float_function(
        &mut self,
        expression: &Expr,
        function: &Function,
        input: &Expr,
    ) -> Result<Value, Reason> {
        let value = self.expression(input)?;
        if *function == Function::IsNan {
            let mut condition = self.define(&Kind::Bool, &format!("{} != {}", value.code, value.code));
            condition = self.unless_null(&condition, value.null.as_ref());
            return Ok(super::boolean(condition, value.null));
        }
        let name = match function {
            Function::Ceiling => "float_ceiling",
            Function::Floor => "float_floor",
            Function::Round { places: 0 } => "float_round",
            Function::Round { places } | Function::TruncateTo { places } => {
                let (name, factor) = match (function, &value.kind) {
                    (Function::Round { .. }, _) => ("float_round", 10f64.powi(*places)),
                    // In the float's own type, like DataFusion.
                    (_, Kind::F32) => ("float_truncate", 10f32.powi(*places).into()),
                    _ => ("float_truncate", 10f64.powi(*places)),
                };
                let factor = factor.to_bits();
                let factor = self.define(
                    &value.kind,
                    &format!("({})double_of_bits({factor:#x}ull)", value.kind.c_type()),
                );
                let rhs = format!(
                    "float_divide({name}(float_multiply({}, {factor})), {factor})",
                    value.code
                );
                let code = self.define(&value.kind, &rhs);
                return Ok(Value {
                    code,
                    data_type: expression.data_type().clone(),
                    ..value
                });
            }
            Function::SquareRoot => {
                let negative = self.define(&Kind::Bool, &format!("{} < 0", value.code));
                self.raise_unless_null(&negative, value.null.as_ref(), Fault::Function);
                "float_square_root"
            }
            Function::Sign => "float_sign",
            Function::Truncate => "float_truncate_to_zero",
            _ => {
                return Err(Reason::Function {
                    name: function.to_string(),
                    detail: "not a float function".to_owned(),
                });
            }
        };
        let code = self.define(&value.kind, &format!("{name}({})", value.code));
        Ok(Value {
            code,
            data_type: expression.data_type().clone(),
            ..value
        })
    }

    /// A function of doubles, given its name in the C library.
    pub(super) fn elementary(
        &mut self,
        expression: &Expr,
        function: Elementary,
        arguments: &[Expr],
    ) -> Result<Value, Reason> {
        let values = arguments.iter().map(|argument| self.expression(argument));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let null = self.any_null(&values.iter().collect::<Vec<_>>());
        if let (Elementary::Pow, [base, exponent]) = (function, values.as_slice()) {
            let undefined = format!("{} == 0.0 && {} < 0.0", base.code, exponent.code);
            let undefined = self.define(&Kind::Bool, &undefined);
            self.raise_unless_null(&undefined, null.as_ref(), Fault::Function);
        }
        let name = format!("{function:?}").to_lowercase();
        let codes: Vec<&str> = values.iter().map(|value| value.code.as_str()).collect();
        let code = self.define(&Kind::F64, &format!("double_{name}({})", codes.join(", ")));
        Ok(Value {
            code,
            null,
            kind: Kind::F64,
            data_type: expression.data_type().clone(),
            range: None,
        })
    }
}
