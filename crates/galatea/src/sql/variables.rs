//! Variables of a session: `SET VARIABLE x = 1 + 2`, `getvariable('x')` and `RESET VARIABLE x`.
//!
//! The value is computed when it is set. Planning replaces a call by the value, so the device reads a
//! constant. A variable that is not set is NULL.

use super::macros::words;
use super::{SqlError, definitions};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The variables of a session.
#[derive(Debug, Default)]
pub(crate) struct Variables(Mutex<HashMap<String, ScalarValue>>);

impl Variables {
    fn value(&self, name: &str) -> ScalarValue {
        let known = self.0.lock();
        known
            .get(&name.to_lowercase())
            .cloned()
            .unwrap_or(ScalarValue::Null)
    }

    /// The function that returns them.
    pub(crate) fn function(self: &Arc<Self>) -> ScalarUDF {
        ScalarUDF::from(GetVariable {
            variables: Arc::clone(self),
            signature: Signature::any(1, Volatility::Stable),
        })
    }
}

/// `getvariable('name')`.
#[derive(Debug)]
struct GetVariable {
    variables: Arc<Variables>,
    signature: Signature,
}

impl PartialEq for GetVariable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for GetVariable {}

impl Hash for GetVariable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.variables).hash(state);
    }
}

fn name_of(argument: Option<&ScalarValue>) -> Result<String> {
    match argument.and_then(ScalarValue::try_as_str) {
        Some(Some(name)) => Ok(name.to_owned()),
        _ => plan_err!("getvariable needs the name of a variable as a string literal: getvariable('x')"),
    }
}

impl ScalarUDFImpl for GetVariable {
    fn name(&self) -> &'static str {
        "getvariable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        plan_err!("the type of getvariable is that of its variable")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = name_of(arguments.scalar_arguments.first().copied().flatten())?;
        let kind = self.variables.value(&name).data_type();
        Ok(Arc::new(Field::new(self.name(), kind, true)))
    }

    fn simplify(&self, arguments: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match arguments.as_slice() {
            [Expr::Literal(name, _)] => {
                let value = self.variables.value(&name_of(Some(name))?);
                Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
            }
            _ => Ok(ExprSimplifyResult::Original(arguments)),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Scalar(name)] => {
                let value = self.variables.value(&name_of(Some(name))?);
                Ok(ColumnarValue::Scalar(value))
            }
            _ => name_of(None).map(|_| ColumnarValue::Scalar(ScalarValue::Null)),
        }
    }
}

/// A statement that changes a variable.
#[derive(Debug, PartialEq)]
pub(super) enum VariableStatement {
    /// The SQL of the value.
    Set {
        name: String,
        value: String,
    },
    Reset {
        name: String,
    },
}

const FORM: &str = "write SET VARIABLE name = expression, or RESET VARIABLE name";

fn wrong(problem: impl Into<String>) -> DataFusionError {
    SqlError::clause("VARIABLE", problem, FORM).into()
}

impl VariableStatement {
    /// Parses the statement; `None` for any other.
    ///
    /// # Errors
    /// The statement is one of these, and is incomplete.
    pub(super) fn read(text: &str) -> Result<Option<Self>> {
        let first = words(text, 2);
        let resets = match first.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["SET", "VARIABLE"] => false,
            ["RESET", "VARIABLE"] => true,
            _ => return Ok(None),
        };
        let text = text.trim().trim_end_matches(';').trim_end();
        // The rest of the statement behind both words.
        let rest = text
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest.trim_start());
        let rest = rest
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest.trim_start());
        let is_name = |name: &str| {
            let mut letters = name.chars();
            let begins = letters
                .next()
                .is_some_and(|first| first.is_alphabetic() || first == '_');
            begins && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        let named = |name: &str| match is_name(name) {
            true => Ok(name.to_lowercase()),
            false => Err(wrong(format!(
                "needs a name of letters, digits and underscores: {name}"
            ))),
        };
        if resets {
            return Ok(Some(Self::Reset { name: named(rest)? }));
        }
        let Some((name, value)) = rest.split_once('=') else {
            let split = rest.split_once(char::is_whitespace);
            let to = split.and_then(|(name, rest)| Some((name, rest.trim_start().split_at_checked(2)?)));
            return match to {
                Some((name, (to, value))) if to.eq_ignore_ascii_case("to") && !value.trim().is_empty() => {
                    Ok(Some(Self::Set {
                        name: named(name)?,
                        value: value.trim().to_owned(),
                    }))
                }
                _ => Err(wrong("has no value")),
            };
        };
        let (name, value) = (named(name.trim().trim_end_matches(':').trim_end())?, value.trim());
        match value.is_empty() {
            true => Err(wrong("has no value")),
            false => Ok(Some(Self::Set {
                name,
                value: value.to_owned(),
            })),
        }
    }

    /// Executes the statement.
    ///
    /// # Errors
    /// The value has several rows or columns, or cannot be computed.
    pub(super) async fn execute(self, ctx: &SessionContext) -> Result<DataFrame> {
        let Some(variables) = ctx.copied_config().get_extension::<Variables>() else {
            return Err(wrong("needs a Galatea session"));
        };
        match self {
            Self::Set { name, value } => {
                // Before the value is computed, and again for the name that is set.
                definitions::check(ctx, &variables.0.lock(), "variables", &name)?;
                let frame = Box::pin(super::sql(ctx, &format!("SELECT ({value}) AS value"))).await?;
                let rows = frame.collect().await?;
                let rows: Vec<_> = rows.iter().filter(|rows| rows.num_rows() > 0).collect();
                let value = match rows.as_slice() {
                    [row] if row.num_rows() == 1 && row.num_columns() == 1 => {
                        ScalarValue::try_from_array(row.column(0), 0)?
                    }
                    _ => return Err(wrong(format!("{name} needs one value"))),
                };
                let mut known = variables.0.lock();
                definitions::check(ctx, &known, "variables", &name)?;
                known.insert(name, value);
            }
            Self::Reset { name } => _ = variables.0.lock().remove(&name),
        }
        ctx.read_empty()?.limit(0, Some(0))
    }
}
