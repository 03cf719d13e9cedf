//! Zone maps: finds the chunks that may hold a row that passes a filter.
//!
//! DataFusion's pruning predicate turns a filter into a condition on minima, maxima and null counts
//! (comparisons, BETWEEN, IN, IS NULL, LIKE with a prefix; anything else counts as maybe). The zones of the
//! chunks are its statistics. For dictionary columns equality is exact: a literal that is not in the
//! dictionary, or whose code is outside a chunk's codes, is not in the chunk.
//!
//! Columns are addressed by their index, because names need not be unique above a join. DataFusion's pruning
//! predicate looks up statistics by name, so predicates are rewritten to a schema in which the names are the
//! indices.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column as ColumnName, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use half::f16;

use crate::column::{Column, Scalar, Zone};
use crate::dictionary::{dictionary_bytes, dictionary_code};
use crate::source::TableView;

/// For each chunk of a table, whether it may hold rows for which all predicates are true.
///
/// The predicates' columns are those of [`TableView::schema`], by index. A predicate that cannot be evaluated
/// on zones keeps all chunks.
pub fn prune(view: &TableView, predicates: &[Arc<dyn PhysicalExpr>]) -> Vec<bool> {
    let statistics = ZoneStatistics {
        chunk_rows: &view.chunk_rows,
        columns: &view.columns,
    };
    prune_with(&view.schema, &statistics, predicates)
}

/// Like [`prune`], for predicates over `schema`. The statistics name its columns by their index.
pub(crate) fn prune_with(
    schema: &SchemaRef,
    statistics: &impl PruningStatistics,
    predicates: &[Arc<dyn PhysicalExpr>],
) -> Vec<bool> {
    let mut keep = vec![true; statistics.num_containers()];
    for predicate in predicates {
        let pruned = by_index(schema, predicate)
            .and_then(|predicate| {
                PruningPredicateBuilder::new()
                    .with_file_schema(named_by_index(schema))
                    .try_build(predicate)
            })
            .and_then(|predicate| predicate.prune(statistics));
        match pruned {
            Ok(pruned) => keep.iter_mut().zip(pruned).for_each(|(keep, may)| *keep &= may),
            Err(error) => tracing::debug!(%predicate, %error, "the zones cannot judge a predicate"),
        }
    }
    keep
}

/// The schema with the index of each column as its name.
fn named_by_index(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let fields = fields
        .map(|(index, field)| Field::new(index.to_string(), field.data_type().clone(), field.is_nullable()));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The predicate over the columns of [`named_by_index`], simplified: DataFusion does not recognise literals
/// under casts as literals.
pub(crate) fn by_index(
    schema: &SchemaRef,
    predicate: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let rename = |expr: Arc<dyn PhysicalExpr>| {
        Ok(match expr.downcast_ref::<ColumnExpr>().map(ColumnExpr::index) {
            Some(index) => {
                Transformed::yes(Arc::new(ColumnExpr::new(&index.to_string(), index)) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(expr),
        })
    };
    let named = Arc::clone(predicate).transform(rename).data()?;
    PhysicalExprSimplifier::new(&named_by_index(schema)).simplify(named)
}

/// Zones as DataFusion's statistics. Columns are named by their index.
pub(crate) struct ZoneStatistics<'a> {
    pub(crate) chunk_rows: &'a [u32],
    pub(crate) columns: &'a [Arc<Column>],
}

impl ZoneStatistics<'_> {
    fn column(&self, name: &ColumnName) -> Option<&Column> {
        let index: usize = name.name.parse().ok()?;
        self.columns.get(index).map(Arc::as_ref)
    }

    fn bounds(&self, name: &ColumnName, side: fn(&Column, &Zone) -> Option<ScalarValue>) -> Option<ArrayRef> {
        let column = self.column(name)?;
        if column.chunks.is_empty() {
            return None;
        }
        let unknown = ScalarValue::try_from(&column.data_type).ok()?;
        let values = column
            .chunks
            .iter()
            .map(|chunk| side(column, &chunk.zone).unwrap_or_else(|| unknown.clone()));
        ScalarValue::iter_to_array(values).ok()
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        self.bounds(column, lower)
    }

    fn max_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        self.bounds(column, upper)
    }

    fn num_containers(&self) -> usize {
        self.chunk_rows.len()
    }

    fn null_counts(&self, column: &ColumnName) -> Option<ArrayRef> {
        let column = self.column(column)?;
        let counts = column.chunks.iter().map(|chunk| u64::from(chunk.zone.null_count));
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(
            self.chunk_rows.iter().map(|rows| u64::from(*rows)),
        )))
    }

    fn contained(&self, column: &ColumnName, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let column = self.column(column)?;
        let dictionary = column.dictionary()?;
        let codes = values
            .iter()
            .map(|value| match scalar_bytes(value)? {
                None => Some(None),
                Some(bytes) => Some(dictionary_code(dictionary, bytes)),
            })
            .collect::<Option<Vec<Option<usize>>>>()?;
        let absent = column.chunks.iter().map(|chunk| {
            let (Some(Scalar::Integer(min)), Some(Scalar::Integer(max))) = (&chunk.zone.min, &chunk.zone.max)
            else {
                return None;
            };
            let possible = codes
                .iter()
                .flatten()
                .any(|code| (*min..=*max).contains(&(*code as i128)));
            (!possible).then_some(false)
        });
        Some(absent.collect())
    }
}

/// The bytes of a string or binary literal (`Some(None)` for NULL); none for other types.
#[expect(
    clippy::option_option,
    reason = "the outer option is the type's, the inner the value's"
)]
fn scalar_bytes(value: &ScalarValue) -> Option<Option<&[u8]>> {
    match value {
        ScalarValue::Utf8(value) | ScalarValue::LargeUtf8(value) | ScalarValue::Utf8View(value) => {
            Some(value.as_deref().map(str::as_bytes))
        }
        ScalarValue::Binary(value) | ScalarValue::LargeBinary(value) | ScalarValue::BinaryView(value) => {
            Some(value.as_deref())
        }
        ScalarValue::Dictionary(_, value) => scalar_bytes(value),
        _ => None,
    }
}

/// A zone's lower bound in the order of SQL comparisons: a NaN could be on either side, and both zeros are
/// equal.
fn lower(column: &Column, zone: &Zone) -> Option<ScalarValue> {
    match zone.min.as_ref()? {
        Scalar::Float(_) if zone.has_nan => None,
        Scalar::Float(0.0) => scalar_value(column, &Scalar::Float(-0.0)),
        bound => scalar_value(column, bound),
    }
}

/// A zone's upper bound, see [`lower`].
fn upper(column: &Column, zone: &Zone) -> Option<ScalarValue> {
    match zone.max.as_ref()? {
        Scalar::Float(_) if zone.has_nan => None,
        Scalar::Float(0.0) => scalar_value(column, &Scalar::Float(0.0)),
        bound => scalar_value(column, bound),
    }
}

/// A bound as a value of the column's type.
pub(crate) fn scalar_value(column: &Column, bound: &Scalar) -> Option<ScalarValue> {
    match (bound, column.dictionary()) {
        (Scalar::Integer(code), Some(dictionary)) => bytes_value(
            &column.data_type,
            dictionary_bytes(dictionary, usize::try_from(*code).ok()?)?,
        ),
        (Scalar::Integer(value), None) => integer_value(&column.data_type, *value),
        (Scalar::Float(value), _) => Some(float_value(&column.data_type, *value)),
        (Scalar::Bytes(value), _) => bytes_value(&column.data_type, value),
    }
}

fn bytes_value(data_type: &DataType, value: &[u8]) -> Option<ScalarValue> {
    let text = || std::str::from_utf8(value).ok().map(str::to_owned).map(Some);
    Some(match data_type {
        DataType::Utf8 => ScalarValue::Utf8(text()?),
        DataType::LargeUtf8 => ScalarValue::LargeUtf8(text()?),
        DataType::Utf8View => ScalarValue::Utf8View(text()?),
        DataType::Binary => ScalarValue::Binary(Some(value.to_vec())),
        DataType::LargeBinary => ScalarValue::LargeBinary(Some(value.to_vec())),
        DataType::BinaryView => ScalarValue::BinaryView(Some(value.to_vec())),
        DataType::Dictionary(key, values) => {
            ScalarValue::Dictionary(key.clone(), Box::new(bytes_value(values, value)?))
        }
        _ => return None,
    })
}

fn float_value(data_type: &DataType, value: f64) -> ScalarValue {
    match data_type {
        DataType::Float16 => ScalarValue::Float16(Some(f16::from_f64(value))),
        DataType::Float32 => ScalarValue::Float32(Some(value as f32)),
        DataType::Dictionary(key, values) => {
            ScalarValue::Dictionary(key.clone(), Box::new(float_value(values, value)))
        }
        _ => ScalarValue::Float64(Some(value)),
    }
}

fn integer_value(data_type: &DataType, value: i128) -> Option<ScalarValue> {
    let int32 = || i32::try_from(value).ok().map(Some);
    let int64 = || i64::try_from(value).ok().map(Some);
    Some(match data_type {
        DataType::Boolean => ScalarValue::Boolean(Some(value != 0)),
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(int32()?),
        DataType::Int64 => ScalarValue::Int64(int64()?),
        DataType::UInt8 => ScalarValue::UInt8(Some(value.try_into().ok()?)),
        DataType::UInt16 => ScalarValue::UInt16(Some(value.try_into().ok()?)),
        DataType::UInt32 => ScalarValue::UInt32(Some(value.try_into().ok()?)),
        DataType::UInt64 => ScalarValue::UInt64(Some(value.try_into().ok()?)),
        DataType::Date32 => ScalarValue::Date32(int32()?),
        DataType::Date64 => ScalarValue::Date64(int64()?),
        DataType::Time32(TimeUnit::Second) => ScalarValue::Time32Second(int32()?),
        DataType::Time32(_) => ScalarValue::Time32Millisecond(int32()?),
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(int64()?),
        DataType::Time64(_) => ScalarValue::Time64Nanosecond(int64()?),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.clone();
            match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(int64()?, zone),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(int64()?, zone),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(int64()?, zone),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(int64()?, zone),
            }
        }
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => ScalarValue::DurationSecond(int64()?),
            TimeUnit::Millisecond => ScalarValue::DurationMillisecond(int64()?),
            TimeUnit::Microsecond => ScalarValue::DurationMicrosecond(int64()?),
            TimeUnit::Nanosecond => ScalarValue::DurationNanosecond(int64()?),
        },
        DataType::Decimal32(precision, scale) => ScalarValue::Decimal32(int32()?, *precision, *scale),
        DataType::Decimal64(precision, scale) => ScalarValue::Decimal64(int64()?, *precision, *scale),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(value), *precision, *scale),
        DataType::Dictionary(key, values) => {
            ScalarValue::Dictionary(key.clone(), Box::new(integer_value(values, value)?))
        }
        _ => return None,
    })
}
