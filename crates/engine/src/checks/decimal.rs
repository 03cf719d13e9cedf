//! Decimals with a check of their number of digits.
//!
//! Arrow's arithmetic on decimals fails if the machine integer overflows, and permits results with more
//! digits than their type: such a decimal is printed without its last digit. Only types with the maximum
//! number of digits can be exceeded, since others have room for every result. Needed while DataFusion's
//! arithmetic does not count digits (`datafusion_does_not_check_decimal_precision` fails once it does).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, FieldRef, Schema,
};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};

use galatea_expression::{Origin, RowError, bare};

/// An expression that fails for values with more digits than their type.
#[derive(Debug, Clone)]
pub(super) struct CountedDigits {
    input: PhysicalExprRef,
}

impl CountedDigits {
    pub(super) fn new(input: PhysicalExprRef) -> Self {
        Self { input }
    }
}

impl PartialEq for CountedDigits {
    fn eq(&self, other: &Self) -> bool {
        self.input.eq(&other.input)
    }
}

impl Eq for CountedDigits {}

impl Hash for CountedDigits {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
    }
}

impl fmt::Display for CountedDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)
    }
}

impl PhysicalExpr for CountedDigits {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.input.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.input.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.input.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let value = self.input.evaluate(batch)?;
        let array = match &value {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let fits = match array.data_type() {
            DataType::Decimal32(precision, _) => array
                .as_primitive::<Decimal32Type>()
                .validate_decimal_precision(*precision),
            DataType::Decimal64(precision, _) => array
                .as_primitive::<Decimal64Type>()
                .validate_decimal_precision(*precision),
            DataType::Decimal128(precision, _) => array
                .as_primitive::<Decimal128Type>()
                .validate_decimal_precision(*precision),
            DataType::Decimal256(precision, _) => array
                .as_primitive::<Decimal256Type>()
                .validate_decimal_precision(*precision),
            _ => Ok(()),
        };
        fits.map_err(|_| RowError::overflow(Origin::new(&bare(&self.input)), array.data_type()))?;
        Ok(value)
    }

    fn children(&self) -> Vec<&PhysicalExprRef> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<PhysicalExprRef>) -> Result<PhysicalExprRef> {
        Ok(Arc::new(Self::new(Arc::clone(&children[0]))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt_sql(f)
    }
}
