//! Rows that a pipeline returns: the columns that its kernel writes, and what results are made of them.

use super::column_access::{AccessForm, ColumnAccess};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_expression::code::Code;
use galatea_expression::{Emitter, Expr, HostFunction, Kind, OrderedText, Value};
use galatea_kernels::MAX_OUTPUTS;
use std::sync::Arc;

/// What is returned of rows.
#[derive(Debug, Clone, Default)]
pub struct RowsPlan {
    /// What the kernel writes: the columns that results are made of, each once, then the words of an order.
    pub columns: Vec<OutputColumn>,
    /// The results, in their order.
    pub results: Vec<RowResult>,
    /// The texts without a dictionary in the words of the order, with the number of the word, from 0 on.
    pub texts: Vec<(usize, OrderedText)>,
}

/// A column of the result.
#[derive(Debug, Clone)]
pub enum RowResult {
    /// A column as the kernel wrote it.
    Column(usize),
    /// What the host computes of others.
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
    /// What is written per row.
    pub form: OutputForm,
    /// C++ of the value and, for nullable columns, of its NULL flag.
    pub code: (String, Option<String>),
}

/// What a row of an output column holds on the device.
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
    /// The number of a row, `chunk << 32 | row`: the host gathers the text that the row has there.
    Row(TextSource),
}

/// Where texts without a dictionary are, which are returned by the numbers of their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSource {
    /// A kernel column.
    Column(usize),
    /// A column of a build side.
    BuildSide {
        /// Number of the build side.
        dimension: usize,
        /// Number of its column.
        column: usize,
    },
}

/// Bytes of a row in the columns, and in those that say which values are NULL.
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
    /// The plan of these outputs over kernel columns; `emitter` writes into `code` how their values are
    /// computed.
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

    /// How an output comes about; what the kernel has to write for it is added to the columns, unless it is
    /// among those that are `written` already.
    fn result(
        &mut self,
        output: &Expr,
        columns: &[ColumnAccess],
        written: &mut Vec<Expr>,
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<RowResult, Reason> {
        let has_no_dictionary = |text: &Expr| {
            let is_text = |column: usize| is_text(&columns[column]);
            text.as_column().is_some_and(is_text) || emitter.row_of_text(text).is_some()
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
        let text = text_column(output, columns);
        self.columns.push(match (text, emitter.row_of_text(output)) {
            (Some(text), _) => text,
            (None, Some((dimension, column, row))) => {
                let row = emitter.emit(&row, code)?;
                OutputColumn {
                    data_type: output.data_type().clone(),
                    form: OutputForm::Row(TextSource::BuildSide { dimension, column }),
                    code: (row.code, row.null),
                }
            }
            (None, None) => column(number, &emitter.emit_stored(output, code)?)?,
        });
        written.push(output.clone());
        Ok(RowResult::Column(number))
    }
}

/// Whether a column is text without a dictionary.
fn is_text(column: &ColumnAccess) -> bool {
    matches!(column.form, AccessForm::Text { .. })
}

/// A text column without a dictionary; the host gathers the bytes by row.
fn text_column(expr: &Expr, columns: &[ColumnAccess]) -> Option<OutputColumn> {
    let column = expr.as_column().filter(|column| is_text(&columns[*column]))?;
    Some(OutputColumn {
        data_type: expr.data_type().clone(),
        form: OutputForm::Row(TextSource::Column(column)),
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
        Kind::Text | Kind::MadeText | Kind::Place => {
            return Err(Reason::without_dictionary(format_args!("output {index}")));
        }
    };
    Ok(OutputColumn {
        data_type: value.data_type.clone(),
        form,
        code: (value.code.clone(), value.null.clone()),
    })
}

/// Refuses more outputs than a pipeline can have.
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
