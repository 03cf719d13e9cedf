//! From DataFusion's physical expressions to [`Expr`].
//!
//! Lowering depends only on types. Every expression over exactly one string column is kept in two forms: as a
//! function that DataFusion evaluates over the column's dictionary, and, if device code exists, natively for
//! strings without a dictionary.

mod choices;
mod functions;
mod numbers;
mod operators;
mod string;
mod temporal;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{ColumnarValue, Operator, Volatility};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use operators::{bitwise, comparison};
use temporal::is_interval;

use super::fallible::{self, Fallible};
use super::function::Function;
use super::host_function::{HostFunction, renumbered};
use super::interval::domain;
use super::ir::{Expr, ExprKind, check_depth};
use super::one_nan;
use super::operator::Arithmetic;
use super::origin::Origin;
use super::pending::PendingScalar;
use super::string::{is_string, is_utf8};
use super::string_cast::StringCast;
use galatea_base::reason::Reason;
use galatea_base::stack::growing;

/// Translates an expression over `input`, or returns the reason why it must be evaluated on the CPU.
///
/// # Errors
/// The [`Reason`] names the innermost part without a device version.
pub fn lower(expression: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expr, Reason> {
    check_depth(levels(expression))?;
    let lowering = Lowering { input };
    let lowered = lowering.lower(expression)?;
    let lowered = lowering.hosted(expression, lowered)?;
    lowered.check_joined_strings()?;
    Ok(lowered)
}

/// Number of nodes on the longest path from the root of an expression to a leaf, computed without recursion.
pub fn levels(expression: &Arc<dyn PhysicalExpr>) -> u32 {
    let mut deepest = 0;
    let mut rest = vec![(expression, 1)];
    while let Some((expression, level)) = rest.pop() {
        deepest = deepest.max(level);
        let below = expression.children().into_iter();
        rest.extend(below.map(|child| (child, level + 1)));
    }
    deepest
}

/// Whether values of this type have a representation on the device.
pub fn representable(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean | DataType::Float32 | DataType::Float64
    ) || is_string(data_type)
        || domain(data_type).is_some()
}

struct Lowering<'a> {
    input: &'a Schema,
}

impl Lowering<'_> {
    fn lower(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> {
        if let Some(operation) = fallible::argument(expression) {
            return self.lower(operation);
        }
        let lowered = growing(|| self.lower_level(expression))?;
        let raises = !matches!(lowered.kind(), ExprKind::Column(_) | ExprKind::Literal(_));
        Ok(match raises && lowered.origin().is_none() {
            true => lowered.with_origin(Some(Origin::new(expression))),
            false => lowered,
        })
    }

    fn lower_level(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> {
        if let Some(key) = one_nan::argument(expression) {
            return self.lower(key);
        }
        let data_type = self.data_type(expression)?;
        if !representable(&data_type) {
            return Err(Reason::Type {
                data_type,
                place: expression.to_string(),
            });
        }
        if expression.is::<Column>() || expression.is::<Literal>() {
            return self.native(expression, &data_type);
        }
        let Some(columns) = pure_columns(expression) else {
            return self.native(expression, &data_type);
        };
        match columns.as_slice() {
            [] => match self.constant(expression) {
                Some(value) => Ok(Expr::literal(value)),
                // Evaluating it raises an error. DataFusion raises the error, if the expression is evaluated
                // at all.
                None => Err(Reason::Expression {
                    expression: expression.to_string(),
                    detail: "constant that cannot be evaluated".to_owned(),
                }),
            },
            [column] if is_string(self.input.field(*column).data_type()) => {
                self.over_dictionary(expression, *column, data_type)
            }
            _ => self
                .native(expression, &data_type)
                .or_else(|reason| self.over_string(expression, &data_type).ok_or(reason)),
        }
    }

    /// Adds the host form of a string computed from several columns or from numbers: when it is returned,
    /// DataFusion may evaluate it. Functions of one string already have both forms, and constants selected by
    /// a condition have a dictionary.
    fn hosted(&self, expression: &Arc<dyn PhysicalExpr>, native: Expr) -> Result<Expr, Reason> {
        let leaf = matches!(
            native.kind(),
            ExprKind::Column(_) | ExprKind::Literal(_) | ExprKind::Dictionary { .. }
        );
        if leaf || !is_string(native.data_type()) {
            return Ok(native);
        }
        let columns = pure_columns(expression).unwrap_or_default();
        let fields: Vec<&Field> = columns.iter().map(|column| self.input.field(*column)).collect();
        let has_string = fields.iter().any(|field| is_string(field.data_type()));
        if columns.is_empty() || !(native.is_made() || has_string) {
            return Ok(native);
        }
        let data_type = native.data_type().clone();
        let function = HostFunction::new(renumbered(expression, &columns)?, &fields, data_type.clone());
        let arguments = (columns.iter().zip(&fields))
            .map(|(column, field)| Expr::column(*column, field.data_type().clone(), field.is_nullable()));
        let nullable = native.nullable();
        let kind = ExprKind::Hosted {
            function: Arc::new(function),
            arguments: arguments.collect(),
            native,
        };
        Ok(Expr::new(kind, data_type, nullable))
    }

    /// The two forms of an expression over one string column.
    fn over_dictionary(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        column: usize,
        data_type: DataType,
    ) -> Result<Expr, Reason> {
        let field = self.input.field(column);
        let function = HostFunction::new(renumbered(expression, &[column])?, &[field], data_type.clone());
        let native = self.native(expression, &data_type).ok();
        let argument = Expr::column(column, field.data_type().clone(), field.is_nullable());
        let nullable = self.nullable(expression)?;
        Ok(Expr::new(
            ExprKind::Dictionary {
                function: Arc::new(function),
                argument,
                native,
            },
            data_type,
            nullable,
        ))
    }

    /// A pure node without device code, as a function of its only non-constant operand, if that is a string
    /// expression.
    fn over_string(&self, expression: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Option<Expr> {
        let mut operands = expression
            .children()
            .into_iter()
            .filter(|child| self.constant(child).is_none());
        let (operand, None) = (operands.next()?, operands.next()) else {
            return None;
        };
        let operand_type = self.data_type(operand).ok().filter(is_string)?;
        // A computed string has no dictionary, so the function cannot be evaluated over its values.
        let argument = self.lower(operand).ok().filter(|operand| !operand.is_made())?;
        let field = Field::new("value", operand_type, true);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), 0));
        let children = expression
            .children()
            .into_iter()
            .map(|child| {
                Arc::clone(if Arc::ptr_eq(child, operand) {
                    &column
                } else {
                    child
                })
            })
            .collect();
        let function = Arc::clone(expression).with_new_children(children).ok()?;
        let function = Arc::new(HostFunction::new(function, &[&field], data_type.clone()));
        let nullable = self.nullable(expression).ok()?;
        Some(Expr::new(
            ExprKind::Dictionary {
                function,
                argument,
                native: None,
            },
            data_type.clone(),
            nullable,
        ))
    }

    fn data_type(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<DataType, Reason> {
        expression
            .data_type(self.input)
            .map_err(|error| Reason::Expression {
                expression: expression.to_string(),
                detail: error.to_string(),
            })
    }

    fn nullable(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<bool, Reason> {
        expression
            .nullable(self.input)
            .map_err(|error| Reason::Expression {
                expression: expression.to_string(),
                detail: error.to_string(),
            })
    }

    /// The value of an expression without columns.
    fn constant(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Some(literal.value().clone());
        }
        if !pure_columns(expression)?.is_empty() {
            return None;
        }
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
        match expression.evaluate(&batch).ok()? {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok(),
        }
    }

    /// Lowers the root by the kind of expression.
    fn native(&self, expression: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Result<Expr, Reason> {
        let nullable = self.nullable(expression)?;
        let node = |kind| Expr::new(kind, data_type.clone(), nullable);
        if let Some(column) = expression.downcast_ref::<Column>() {
            return Ok(Expr::column(column.index(), data_type.clone(), nullable));
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Ok(Expr::literal(literal.value().clone()));
        }
        if expression.is::<ScalarSubqueryExpr>() {
            let pending = PendingScalar::new(Arc::clone(expression));
            // A subquery may return no row.
            return Ok(Expr::new(ExprKind::Pending(pending), data_type.clone(), true));
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, data_type, nullable);
        }
        if let Some(not) = expression.downcast_ref::<NotExpr>() {
            return Ok(node(ExprKind::Not(self.lower(not.arg())?)));
        }
        if let Some(is_null) = expression.downcast_ref::<IsNullExpr>() {
            return Ok(node(ExprKind::IsNull(self.lower(is_null.arg())?)));
        }
        if let Some(is_not_null) = expression.downcast_ref::<IsNotNullExpr>() {
            return Ok(node(ExprKind::Not(node(ExprKind::IsNull(
                self.lower(is_not_null.arg())?,
            )))));
        }
        if let Some(negative) = expression.downcast_ref::<NegativeExpr>() {
            return Ok(node(ExprKind::Negate(self.lower(negative.arg())?)));
        }
        if let Some(case) = expression.downcast_ref::<CaseExpr>() {
            return self.case(case, data_type, nullable);
        }
        if let Some(in_list) = expression.downcast_ref::<InListExpr>() {
            return self.in_list(in_list, nullable);
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let safe = cast.cast_options().safe;
            return self.cast(cast.expr(), data_type, safe, nullable || safe);
        }
        if let Some(cast) = expression.downcast_ref::<TryCastExpr>() {
            return self.cast(cast.expr(), data_type, true, true);
        }
        if let Some(like) = expression.downcast_ref::<LikeExpr>() {
            return self.like(like, nullable);
        }
        if let Some(call) = expression.downcast_ref::<ScalarFunctionExpr>() {
            return self.function(call, data_type, nullable);
        }
        Err(Reason::Expression {
            expression: expression.to_string(),
            detail: "no device version of this kind".to_owned(),
        })
    }

    fn binary(&self, binary: &BinaryExpr, data_type: &DataType, nullable: bool) -> Result<Expr, Reason> {
        let node = |kind| Expr::new(kind, data_type.clone(), nullable);
        let (left_type, right_type) = (self.data_type(binary.left())?, self.data_type(binary.right())?);
        let refuse = || Reason::Operator {
            operator: binary.op().to_string(),
            left: left_type.clone(),
            right: right_type.clone(),
        };
        let operands = || Ok::<_, Reason>((self.lower(binary.left())?, self.lower(binary.right())?));
        if let Some(operator) = comparison(*binary.op()) {
            if !comparable(&left_type, &right_type) {
                return Err(refuse());
            }
            let (left, right) = operands()?;
            // DISTINCT is never NULL, but DataFusion declares it nullable if an operand is.
            return Ok(node(ExprKind::Compare {
                operator,
                left,
                right,
                equal_zeros: true,
            }));
        }
        if let Some(matched) = self.regex_match(binary, nullable) {
            return matched;
        }
        if *binary.op() == Operator::StringConcat {
            if !is_utf8(&left_type) || !is_utf8(&right_type) {
                return Err(refuse());
            }
            let (left, right) = operands()?;
            return Ok(node(ExprKind::Call {
                function: Function::Join { skips_nulls: false },
                arguments: vec![left, right],
            }));
        }
        let arithmetic = match binary.op() {
            Operator::And => {
                let (left, right) = operands()?;
                return Ok(node(ExprKind::And(left, right)));
            }
            Operator::Or => {
                let (left, right) = operands()?;
                return Ok(node(ExprKind::Or(left, right)));
            }
            Operator::Plus => Arithmetic::Add,
            Operator::Minus => Arithmetic::Subtract,
            Operator::Multiply => Arithmetic::Multiply,
            Operator::Divide => Arithmetic::Divide,
            Operator::Modulo => Arithmetic::Remainder,
            operator => {
                let Some(operator) = bitwise(*operator) else {
                    return Err(refuse());
                };
                if left_type != right_type || !left_type.is_integer() {
                    return Err(refuse());
                }
                let (left, right) = operands()?;
                return Ok(node(ExprKind::Bitwise {
                    operator,
                    left,
                    right,
                }));
            }
        };
        if left_type.is_temporal()
            || right_type.is_temporal()
            || is_interval(&left_type)
            || is_interval(&right_type)
        {
            return self
                .temporal(binary, arithmetic, data_type, nullable)
                .unwrap_or_else(|| Err(refuse()));
        }
        let same_kind = match (&left_type, &right_type) {
            (DataType::Decimal32(..), DataType::Decimal32(..))
            | (DataType::Decimal64(..), DataType::Decimal64(..))
            | (DataType::Decimal128(..), DataType::Decimal128(..)) => true,
            (left, right) => left == right && left.is_numeric(),
        };
        if !same_kind || !representable(&left_type) {
            return Err(refuse());
        }
        let (left, right) = operands()?;
        let exact = data_type.is_integer() || data_type.is_decimal();
        let checked = exact && is_checked(binary);
        Ok(node(ExprKind::Arithmetic {
            operator: arithmetic,
            left,
            right,
            checked,
        }))
    }

    fn cast(
        &self,
        input: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
        safe: bool,
        nullable: bool,
    ) -> Result<Expr, Reason> {
        let input = self.lower(input)?;
        if input.data_type() == data_type {
            return Ok(input);
        }
        if !super::emit::cast_supported(input.data_type(), data_type) {
            return Err(Reason::Cast {
                from: input.data_type().clone(),
                to: data_type.clone(),
            });
        }
        Ok(Expr::new(
            ExprKind::Cast { input, safe },
            data_type.clone(),
            nullable,
        ))
    }
}

fn cast(input: Expr, data_type: &DataType, safe: bool) -> Result<Expr, Reason> {
    if input.data_type() == data_type {
        return Ok(input);
    }
    if !super::emit::cast_supported(input.data_type(), data_type) {
        return Err(Reason::Cast {
            from: input.data_type().clone(),
            to: data_type.clone(),
        });
    }
    let nullable = input.nullable() || safe;
    Ok(Expr::new(
        ExprKind::Cast { input, safe },
        data_type.clone(),
        nullable,
    ))
}

/// NULL of a type.
fn typed_null(value: &ScalarValue, data_type: &DataType) -> Result<Expr, Reason> {
    let null = ScalarValue::try_new_null(data_type).map_err(|error| Reason::Expression {
        expression: value.to_string(),
        detail: error.to_string(),
    })?;
    Ok(Expr::literal(null))
}

/// The value of a scalar without its dictionary wrapping.
fn plain(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Dictionary(_, value) => *value,
        value => value,
    }
}

/// Whether the device compares values of the two types by representation.
fn comparable(left: &DataType, right: &DataType) -> bool {
    left == right && representable(left) || is_string(left) && is_string(right)
}

/// Whether a node fails on overflow. The flag has no accessor, so the node is compared with a copy that has
/// the flag.
pub fn is_checked(binary: &BinaryExpr) -> bool {
    *binary == binary.clone().with_fail_on_overflow(true)
}

/// The columns of a pure expression, which depends only on them, in order; `None` if it may depend on
/// anything else.
fn pure_columns(expression: &Arc<dyn PhysicalExpr>) -> Option<Vec<usize>> {
    let mut columns = std::collections::BTreeSet::new();
    let mut pure = true;
    let visited = expression.apply(|node| {
        if let Some(column) = node.downcast_ref::<Column>() {
            columns.insert(column.index());
        } else if let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() {
            pure &= call.fun().signature().volatility != Volatility::Volatile;
        } else {
            pure &= node.is::<Literal>()
                || node.is::<BinaryExpr>()
                || node.is::<CaseExpr>()
                || node.is::<CastExpr>()
                || node.is::<TryCastExpr>()
                || node.is::<StringCast>()
                || node.is::<Fallible>()
                || node.is::<InListExpr>()
                || node.is::<IsNullExpr>()
                || node.is::<IsNotNullExpr>()
                || node.is::<LikeExpr>()
                || node.is::<NegativeExpr>()
                || node.is::<NotExpr>();
        }
        Ok(if pure {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    (visited.is_ok() && pure).then(|| columns.into_iter().collect())
}
