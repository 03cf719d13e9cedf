//! Expressions over one string, evaluated by DataFusion for each value of a dictionary.
//!
//! The order-preserving dictionary of a column has every distinct string once, so a function of the string
//! alone needs one evaluation per distinct value rather than one per row, and the device needs no version of
//! the function: it reads a table by code. NULL is one more input, after the values, because `coalesce(s,
//! 'x')` or `s IS NULL` are functions too.
//!
//! A value that raises an error raises it only for rows that have the value, hence the evaluation in ever
//! smaller parts after a failure.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use hashbrown::{HashMap, HashSet};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::reason::Reason;

/// The sorted distinct strings that codes number. Millions of them are compared whenever a query comes again,
/// and are the same then.
#[derive(Debug, Clone)]
pub(crate) struct CodedStrings(pub(crate) ArrayRef);

impl PartialEq for CodedStrings {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl Deref for CodedStrings {
    type Target = ArrayRef;

    fn deref(&self) -> &ArrayRef {
        &self.0
    }
}

/// A deterministic function of one string, made of DataFusion's expressions.
#[derive(Debug)]
pub struct HostFunction {
    /// Over `schema`, a single nullable column.
    expression: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    result_type: DataType,
}

impl PartialEq for HostFunction {
    fn eq(&self, other: &Self) -> bool {
        self.expression.as_ref() == other.expression.as_ref() && self.schema == other.schema
    }
}

impl Eq for HostFunction {}

impl Hash for HostFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expression.hash(state);
        self.result_type.hash(state);
    }
}

impl fmt::Display for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = Arc::clone(&self.expression).transform(|part| {
            let literal = part
                .downcast_ref::<Literal>()
                .and_then(|literal| literal.value().try_as_str().flatten());
            let Some(text) = literal else {
                return Ok(Transformed::no(part));
            };
            let quoted = format!("'{}'", text.replace('\'', "''"));
            Ok(Transformed::yes(
                Arc::new(Literal::new(quoted.into())) as Arc<dyn PhysicalExpr>
            ))
        });
        let expression = quoted.map_or_else(|_| Arc::clone(&self.expression), |quoted| quoted.data);
        write!(f, "{}", fmt_sql(expression.as_ref()))
    }
}

/// Inputs that one thread evaluates at once.
const PIECE: usize = 1 << 14;

/// A function evaluated for many inputs.
#[derive(Debug)]
pub(crate) struct Evaluated {
    /// One result per input; NULL where `errors` has an error.
    pub(crate) results: ArrayRef,
    /// Error per input; empty if there is none at all.
    pub(crate) errors: Vec<Option<String>>,
}

impl HostFunction {
    /// The function that `expression` is of its only column, number 0, which has the name and type of
    /// `field`.
    pub(crate) fn new(expression: Arc<dyn PhysicalExpr>, field: &Field, result_type: DataType) -> Self {
        let field = field.clone().with_nullable(true);
        Self {
            expression,
            schema: Arc::new(Schema::new(vec![field])),
            result_type,
        }
    }

    /// Type of the results.
    #[must_use]
    pub fn result_type(&self) -> &DataType {
        &self.result_type
    }

    /// Evaluates the function for each of `inputs`, strings or binary.
    pub(crate) fn evaluate(&self, inputs: &ArrayRef) -> Result<Evaluated, Reason> {
        let input_type = self.schema.field(0).data_type();
        let refuse = |error: ArrowError| Reason::Expression {
            expression: self.to_string(),
            detail: error.to_string(),
        };
        let inputs = cast(inputs, input_type).map_err(refuse)?;
        let starts: Vec<usize> = (0..inputs.len().max(1)).step_by(PIECE).collect();
        let pieces = starts.into_par_iter().map(|start| {
            let piece = inputs.slice(start, PIECE.min(inputs.len() - start));
            let (mut results, mut errors) = (Vec::new(), Vec::with_capacity(piece.len()));
            self.evaluate_parts(&piece, &mut results, &mut errors);
            (results, errors)
        });
        let (results, errors): (Vec<_>, Vec<_>) = pieces.unzip();
        let mut errors: Vec<Option<String>> = errors.into_iter().flatten().collect();
        if errors.iter().all(Option::is_none) {
            errors.clear();
        }
        let results: Vec<&dyn Array> = results.iter().flatten().map(AsRef::as_ref).collect();
        let results = concat(&results).map_err(refuse)?;
        Ok(Evaluated { results, errors })
    }

    /// Evaluates inputs together, or in halves if some of them raise errors.
    fn evaluate_parts(
        &self,
        inputs: &ArrayRef,
        results: &mut Vec<ArrayRef>,
        errors: &mut Vec<Option<String>>,
    ) {
        match (self.evaluate_all(inputs), inputs.len()) {
            (Ok(result), len) => {
                results.push(result);
                errors.resize(errors.len() + len, None);
            }
            (Err(error), len @ 0..=1) => {
                results.push(new_null_array(&self.result_type, len));
                errors.resize(errors.len() + len, Some(error));
            }
            (Err(_), len) => {
                self.evaluate_parts(&inputs.slice(0, len / 2), results, errors);
                self.evaluate_parts(&inputs.slice(len / 2, len - len / 2), results, errors);
            }
        }
    }

    fn evaluate_all(&self, input: &ArrayRef) -> Result<ArrayRef, String> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::clone(input)])
            .map_err(|error| error.to_string())?;
        let result = self
            .expression
            .evaluate(&batch)
            .map_err(|error| error.to_string())?;
        let result = result
            .into_array(input.len())
            .map_err(|error| error.to_string())?;
        if result.data_type() == &self.result_type {
            return Ok(result);
        }
        cast(&result, &self.result_type).map_err(|error| error.to_string())
    }
}

/// The expression with its column `column` called 0.
pub(crate) fn renumbered(
    expression: &Arc<dyn PhysicalExpr>,
    column: usize,
) -> Result<Arc<dyn PhysicalExpr>, Reason> {
    let renumbered = Arc::clone(expression).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(found) if found.index() == column => {
                Transformed::yes(Arc::new(Column::new(found.name(), 0)) as Arc<dyn PhysicalExpr>)
            }
            _ => Transformed::no(node),
        })
    });
    renumbered
        .map(|expression| expression.data)
        .map_err(|error| Reason::Expression {
            expression: expression.to_string(),
            detail: error.to_string(),
        })
}

/// The values of a dictionary, and NULL after them.
pub(crate) fn with_null(values: &ArrayRef) -> Result<ArrayRef, Reason> {
    let null = new_null_array(values.data_type(), 1);
    concat(&[values.as_ref(), null.as_ref()]).map_err(|error| Reason::Expression {
        expression: "dictionary".to_owned(),
        detail: error.to_string(),
    })
}

/// Strings and binary values as bytes.
pub(crate) struct Bytes(LargeBinaryArray);

impl Bytes {
    pub(crate) fn of(values: &ArrayRef) -> Result<Self, Reason> {
        let refuse = |error: ArrowError| Reason::Expression {
            expression: "dictionary".to_owned(),
            detail: error.to_string(),
        };
        let plain = match values.data_type() {
            DataType::Dictionary(_, inner) => cast(values, inner).map_err(refuse)?,
            _ => Arc::clone(values),
        };
        let large = match plain.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                cast(&plain, &DataType::LargeUtf8).map_err(refuse)?
            }
            _ => plain,
        };
        let large = cast(&large, &DataType::LargeBinary).map_err(refuse)?;
        Ok(Self(large.as_binary::<i64>().clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Value `index`; `None` if it is NULL.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        self.0.is_valid(index).then(|| self.0.value(index))
    }

    /// Whether `bytes` is among sorted values, and the number of values that are less.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.0.value(middle).cmp(bytes) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
}

/// The sorted distinct values among `inputs`, as an array of the plain type like `like`, and the rank of
/// every input (0 for NULL).
///
/// Values are told apart by hashing first, because most columns repeat a few; only distinct ones are sorted.
pub(crate) fn ranked(inputs: &[&Bytes], like: &DataType) -> Result<(ArrayRef, Vec<Vec<u32>>), Reason> {
    let pieces: Vec<(&Bytes, usize)> = (inputs.iter())
        .flat_map(|bytes| (0..bytes.len()).step_by(PIECE).map(|start| (*bytes, start)))
        .collect();
    let mut distinct: Vec<&[u8]> = (pieces.into_par_iter())
        .flat_map_iter(|(bytes, start)| {
            let end = (start + PIECE).min(bytes.len());
            let values = (start..end).filter_map(|index| bytes.get(index));
            values.collect::<HashSet<&[u8]>>()
        })
        .collect();
    distinct.par_sort_unstable();
    distinct.dedup();
    let numbers = distinct.iter().enumerate();
    let numbers: HashMap<&[u8], u32> = numbers.map(|(rank, value)| (*value, rank as u32)).collect();
    let rank = |value: &[u8]| numbers.get(value).copied().unwrap_or(0);
    let ranks = (inputs.iter())
        .map(|bytes| {
            let indices = (0..bytes.len()).into_par_iter();
            indices.map(|index| bytes.get(index).map_or(0, rank)).collect()
        })
        .collect();
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(&distinct));
    let plain = match like {
        DataType::Dictionary(_, inner) => inner.as_ref(),
        other => other,
    };
    let small = distinct.iter().map(|value| value.len()).sum::<usize>() < i32::MAX as usize;
    let target = match (crate::expression::text::is_utf8(plain), small) {
        (true, true) => DataType::Utf8,
        (true, false) => DataType::LargeUtf8,
        (false, true) => DataType::Binary,
        (false, false) => DataType::LargeBinary,
    };
    let refuse = |error: ArrowError| Reason::Expression {
        expression: "dictionary".to_owned(),
        detail: error.to_string(),
    };
    let values = match target {
        DataType::Utf8 => cast(
            &cast(&values, &DataType::LargeUtf8).map_err(refuse)?,
            &DataType::Utf8,
        ),
        other => cast(&values, &other),
    };
    Ok((values.map_err(refuse)?, ranks))
}
