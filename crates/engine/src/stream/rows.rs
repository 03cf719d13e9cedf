//! Rows that pass: the contents of a result frame, and its conversion to a batch.
//!
//! ```text
//! passed   a bit per row of the frame
//! values   an array per computed column, at the positions of the rows; validity, a byte each, if it can be NULL
//! ```

use super::error::StreamError;
use super::frame::{FrameLayout, Places, bit, slice};
use super::settings::StreamSettings;
use crate::results::{Values, batch};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::FilterBuilder;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use galatea_base::reason::Reason;
use galatea_codegen::output::{OutputColumn, OutputForm, column};
use galatea_expression::code::{Code, line};
use galatea_expression::{Emitter, Expr};
use std::ops::Range;

/// A column of the result.
#[derive(Debug)]
enum ResultColumn {
    /// A column of the source, by number.
    Source(usize),
    /// Computed on the device, with the positions in the frame of its values and, if it can be NULL, of its
    /// validity.
    Computed {
        output: OutputColumn,
        values: usize,
        validity: usize,
    },
}

/// Layout of result frames with rows.
#[derive(Debug)]
pub(super) struct RowResults {
    columns: Vec<ResultColumn>,
    /// Maximum number of rows of a frame.
    rows: usize,
    /// Size of a result frame in bytes.
    bytes: usize,
}

fn c_type(form: &OutputForm) -> &'static str {
    match form {
        OutputForm::Integer { width: 4 } => "i32",
        OutputForm::Integer { width: 8 } => "i64",
        OutputForm::Integer { .. } => "i128",
        OutputForm::Boolean => "u8",
        OutputForm::Float32 => "float",
        OutputForm::Float64 => "double",
        OutputForm::Code { .. } => "u32",
        OutputForm::Row(_) => "u64",
    }
}

impl RowResults {
    /// The results of these outputs. Appends the code for a row, and limits frames to the number of rows that
    /// fit one result frame.
    ///
    /// # Errors
    /// Outputs that are not supported here.
    pub(super) fn new(
        outputs: &[Expr],
        rewrite: &dyn Fn(&Expr) -> Expr,
        settings: &StreamSettings,
        layout: &mut FrameLayout,
        (emitter, row): (&mut Emitter<'_>, &mut Code),
    ) -> Result<Self, Reason> {
        let mut store = Code::default();
        let mut columns = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            columns.push(match output.as_column() {
                Some(source) => ResultColumn::Source(source),
                None => ResultColumn::Computed {
                    output: column(number, &emitter.emit(&rewrite(output), &mut store)?)?,
                    values: 0,
                    validity: 0,
                },
            });
        }
        let bits = |output: &OutputColumn| [output.row_bytes() * 8, if output.nullable() { 8 } else { 0 }];
        let computed = columns.iter().filter_map(|column| match column {
            ResultColumn::Computed { output, .. } => Some(bits(output)),
            ResultColumn::Source(_) => None,
        });
        let all: Vec<usize> = std::iter::once(1).chain(computed.flatten()).collect();
        layout.limit(Places::rows_that_fit(settings.frame_bytes, 0, &all)?);
        let mut places = Places::new(layout.rows, 0);
        places.array(1);
        row.lines("store_bits(reinterpret_cast<u32*>(out), row, rows, live);");
        row.lines("if (live) {");
        for column in &mut columns {
            let ResultColumn::Computed {
                output,
                values,
                validity,
            } = column
            else {
                continue;
            };
            let [value_bits, valid_bits] = bits(output);
            (*values, *validity) = (places.array(value_bits), places.array(valid_bits));
            let (value, null) = &output.code;
            let c_type = c_type(&output.form);
            line!(
                store,
                "reinterpret_cast<{c_type}*>(out + {values}u)[row] = {c_type}({value});"
            );
            if let Some(null) = null {
                line!(store, "out[{validity}u + row] = {null} ? 0 : 1;");
            }
        }
        row.nest(1, &store);
        row.lines("}");
        Ok(Self {
            columns,
            rows: layout.rows,
            bytes: places.end(),
        })
    }

    /// The code after the rows of a frame.
    pub(super) fn after_rows(&self) -> String {
        format!("work.set_output_bytes({}u);", self.bytes)
    }

    /// The rows that passed, out of those rows of a batch, according to a result frame.
    ///
    /// # Errors
    /// A frame of another length, or an error of Arrow.
    pub(super) fn batch(
        &self,
        schema: &SchemaRef,
        source: &RecordBatch,
        rows: &Range<usize>,
        (number, frame): (u64, &[u8]),
    ) -> Result<RecordBatch> {
        debug_assert!(rows.len() <= self.rows, "a frame has {} rows at most", self.rows);
        if frame.len() < self.bytes {
            return Err(StreamError::Frame {
                frame: number,
                asked: self.bytes as u64,
                there: frame.len() as u64,
            }
            .into());
        }
        let passed = BooleanBuffer::collect_bool(rows.len(), |row| bit(frame, row));
        let filter = FilterBuilder::new(&BooleanArray::new(passed, None))
            .optimize()
            .build();
        let arrays = self.columns.iter().map(|column| {
            let array: ArrayRef = match column {
                ResultColumn::Source(number) => slice(source, *number, rows),
                ResultColumn::Computed {
                    output,
                    values,
                    validity,
                } => {
                    let nulls = output.nullable().then(|| {
                        let flags = &frame[*validity..*validity + rows.len()];
                        NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |row| flags[row] != 0))
                    });
                    let bytes = &frame[*values..*values + rows.len() * output.row_bytes()];
                    Values::Bytes(bytes).array(&output.form, nulls, &output.data_type)?
                }
            };
            Ok(filter.filter(&array)?)
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(batch(schema, arrays, filter.count())?)
    }
}
