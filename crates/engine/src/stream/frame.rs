//! Frames of rows: their columns, layout, and encoding.
//!
//! ```text
//! header   64 bytes: command, rows or slots, table, first slot
//! values   an array per column, for the maximum number of rows of a frame
//! validity bits per column that can be NULL
//! ```

use super::strings::StreamStrings;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use galatea_base::reason::Reason;
use galatea_expression::code::{Code, line};
use galatea_expression::{ColumnBinding, ColumnKind, domain, is_string, kind_for};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Number of bytes before the values.
const HEADER: usize = 64;
/// Alignment of arrays.
const ALIGNED: usize = 16;

/// A frame's instruction to the device; the numbers are those in `bind.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// The frame contains this number of rows.
    Rows(u32),
    /// Copy and clear this number of slots of a window's table.
    Publish { table: u32, first: u32, slots: u32 },
}

impl Command {
    fn words(self) -> [u32; 4] {
        match self {
            Self::Rows(rows) => [0, rows, 0, 0],
            Self::Publish { table, first, slots } => [1, slots, table, first],
        }
    }

    /// Writes the command at the start of a frame.
    pub(super) fn write(self, frame: &mut [u8]) {
        for (word, at) in self.words().into_iter().zip(frame.chunks_exact_mut(4)) {
            at.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Allocates positions of arrays in a frame, one after another.
#[derive(Debug)]
pub(super) struct Places {
    rows: usize,
    at: usize,
}

impl Places {
    /// Number of rows, a multiple of 32, that fit a frame after its first `head` bytes if arrays have these
    /// bits per row.
    ///
    /// # Errors
    /// [`Reason::Limit`]: not even 32 rows fit.
    pub(super) fn rows_that_fit(frame_bytes: usize, head: usize, bits: &[usize]) -> Result<usize, Reason> {
        let row: usize = bits.iter().sum::<usize>().max(1);
        let padding = ALIGNED * bits.len() + head;
        let rows = frame_bytes.saturating_sub(padding) * 8 / row / 32 * 32;
        match rows {
            0 => Err(Reason::Limit {
                expression: "a stream's frame (galatea.stream.frame_size)".into(),
                asked: (row * 4 + padding) as u64,
                limit: frame_bytes as u64,
                unit: "bytes for 32 rows",
            }),
            rows => Ok(rows),
        }
    }

    /// Positions for arrays of `rows` rows, after the first `head` bytes.
    pub(super) fn new(rows: usize, head: usize) -> Self {
        Self { rows, at: head }
    }

    /// The position of the next array, with `bits` bits per row.
    pub(super) fn array(&mut self, bits: usize) -> usize {
        let at = self.at;
        self.at += (self.rows * bits / 8).next_multiple_of(ALIGNED);
        at
    }

    /// Number of bytes so far.
    pub(super) fn end(&self) -> usize {
        self.at
    }
}

/// A column of frames.
#[derive(Debug, Clone)]
pub(super) struct FrameColumn {
    /// Index in the source's schema.
    pub(super) source: usize,
    /// The column as expressions see it.
    pub(super) binding: ColumnBinding,
    /// Whether the source has strings, and frames have codes.
    pub(super) is_code: bool,
    width: usize,
    c_type: &'static str,
    /// Positions of the values and of the validity bits.
    values: usize,
    validity: usize,
}

impl FrameColumn {
    fn new(source: usize, schema: &Schema, is_code: bool) -> Result<Self, Reason> {
        let field = schema.field(source);
        let data_type = if is_code {
            &DataType::UInt32
        } else {
            field.data_type()
        };
        let refuse = || Reason::Type {
            data_type: data_type.clone(),
            place: format!(
                "column {} of a stream, which the device would compute with",
                field.name()
            ),
        };
        if is_string(data_type) {
            return Err(refuse());
        }
        let binding = ColumnBinding::of_type(data_type, field.is_nullable()).ok_or_else(refuse)?;
        let (width, c_type) = match data_type {
            DataType::Boolean => (1, "u8"),
            DataType::Float32 => (4, "float"),
            DataType::Float64 => (8, "double"),
            data_type => {
                let width = data_type.primitive_width().ok_or_else(refuse)?;
                let signed = domain(data_type).ok_or_else(refuse)?.low < 0;
                let c_type = match (width, signed) {
                    (1, true) => "i8",
                    (1, false) => "u8",
                    (2, true) => "i16",
                    (2, false) => "u16",
                    (4, true) => "i32",
                    (4, false) => "u32",
                    (8, true) => "i64",
                    (8, false) => "u64",
                    _ => "i128",
                };
                (width, c_type)
            }
        };
        Ok(Self {
            source,
            binding,
            is_code,
            width,
            c_type,
            values: 0,
            validity: 0,
        })
    }

    /// Bits per row of values and of validity.
    fn bits(&self) -> [usize; 2] {
        [self.width * 8, usize::from(self.binding.nullable)]
    }
}

/// The columns of a stream's frames.
#[derive(Debug, Clone)]
pub(super) struct FrameLayout {
    /// Maximum number of rows of a frame, a multiple of 32.
    pub(super) rows: usize,
    /// The columns, in ascending order of their source.
    pub(super) columns: Vec<FrameColumn>,
    /// Number of bytes used in a frame.
    pub(super) bytes: usize,
}

impl FrameLayout {
    /// Frames with these columns of a source, for the maximum number of rows. Columns in `codes` are strings
    /// that are transferred as codes.
    ///
    /// # Errors
    /// Columns that frames cannot hold.
    pub(super) fn new(
        schema: &Schema,
        sources: &BTreeSet<usize>,
        codes: &BTreeSet<usize>,
        frame_bytes: usize,
    ) -> Result<Self, Reason> {
        let columns = sources.iter();
        let columns: Vec<FrameColumn> = columns
            .map(|source| FrameColumn::new(*source, schema, codes.contains(source)))
            .collect::<Result<_, _>>()?;
        let bits: Vec<usize> = columns.iter().flat_map(FrameColumn::bits).collect();
        let mut layout = Self {
            rows: Places::rows_that_fit(frame_bytes, HEADER, &bits)?,
            columns,
            bytes: 0,
        };
        layout.limit(usize::MAX);
        Ok(layout)
    }

    /// Limits frames to this number of rows.
    pub(super) fn limit(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        let mut places = Places::new(self.rows, HEADER);
        for column in &mut self.columns {
            let [values, valid] = column.bits();
            column.values = places.array(values);
            column.validity = places.array(valid);
        }
        self.bytes = places.end();
    }

    /// Declares the columns of `row` in device code, for a frame at `frame`; the variable `exists` is true if
    /// the frame has the row.
    pub(super) fn declare(&self, code: &mut Code) {
        for (number, column) in self.columns.iter().enumerate() {
            let null = match column.binding.nullable {
                true => {
                    line!(
                        code,
                        "const bool c{number}_null = !(exists && (frame[{}u + (row >> 3)] >> (row & 7u) & 1u) != 0);",
                        column.validity
                    );
                    format!(" && !c{number}_null")
                }
                false => String::new(),
            };
            let c_type = match column.binding.kind {
                ColumnKind::Integer { min, max } => kind_for(min, max).c_type(),
                ColumnKind::Boolean => "bool",
                _ => column.c_type,
            };
            line!(
                code,
                "const {c_type} c{number} = exists{null} ? {c_type}(reinterpret_cast<const {}*>(frame + {}u)[row]) : {c_type}(0);",
                column.c_type,
                column.values
            );
        }
    }

    /// The columns of a batch of the source, encoded for frames.
    ///
    /// # Errors
    /// More strings than a dictionary holds.
    pub(super) fn encode(&self, batch: &RecordBatch, texts: &StreamStrings) -> Result<Vec<EncodedColumn>> {
        let columns = self.columns.iter();
        let encoded = columns.map(|column| EncodedColumn::new(column, batch.column(column.source), texts));
        encoded.collect()
    }

    /// Fills a frame with rows of encoded columns.
    pub(super) fn fill(&self, columns: &[EncodedColumn], rows: Range<usize>, frame: &mut [u8]) {
        for (column, encoded) in self.columns.iter().zip(columns) {
            let bytes = &encoded.values.as_slice()[rows.start * column.width..rows.end * column.width];
            frame[column.values..column.values + bytes.len()].copy_from_slice(bytes);
            if !column.binding.nullable {
                continue;
            }
            let validity = &mut frame[column.validity..column.validity + rows.len().div_ceil(8)];
            match &encoded.nulls {
                None => validity.fill(0xff),
                Some(nulls) => {
                    let bits = nulls.inner().slice(rows.start, rows.len()).sliced();
                    validity.copy_from_slice(&bits.as_slice()[..validity.len()]);
                }
            }
        }
        Command::Rows(rows.len() as u32).write(frame);
    }
}

/// A column of a batch, encoded for frames.
#[derive(Debug, Clone)]
pub(super) struct EncodedColumn {
    /// Contiguous values.
    pub(super) values: Buffer,
    /// Validity of the values.
    pub(super) nulls: Option<NullBuffer>,
}

impl EncodedColumn {
    fn new(column: &FrameColumn, array: &ArrayRef, texts: &StreamStrings) -> Result<Self> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let values = if column.is_code {
            Buffer::from_vec(texts.codes(column.source, array)?)
        } else if let Some(booleans) = array.as_boolean_opt() {
            let bytes: Vec<u8> = booleans.values().iter().map(u8::from).collect();
            Buffer::from_vec(bytes)
        } else {
            let data = array.to_data();
            let [values] = data.buffers() else {
                return datafusion::common::internal_err!(
                    "a column of {} has no array of values",
                    array.data_type()
                );
            };
            values.slice_with_length(data.offset() * column.width, data.len() * column.width)
        };
        Ok(Self { values, nulls })
    }
}

/// Whether the bit of a row is set.
pub(super) fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 != 0
}

/// These rows of a column of the source.
pub(super) fn slice(batch: &RecordBatch, source: usize, rows: &Range<usize>) -> ArrayRef {
    Arc::clone(batch.column(source)).slice(rows.start, rows.len())
}
