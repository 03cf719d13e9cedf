//! Functions with lambdas, such as `array_transform(l, x -> x + k)`, as functions of lists and of the columns
//! that the lambdas read.
//!
//! DataFusion refers to a parameter of a lambda by its place behind the columns of the input. Rules that
//! remove or move columns keep this place, and the lambda then reads other values. Its body was not corrected
//! and not checked, either. Here the columns become arguments, so that rules treat them like those of other
//! functions, and the body is an expression of its own: over the columns first, and then the parameters.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::remove_list_null_values;
use datafusion::common::{Column, DFSchema, ExprSchema, Result, internal_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::{HigherOrderFunction, Lambda};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, HigherOrderFunctionArgs, HigherOrderUDF, LambdaArgument, LogicalPlan,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, ValueOrLambda, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::float_compare::compare_floats;
use crate::checks::{checked, guarded, input_schema, names_kept};
use crate::config::{GalateaConfig, OverflowMode};

/// The rule that replaces the functions. It runs after type coercion.
#[derive(Debug, Default)]
pub(super) struct CloseLambdas;

impl AnalyzerRule for CloseLambdas {
    fn name(&self) -> &'static str {
        "galatea_close_lambdas"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let options = Arc::new(config.clone());
        let changed = plan.transform_up_with_subqueries(|node| {
            let schema = input_schema(&node);
            names_kept(node, |expr| {
                expr.transform_up(|part| match part {
                    Expr::HigherOrderFunction(call) => {
                        closed(&call, schema.as_ref(), &options).map(Transformed::yes)
                    }
                    part => Ok(Transformed::no(part)),
                })
            })
        });
        Ok(changed?.data)
    }
}

/// An argument of a function with lambdas.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    /// The next value.
    Value,
    /// A lambda.
    Lambda(Body),
}

/// The body of a lambda.
#[derive(Debug, Clone)]
struct Body {
    /// Over the captured values and the parameters, by the names of [`place`].
    expression: Expr,
    parameters: Vec<FieldRef>,
    evaluated: PhysicalExprRef,
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.parameters) == (&other.expression, &other.parameters)
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expression.hash(state);
        self.parameters.hash(state);
    }
}

/// A function with lambdas, of its values and then the values that its lambdas capture.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Closure {
    function: Arc<HigherOrderUDF>,
    parts: Vec<Part>,
    returns: FieldRef,
    signature: Signature,
}

/// The name of a value of a body.
fn place(number: usize) -> String {
    format!("__galatea_value_{number}")
}

/// The call of the closure instead of a call with lambdas.
fn closed(call: &HigherOrderFunction, schema: &DFSchema, options: &Arc<ConfigOptions>) -> Result<Expr> {
    let (_, returns) = Expr::HigherOrderFunction(call.clone()).to_field(schema)?;
    let mut captured: Vec<Expr> = Vec::new();
    for argument in &call.args {
        if let Expr::Lambda(lambda) = argument {
            capture(lambda, &mut captured)?;
        }
    }
    let types = captured.iter().map(|value| value.get_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    let mut parameters = call.lambda_parameters(schema as &dyn ExprSchema)?.into_iter();
    let mut parts = Vec::new();
    let mut values = Vec::new();
    let mut is_volatile = false;
    for argument in &call.args {
        match argument {
            Expr::Lambda(lambda) => {
                let fields = parameters.next().unwrap_or_default();
                if lambda.params.len() > fields.len() {
                    return plan_err!(
                        "{} calls its lambda with {} values, and the lambda has {} parameters",
                        call.func.name(),
                        fields.len(),
                        lambda.params.len()
                    );
                }
                let body = body(lambda, fields, &captured, &types, options)?;
                is_volatile |= body.expression.is_volatile();
                parts.push(Part::Lambda(body));
            }
            value => {
                parts.push(Part::Value);
                values.push(value.clone());
            }
        }
    }
    values.extend(captured);
    let volatility = match is_volatile {
        true => Volatility::Volatile,
        false => call.func.signature().volatility,
    };
    let closure = Closure {
        function: Arc::clone(&call.func),
        parts,
        returns,
        signature: Signature::any(values.len(), volatility),
    };
    Ok(ScalarUDF::new_from_impl(closure).call(values))
}

/// Whether an expression in a body is a value that is computed outside of it: a column, a variable of an
/// outer lambda, a subquery, or a function that planning replaces, such as now().
fn is_captured(part: &Expr, lambda: &Lambda) -> bool {
    match part {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) | Expr::Exists(_) => true,
        Expr::LambdaVariable(variable) => !lambda.params.contains(&variable.name),
        Expr::ScalarFunction(call) => {
            call.args.is_empty() && call.func.signature().volatility == Volatility::Stable
        }
        _ => false,
    }
}

/// Adds the values that a lambda captures.
fn capture(lambda: &Lambda, captured: &mut Vec<Expr>) -> Result<()> {
    lambda.body.apply(|part| {
        if !is_captured(part, lambda) {
            return Ok(TreeNodeRecursion::Continue);
        }
        if !captured.contains(part) {
            captured.push(part.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(())
}

/// The body of a lambda over captured values of these types.
fn body(
    lambda: &Lambda,
    fields: Vec<FieldRef>,
    captured: &[Expr],
    types: &[DataType],
    options: &Arc<ConfigOptions>,
) -> Result<Body> {
    let value = |number: usize| Expr::Column(Column::from_name(place(number)));
    let expression = lambda.body.as_ref().clone().transform_down(|part| {
        if let Expr::LambdaVariable(variable) = &part
            && let Some(number) = lambda.params.iter().position(|name| *name == variable.name)
        {
            return Ok(Transformed::yes(value(captured.len() + number)));
        }
        Ok(match captured.iter().position(|known| *known == part) {
            Some(number) => Transformed::new(value(number), true, TreeNodeRecursion::Jump),
            None => Transformed::no(part),
        })
    })?;
    let parameters: Vec<FieldRef> = fields.into_iter().take(lambda.params.len()).collect();
    let types = types.iter().cloned();
    let types = types.chain(parameters.iter().map(|field| field.data_type().clone()));
    let columns = types
        .enumerate()
        .map(|(number, data_type)| Field::new(place(number), data_type, true));
    let schema = Schema::new(columns.collect::<Vec<_>>());
    let columns = DFSchema::try_from(schema.clone())?;
    let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let mut evaluated = create_physical_expr(&expression.data, &columns, &properties, &context)?;
    evaluated = compare_floats(&evaluated, &schema, options)?;
    if GalateaConfig::of(options).overflow == OverflowMode::Error {
        evaluated = checked(&evaluated, &schema)?.unwrap_or(evaluated);
    }
    evaluated = guarded(&evaluated, &schema)?.unwrap_or(evaluated);
    Ok(Body {
        expression: expression.data,
        parameters,
        evaluated,
    })
}

impl ScalarUDFImpl for Closure {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.returns.data_type().clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.returns))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let count = self.parts.iter().filter(|part| **part == Part::Value).count();
        if arguments.args.len() < count {
            return internal_err!("{} has {} values, not {count}", self.name(), arguments.args.len());
        }
        let (values, captured) = arguments.args.split_at(count);
        let captured = captured.iter().map(|value| value.to_array(rows));
        let captured = batch(captured.collect::<Result<Vec<_>>>()?, rows)?;
        let mut values = values.iter().zip(&arguments.arg_fields);
        let (mut parts, mut fields) = (Vec::new(), Vec::new());
        for part in &self.parts {
            match part {
                Part::Lambda(body) => {
                    let used: Vec<usize> = (0..body.parameters.len()).collect();
                    let field = body.evaluated.return_field(&body.schema(&captured))?;
                    let has_captured = captured.num_columns() > 0;
                    parts.push(ValueOrLambda::Lambda(LambdaArgument::new(
                        body.parameters.clone(),
                        Arc::clone(&body.evaluated),
                        has_captured.then(|| captured.clone()),
                        &used,
                    )));
                    fields.push(ValueOrLambda::Lambda(field));
                }
                Part::Value => {
                    let Some((value, field)) = values.next() else {
                        return internal_err!("{} has too few values", self.name());
                    };
                    parts.push(ValueOrLambda::Value(self.without_null_values(value, rows)?));
                    fields.push(ValueOrLambda::Value(Arc::clone(field)));
                }
            }
        }
        self.function.invoke_with_args(HigherOrderFunctionArgs {
            args: parts,
            arg_fields: fields,
            number_rows: rows,
            return_field: Arc::clone(&self.returns),
            config_options: arguments.config_options,
        })
    }
}

impl Closure {
    /// Lists without the values of NULL lists, if the function takes them so.
    fn without_null_values(&self, value: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
        let is_list = matches!(value.data_type(), DataType::List(_) | DataType::LargeList(_));
        if !is_list || !self.function.clear_null_values() {
            return Ok(value.clone());
        }
        let lists = value.to_array(rows)?;
        Ok(ColumnarValue::Array(match lists.null_count() {
            0 => lists,
            _ => remove_list_null_values(&lists)?,
        }))
    }
}

impl Body {
    /// The columns of the evaluated expression.
    fn schema(&self, captured: &RecordBatch) -> Schema {
        let captured = captured.schema_ref().fields().iter();
        Schema::new(captured.chain(&self.parameters).cloned().collect::<Vec<_>>())
    }
}

/// The captured values of these rows.
fn batch(columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields = columns.iter().enumerate();
    let fields = fields.map(|(number, values)| Field::new(place(number), values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
