//! Operands that are evaluated only for the rows that need them.
//!
//! DataFusion evaluates both operands of AND and OR for all rows of a batch, unless the left one decides all
//! or most of them, and the arguments of an aggregate for rows that its FILTER rejects. The rows that raise
//! an error then depend on the batch. A guarded operand is evaluated for all rows first; only if that fails,
//! it is evaluated again, for the rows that need it. So guards cost nothing if no row raises an error. Needed
//! while apache/datafusion evaluates operands for rows that do not need them
//! (`datafusion_does_not_short_circuit_operands` fails once it does not).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{and_kleene, or_kleene};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};

use galatea_expression::never_fails;

/// When a row needs an operand's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Needed {
    /// If the other operand of AND is not false.
    And,
    /// If the other operand of OR is not true.
    Or,
    /// If a condition is not false; it rejects the other rows.
    Unless,
    /// If a condition is true; the value is not read for other rows.
    Where,
}

impl Needed {
    /// Whether the value is that of the operand.
    fn is_operand(self) -> bool {
        matches!(self, Self::Where | Self::Unless)
    }
}

/// An expression with an operand that only some rows need.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    needed: Needed,
    condition: PhysicalExprRef,
    operand: PhysicalExprRef,
    /// The unguarded expression, for all rows.
    whole: PhysicalExprRef,
    /// Whether the operand has guarded operands itself.
    nested: bool,
}

impl Guarded {
    /// AND or OR, with a right operand that is evaluated for rows that the left one does not decide; `None`
    /// for other operators, and if the right operand raises no error.
    pub(super) fn logical(binary: &BinaryExpr, schema: &Schema) -> Option<Self> {
        let needed = match binary.op() {
            Operator::And => Needed::And,
            Operator::Or => Needed::Or,
            _ => return None,
        };
        may_raise(binary.right(), schema).then(|| Self {
            needed,
            condition: Arc::clone(binary.left()),
            operand: Arc::clone(binary.right()),
            whole: Arc::new(binary.clone()),
            nested: has_guards(binary.right()),
        })
    }

    /// An argument of an aggregate with FILTER.
    pub(super) fn argument(
        condition: &PhysicalExprRef,
        operand: &PhysicalExprRef,
        schema: &Schema,
    ) -> Option<Self> {
        may_raise(operand, schema).then(|| Self {
            needed: Needed::Where,
            condition: Arc::clone(condition),
            operand: Arc::clone(operand),
            whole: Arc::clone(operand),
            nested: has_guards(operand),
        })
    }

    /// A condition of a filter, evaluated for the rows that the `leading` conditions do not reject. The
    /// filter evaluates these separately, too.
    pub(super) fn condition(leading: &PhysicalExprRef, condition: &PhysicalExprRef) -> Self {
        Self {
            needed: Needed::Unless,
            condition: Arc::clone(leading),
            operand: Arc::clone(condition),
            whole: Arc::clone(condition),
            nested: has_guards(condition),
        }
    }

    /// Whether the expression is a condition with leading conditions that are evaluated separately.
    pub(super) fn is_condition(&self) -> bool {
        self.needed == Needed::Unless
    }

    /// The value of the operand for rows that the condition does not decide; NULL for others.
    fn operand_where(&self, condition: &BooleanArray, batch: &RecordBatch) -> Result<ColumnarValue> {
        let needs = |value: Option<bool>| match self.needed {
            Needed::And | Needed::Unless => value != Some(false),
            Needed::Or => value != Some(true),
            Needed::Where => value == Some(true),
        };
        let needing = BooleanArray::from_iter(condition.iter().map(|value| Some(needs(value))));
        self.operand.evaluate_selection(batch, &needing)
    }

    /// The operand for the rows of a batch: all of them if that raises no error, or else those that need it.
    fn operand(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.operand.evaluate(batch).or_else(|_| {
            let condition = self.condition.evaluate(batch)?.into_array(batch.num_rows())?;
            self.operand_where(as_boolean_array(&condition)?, batch)
        })
    }

    /// AND or OR. Each operand is evaluated once, or twice if it guards nothing itself: otherwise a chain of
    /// them would take exponential time.
    fn logical_value(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let condition = self.condition.evaluate(batch)?.into_array(rows)?;
        let condition = as_boolean_array(&condition)?;
        let decided = match self.needed {
            Needed::Or => condition.true_count(),
            _ => condition.false_count(),
        };
        if decided == rows {
            return Ok(ColumnarValue::Array(Arc::new(condition.clone())));
        }
        let value = match decided {
            0 => self.operand.evaluate(batch)?,
            _ if self.nested || decided > rows / 5 * 4 => self.operand_where(condition, batch)?,
            _ => (self.operand.evaluate(batch)).or_else(|_| self.operand_where(condition, batch))?,
        };
        let value = value.into_array(rows)?;
        let value = as_boolean_array(&value)?;
        let result = match self.needed {
            Needed::Or => or_kleene(condition, value)?,
            _ => and_kleene(condition, value)?,
        };
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}

/// Whether operands in the expression are guarded.
fn has_guards(expression: &PhysicalExprRef) -> bool {
    expression.is::<Guarded>() || expression.children().into_iter().any(has_guards)
}

/// Whether evaluating the expression for a row may raise an error.
pub(crate) fn may_raise(expression: &PhysicalExprRef, schema: &Schema) -> bool {
    let own = if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        !(binary.op().is_logic_operator() || binary.op().supports_propagation())
    } else if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        !never_fails(cast, schema)
    } else if let Some(guarded) = expression.downcast_ref::<Guarded>() {
        return may_raise(&guarded.condition, schema) || may_raise(&guarded.operand, schema);
    } else {
        let never = expression.is::<Column>()
            || expression.is::<Literal>()
            || expression.is::<IsNullExpr>()
            || expression.is::<IsNotNullExpr>()
            || expression.is::<NotExpr>()
            || expression.is::<InListExpr>()
            || expression.is::<LikeExpr>();
        !never
    };
    own || expression
        .children()
        .into_iter()
        .any(|child| may_raise(child, schema))
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.needed == other.needed && self.condition.eq(&other.condition) && self.operand.eq(&other.operand)
    }
}

impl Eq for Guarded {}

impl Hash for Guarded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.needed.hash(state);
        self.condition.hash(state);
        self.operand.hash(state);
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt(f)
    }
}

impl PhysicalExpr for Guarded {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.whole.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.whole.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.whole.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.needed.is_operand() {
            true => self.operand(batch),
            false => self.logical_value(batch),
        }
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.condition, &self.operand]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        let [condition, operand] = <[_; 2]>::try_from(children).map_err(|_| {
            datafusion::common::internal_datafusion_err!("a guarded expression has two children")
        })?;
        let whole = match self.needed {
            needed if needed.is_operand() => Arc::clone(&operand),
            _ => Arc::clone(&self.whole)
                .with_new_children(vec![Arc::clone(&condition), Arc::clone(&operand)])?,
        };
        Ok(Arc::new(Self {
            needed: self.needed,
            nested: self.nested,
            condition,
            operand,
            whole,
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt_sql(f)
    }
}
