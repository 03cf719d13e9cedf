//! Functions that DataFusion evaluates: of dictionary values, and of returned values.
//!
//! The order-preserving dictionary of a column contains every distinct string once. So a function of a single
//! string needs one evaluation per distinct value rather than one per row, and no device code: the device
//! reads a table by code. NULL is one more input, after the values, because `coalesce(s, 'x')` and `s IS
//! NULL` are functions too.
//!
//! Functions of returned strings without a dictionary, or of several values, are evaluated when the rows are
//! gathered, only for the rows that passed ([`ExprKind::Hosted`](super::ExprKind::Hosted)).
//!
//! A value that raises an error does so only for rows that contain the value. Therefore inputs are evaluated
//! in ever smaller parts after a failure.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::error::{Fault, RowError};
use super::fallible::name_errors;
use super::sql::with_sql_constants;
use galatea_base::reason::Reason;
use galatea_device::in_parallel;

/// A deterministic function of one or more values, as a DataFusion expression.
#[derive(Debug)]
pub struct HostFunction {
    /// The expression over `schema`. All columns are nullable.
    expression: Arc<dyn PhysicalExpr>,
    /// The same expression, with operations that add their expression to errors.
    named: Arc<dyn PhysicalExpr>,
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
        let expression = with_sql_constants(&self.expression);
        write!(f, "{}", fmt_sql(expression.as_ref()))
    }
}

/// Number of inputs that one thread evaluates at a time.
const PIECE: usize = 1 << 14;

/// Results of a function for a list of inputs.
#[derive(Debug)]
pub struct Evaluated {
    /// One result per input; NULL for inputs with an error.
    pub results: ArrayRef,
    /// One error per input; empty if no input has one.
    pub errors: Vec<Option<RowError>>,
}

impl HostFunction {
    /// The function `expression` of its columns, which have the names and types of `fields`.
    pub fn new(expression: Arc<dyn PhysicalExpr>, fields: &[&Field], result_type: DataType) -> Self {
        let fields = fields.iter().map(|field| (*field).clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let named = name_errors(&expression, &schema, &|_| None).ok().flatten();
        Self {
            named: named.unwrap_or_else(|| Arc::clone(&expression)),
            expression,
            schema,
            result_type,
        }
    }

    /// The expression over its arguments.
    #[must_use]
    pub fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    /// Type of the results.
    #[must_use]
    pub fn result_type(&self) -> &DataType {
        &self.result_type
    }

    /// Evaluates the function for each row of `inputs`, which contains an array for each argument.
    pub fn evaluate(&self, inputs: &[ArrayRef]) -> Result<Evaluated, Reason> {
        let rows = inputs.first().map_or(0, Array::len);
        let starts = (0..rows.max(1)).step_by(PIECE);
        self.evaluate_pieces(
            starts
                .map(|start| sliced(inputs, start, PIECE.min(rows - start)))
                .collect(),
        )
    }

    /// Evaluates a function of one argument for each of `values`, and for NULL after them.
    pub(crate) fn evaluate_with_null(&self, values: &ArrayRef) -> Result<Evaluated, Reason> {
        let starts = (0..values.len()).step_by(PIECE);
        let pieces = starts.map(|start| vec![values.slice(start, PIECE.min(values.len() - start))]);
        let null = vec![new_null_array(values.data_type(), 1)];
        self.evaluate_pieces(pieces.chain([null]).collect())
    }

    /// Evaluates the function for all pieces, each on one thread.
    fn evaluate_pieces(&self, pieces: Vec<Vec<ArrayRef>>) -> Result<Evaluated, Reason> {
        let refuse = |error: ArrowError| Reason::Expression {
            expression: self.to_string(),
            detail: error.to_string(),
        };
        let pieces = pieces.into_par_iter().map(|piece| {
            let inputs = (piece.iter().zip(self.schema.fields()))
                .map(|(input, field)| cast(input, field.data_type()))
                .collect::<Result<Vec<_>, _>>()?;
            let (mut results, mut errors) = (Vec::new(), Vec::new());
            self.evaluate_parts(&inputs, &mut results, &mut errors);
            let rows = errors.len();
            // A list of millions of missing errors is dropped.
            if errors.iter().all(Option::is_none) {
                errors = Vec::new();
            }
            Ok((results, (rows, errors)))
        });
        let pieces = in_parallel(|| pieces.collect::<Result<Vec<_>, _>>()).map_err(refuse)?;
        let (results, errors): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        let mut all = Vec::new();
        if errors.iter().any(|(_, errors)| !errors.is_empty()) {
            for (rows, errors) in errors {
                let end = all.len() + rows;
                all.extend(errors);
                all.resize(end, None);
            }
        }
        let results: Vec<&dyn Array> = results.iter().flatten().map(AsRef::as_ref).collect();
        let results = concat(&results).map_err(refuse)?;
        Ok(Evaluated { results, errors: all })
    }

    /// Evaluates inputs together, or recursively in halves if some of them raise errors.
    fn evaluate_parts(
        &self,
        inputs: &[ArrayRef],
        results: &mut Vec<ArrayRef>,
        errors: &mut Vec<Option<RowError>>,
    ) {
        let rows = inputs.first().map_or(0, Array::len);
        match (self.evaluate_all(inputs, rows), rows) {
            (Ok(result), len) => {
                results.push(result);
                errors.resize(errors.len() + len, None);
            }
            (Err(error), len @ 0..=1) => {
                results.push(new_null_array(&self.result_type, len));
                errors.resize(errors.len() + len, Some(error));
            }
            (Err(_), len) => {
                self.evaluate_parts(&sliced(inputs, 0, len / 2), results, errors);
                self.evaluate_parts(&sliced(inputs, len / 2, len - len / 2), results, errors);
            }
        }
    }

    fn evaluate_all(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef, RowError> {
        self.evaluated(inputs, rows)
            .map_err(|error| match RowError::of(&error) {
                Some(error) => error.clone(),
                None => RowError {
                    fault: Fault::Evaluation {
                        message: error.strip_backtrace(),
                    },
                    expression: self.to_string(),
                },
            })
    }

    fn evaluated(&self, inputs: &[ArrayRef], rows: usize) -> datafusion::common::Result<ArrayRef> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), inputs.to_vec())?;
        let result = self.named.evaluate(&batch)?.into_array(rows)?;
        Ok(match result.data_type() == &self.result_type {
            true => result,
            false => cast(&result, &self.result_type)?,
        })
    }
}

/// A range of rows of every array.
fn sliced(inputs: &[ArrayRef], start: usize, rows: usize) -> Vec<ArrayRef> {
    inputs.iter().map(|input| input.slice(start, rows)).collect()
}

/// The expression with `columns` renumbered from 0 on.
pub(crate) fn renumbered(
    expression: &Arc<dyn PhysicalExpr>,
    columns: &[usize],
) -> Result<Arc<dyn PhysicalExpr>, Reason> {
    let renumbered = Arc::clone(expression).transform(|node| {
        let found = node.downcast_ref::<Column>();
        let number = found.and_then(|found| columns.iter().position(|column| *column == found.index()));
        Ok(match (found, number) {
            (Some(found), Some(number)) => {
                Transformed::yes(Arc::new(Column::new(found.name(), number)) as Arc<dyn PhysicalExpr>)
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
