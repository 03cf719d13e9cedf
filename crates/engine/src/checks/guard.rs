//! Operands that are evaluated for the rows that need them.
//!
//! DataFusion evaluates both operands of AND and OR for all rows of a batch, unless the left one decides all
//! or most of them, and the arguments of an aggregate for rows that its FILTER drops. Which rows raise an
//! error then depends on the batch. A guarded expression is evaluated as DataFusion does first; only when
//! that fails, the operand is evaluated again, for the rows that need it. So guards cost nothing where no
//! row raises an error. Needed as long as apache/datafusion evaluates operands for rows that do not need
//! them (`datafusion_evaluates_decided_operands` fails when it does not).

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

use crate::expression::widens;

/// When an operand's value is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Needed {
    /// Where the other operand of AND is not false.
    And,
    /// Where the other operand of OR is not true.
    Or,
    /// Where a condition is not false; elsewhere that condition drops the row.
    Unless,
    /// Where a condition is true; elsewhere nobody reads the value.
    Where,
}

impl Needed {
    /// Whether the value is that of the operand.
    fn is_operand(self) -> bool {
        matches!(self, Self::Where | Self::Unless)
    }
}

/// An expression one of whose operands is needed for some rows alone.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    needed: Needed,
    condition: PhysicalExprRef,
    operand: PhysicalExprRef,
    /// The same for all rows.
    whole: PhysicalExprRef,
}

impl Guarded {
    /// AND or OR, whose right operand is evaluated where the left one leaves it open; `None` of other
    /// operators, and where the right operand raises no error.
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
        })
    }

    /// A condition of a filter whose `leading` conditions are evaluated by themselves, too.
    pub(super) fn condition(leading: &PhysicalExprRef, condition: &PhysicalExprRef) -> Self {
        Self {
            needed: Needed::Unless,
            condition: Arc::clone(leading),
            operand: Arc::clone(condition),
            whole: Arc::clone(condition),
        }
    }

    fn guarded(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let condition = self.condition.evaluate(batch)?.into_array(rows)?;
        let condition = as_boolean_array(&condition)?;
        let needs = |value: Option<bool>| match self.needed {
            Needed::And | Needed::Unless => value != Some(false),
            Needed::Or => value != Some(true),
            Needed::Where => value == Some(true),
        };
        let needing = BooleanArray::from_iter(condition.iter().map(|value| Some(needs(value))));
        let value = self.operand.evaluate_selection(batch, &needing)?;
        if self.needed.is_operand() {
            return Ok(value);
        }
        let value = value.into_array(rows)?;
        let value = as_boolean_array(&value)?;
        let result = match self.needed {
            Needed::And => and_kleene(condition, value)?,
            _ => or_kleene(condition, value)?,
        };
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}

/// Whether evaluating the expression for a row may raise an error.
pub(super) fn may_raise(expression: &PhysicalExprRef, schema: &Schema) -> bool {
    let own = if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        !(binary.op().is_logic_operator() || binary.op().supports_propagation())
    } else if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        let to = cast.cast_type();
        let fits =
            from.is_ok_and(|from| from == *to || widens(&from, to) || from.is_integer() && to.is_floating());
        !fits
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
        self.whole.evaluate(batch).or_else(|_| self.guarded(batch))
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
            condition,
            operand,
            whole,
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt_sql(f)
    }
}
