//! Rows that a pipeline returns: the columns that its kernel writes, and how results are computed from them.

use super::column_access::{AccessForm, ColumnAccess};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_expression::code::Code;
use galatea_expression::{Emitter, Expr, HostFunction, Kind, OrderedString, Value};
use galatea_kernels::MAX_OUTPUTS;
use std::sync::Arc;

/// The returned rows.
#[derive(Debug, Clone, Default)]
pub struct RowsPlan {
    /// The columns that the kernel writes: those that results are computed from, each once, then the words of
    /// the sort key.
    pub columns: Vec<OutputColumn>,
    /// The result columns, in order.
    pub results: Vec<RowResult>,
    /// The strings without a dictionary in the sort key, each with the number of its word from 0 on.
    pub texts: Vec<(usize, OrderedString)>,
}

/// A column of the result.
#[derive(Debug, Clone)]
pub enum RowResult {
    /// A column as written by the kernel.
    Column(usize),
    /// A column that the host computes from others.
    Computed {
        /// The function.
        function: Arc<HostFunction>,
        /// Its arguments.
        arguments: Vec<RowResult>,
    },
}

/// One output column.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Type of the result column.
    pub data_type: DataType,
    /// The values that the kernel writes.
    pub form: OutputForm,
    /// C++ expressions of the value and, for nullable columns, of its NULL flag.
    pub code: (String, Option<String>),
}

/// Representation of an output column's values on the device.
#[derive(Debug, Clone)]
pub enum OutputForm {
    /// Sign-extended integer of 4, 8 or 16 bytes.
    Integer {
        /// Bytes.
        width: usize,
    },
    /// One byte.
    Boolean,
    /// Single.
    Float32,
    /// Double.
    Float64,
    /// Dictionary code, 4 bytes.
    Code {
        /// The dictionary.
        values: ArrayRef,
    },
    /// The row number, `chunk << 32 | row`. The host gathers the string by it.
    Row(StringSource),
}

/// Location of strings without a dictionary that are returned by row number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringSource {
    /// A kernel column.
    Column(usize),
    /// A column of a build side.
    BuildSide {
        /// Number of the build side.
        build_side: usize,
        /// Number of its column.
        column: usize,
    },
}

/// Bytes per row of the columns, validity included.
pub fn row_bytes(columns: &[OutputColumn]) -> u64 {
    let of = |column: &OutputColumn| column.row_bytes() as u64 + u64::from(column.nullable());
    columns.iter().map(of).sum()
}

impl OutputColumn {
    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        match &self.form {
            OutputForm::Integer { width } => *width,
            OutputForm::Boolean => 1,
            OutputForm::Float32 | OutputForm::Code { .. } => 4,
            OutputForm::Float64 | OutputForm::Row(_) => 8,
        }
    }

    /// Whether a validity byte is written per row.
    pub fn nullable(&self) -> bool {
        self.code.1.is_some()
    }
}

impl RowsPlan {
    /// The plan of `outputs` over kernel columns. `emitter` writes the statements that compute their values
    /// to `code`.
    pub(super) fn new(
        outputs: &[Expr],
        columns: &[ColumnAccess],
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<Self, Reason> {
        let mut plan = Self::default();
        let mut written = Vec::new();
        for output in outputs {
            let result = plan.result(output, columns, &mut written, emitter, code)?;
            plan.results.push(result);
        }
        Ok(plan)
    }

    /// The result column of an output. The columns that it needs are added to the plan, unless they are in
    /// `written`.
    fn result(
        &mut self,
        output: &Expr,
        columns: &[ColumnAccess],
        written: &mut Vec<Expr>,
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<RowResult, Reason> {
        let has_no_dictionary = |text: &Expr| {
            let is_string = |column: usize| is_string(&columns[column]);
            text.as_column().is_some_and(is_string) || emitter.row_of_string(text).is_some()
        };
        if let Some((function, arguments)) = output.hosted()
            && output.is_for_host(&has_no_dictionary)
        {
            let arguments = arguments.into_iter();
            let arguments = arguments.map(|argument| self.result(argument, columns, written, emitter, code));
            return Ok(RowResult::Computed {
                arguments: arguments.collect::<Result<_, _>>()?,
                function: Arc::clone(function),
            });
        }
        if let Some(number) = written.iter().position(|other| other == output) {
            return Ok(RowResult::Column(number));
        }
        let number = self.columns.len();
        let text = string_column(output, columns);
        self.columns.push(match (text, emitter.row_of_string(output)) {
            (Some(text), _) => text,
            (None, Some((build_side, column, row))) => {
                let row = emitter.emit(&row, code)?;
                OutputColumn {
                    data_type: output.data_type().clone(),
                    form: OutputForm::Row(StringSource::BuildSide { build_side, column }),
                    code: (row.code, row.null),
                }
            }
            (None, None) => column(number, &emitter.emit_stored(output, code)?)?,
        });
        written.push(output.clone());
        Ok(RowResult::Column(number))
    }
}

/// Whether a column contains strings without a dictionary.
fn is_string(column: &ColumnAccess) -> bool {
    matches!(column.form, AccessForm::Text { .. })
}

/// The output of a string column without a dictionary; the host gathers the bytes by row.
fn string_column(expr: &Expr, columns: &[ColumnAccess]) -> Option<OutputColumn> {
    let column = expr.as_column().filter(|column| is_string(&columns[*column]))?;
    Some(OutputColumn {
        data_type: expr.data_type().clone(),
        form: OutputForm::Row(StringSource::Column(column)),
        code: ("(u64(cursor.index()) << 32 | (row + i))".into(), None),
    })
}

/// The output of a computed value.
pub fn column(index: usize, value: &Value) -> Result<OutputColumn, Reason> {
    let form = match &value.kind {
        Kind::Bool => OutputForm::Boolean,
        Kind::I32 => OutputForm::Integer { width: 4 },
        Kind::I64 => OutputForm::Integer { width: 8 },
        Kind::I128 => OutputForm::Integer { width: 16 },
        Kind::F32 => OutputForm::Float32,
        Kind::F64 => OutputForm::Float64,
        Kind::Code { values } => OutputForm::Code {
            values: values.clone(),
        },
        Kind::Text | Kind::ComputedString | Kind::Place => {
            return Err(Reason::without_dictionary(format_args!("output {index}")));
        }
    };
    Ok(OutputColumn {
        data_type: value.data_type.clone(),
        form,
        code: (value.code.clone(), value.null.clone()),
    })
}

/// Refuses more outputs than a pipeline supports.
pub(crate) fn check_number(outputs: &[OutputColumn]) -> Result<(), Reason> {
    if outputs.len() > MAX_OUTPUTS / 2 {
        return Err(Reason::Limit {
            expression: "SELECT".into(),
            asked: outputs.len() as u64,
            limit: MAX_OUTPUTS as u64 / 2,
            unit: "output columns",
        });
    }
    Ok(())
}
