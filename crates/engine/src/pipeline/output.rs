//! Columns of rows that a pipeline returns.

use super::column_access::{AccessForm, ColumnAccess};
use crate::expression::{Expr, HostFunction, Kind, Value};
use crate::reason::Reason;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use galatea_kernels::MAX_OUTPUTS;
use std::sync::Arc;

/// One output column.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Type of the result column.
    pub data_type: DataType,
    /// What is written per row.
    pub form: OutputForm,
    /// C++ of the value and, for nullable columns, of its NULL flag.
    pub(crate) code: (String, Option<String>),
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
    /// The row itself, `chunk << 32 | row`: the host gathers the text of that source column.
    Row {
        /// Kernel column.
        column: usize,
        /// What the host computes of the text, if it is not returned as it is.
        function: Option<Arc<HostFunction>>,
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
            OutputForm::Float64 | OutputForm::Row { .. } => 8,
        }
    }

    /// Whether a validity byte is written per row.
    pub fn nullable(&self) -> bool {
        self.code.1.is_some()
    }
}

/// A text column without a dictionary, or what the host computes of one; it gathers the bytes by row.
pub fn text_column(expr: &Expr, columns: &[ColumnAccess]) -> Option<OutputColumn> {
    let (column, function) = match expr.hosted() {
        Some((column, function)) => (column, Some(Arc::clone(function))),
        None => (expr.as_column()?, None),
    };
    matches!(columns[column].form, AccessForm::Text { .. }).then(|| OutputColumn {
        data_type: expr.data_type().clone(),
        form: OutputForm::Row { column, function },
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
pub(in crate::pipeline) fn check_number(outputs: &[OutputColumn]) -> Result<(), Reason> {
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
