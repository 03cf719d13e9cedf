//! How the kernel reads the columns of its source.

use galatea_expression::{ColumnBinding, ColumnKind, Parameters};
use galatea_store::layout::CodeMeaning;
use galatea_store::{Column, Encoding, Scalar, ScalarRange, SlotLayout, Width};
use std::sync::Arc;

/// How the kernel reads a column.
#[derive(Debug, Clone)]
pub struct ColumnAccess {
    /// Index in the source's schema.
    pub source: usize,
    /// Physical form.
    pub form: AccessForm,
    /// Whether any chunk has a validity bitmap.
    pub nullable: bool,
    /// The column as expressions use it.
    pub binding: ColumnBinding,
    /// The mapping from slots to codes, if the column is laid out and encoded as slots.
    pub slots: Option<SlotAccess>,
}

/// How the slots of a laid-out column are read.
#[derive(Debug, Clone)]
pub struct SlotAccess {
    /// The slot map, the values and the access pattern that they were laid out for.
    pub layout: Arc<SlotLayout>,
    /// The lookup table from slot to code: one `u32` per slot, 0 for the slot of NULL and for unused slots.
    pub table: usize,
}

/// Physical form of a column in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessForm {
    /// `base + factor * code`, with codes (slots of a laid-out column) of `width` bytes.
    Integer {
        /// Bytes per code; 0 if every value is its chunk's base.
        width: usize,
        /// Common factor.
        factor: u64,
    },
    /// One byte, 0 or 1.
    Boolean,
    /// IEEE 754 single.
    Float32,
    /// IEEE 754 double.
    Float64,
    /// 16 bytes, two's complement.
    Wide,
    /// Dictionary codes (slots of a laid-out column) of `width` bytes.
    Code {
        /// Bytes per code.
        width: usize,
    },
    /// Offsets of `offset_width` bytes into the chunk's string bytes.
    Text {
        /// Bytes per offset.
        offset_width: usize,
    },
}

impl AccessForm {
    /// Bytes per row of the main buffer; for strings, only the offsets are counted.
    pub fn row_bytes(self) -> usize {
        match self {
            Self::Integer { width, .. } | Self::Code { width } => width,
            Self::Boolean => 1,
            Self::Float32 => 4,
            Self::Float64 => 8,
            Self::Wide => 16,
            Self::Text { offset_width } => offset_width,
        }
    }
}

impl AccessForm {
    /// C++ type of the offsets of a string column.
    pub(super) fn offset_type(self) -> Option<&'static str> {
        match self {
            Self::Text { offset_width: 4 } => Some("u32"),
            Self::Text { .. } => Some("u64"),
            _ => None,
        }
    }
}

impl ColumnAccess {
    /// The access to a stored column. The lookup table of a laid-out column is added to `parameters`.
    pub fn new(source: usize, column: &Column, parameters: &mut Parameters) -> Self {
        let nullable = column.null_count > 0;
        let slots = column.layout().map(|layout| SlotAccess {
            layout: Arc::clone(layout),
            table: parameters.table(bytemuck::cast_slice(layout.slot_codes()).to_vec()),
        });
        let (form, kind) = match &column.encoding {
            Encoding::Integer { width, factor } => {
                let (min, max) = integer_range(column);
                (
                    AccessForm::Integer {
                        width: bytes(*width),
                        factor: *factor,
                    },
                    ColumnKind::Integer { min, max },
                )
            }
            Encoding::Boolean => (AccessForm::Boolean, ColumnKind::Boolean),
            Encoding::Float32 => (AccessForm::Float32, ColumnKind::Float32),
            Encoding::Float64 => (AccessForm::Float64, ColumnKind::Float64),
            Encoding::Decimal128 => {
                let (min, max) = integer_range(column);
                (AccessForm::Wide, ColumnKind::Integer { min, max })
            }
            Encoding::Dictionary { width, values } => (
                AccessForm::Code { width: bytes(*width) },
                ColumnKind::Dictionary {
                    values: values.clone(),
                },
            ),
            Encoding::Slots { width, layout } => match &layout.meaning {
                CodeMeaning::Integer { factor, .. } => {
                    let (min, max) = integer_range(column);
                    (
                        AccessForm::Integer {
                            width: bytes(*width),
                            factor: *factor,
                        },
                        ColumnKind::Integer { min, max },
                    )
                }
                CodeMeaning::Dictionary { values } => (
                    AccessForm::Code { width: bytes(*width) },
                    ColumnKind::Dictionary {
                        values: values.clone(),
                    },
                ),
            },
            Encoding::Text { offset_width } => (
                AccessForm::Text {
                    offset_width: bytes(*offset_width),
                },
                ColumnKind::Text,
            ),
        };
        let binding = ColumnBinding {
            data_type: column.data_type.clone(),
            kind,
            nullable,
        };
        Self {
            source,
            form,
            nullable,
            binding,
            slots,
        }
    }
}

/// The interval of an integer column as the kernel decodes it: NULL rows hold their chunk's base.
pub fn integer_range(column: &Column) -> (i128, i128) {
    let bases = column
        .chunks
        .iter()
        .filter(|_| column.null_count > 0)
        .map(|chunk| i128::from(chunk.base));
    let of_bases = bases.fold(None, |range: Option<(i128, i128)>, base| {
        Some(range.map_or((base, base), |(low, high)| (low.min(base), high.max(base))))
    });
    match (&column.range, of_bases) {
        (
            Some(ScalarRange {
                min: Scalar::Integer(min),
                max: Scalar::Integer(max),
                ..
            }),
            None,
        ) => (*min, *max),
        (
            Some(ScalarRange {
                min: Scalar::Integer(min),
                max: Scalar::Integer(max),
                ..
            }),
            Some((low, high)),
        ) => (low.min(*min), high.max(*max)),
        (_, of_bases) => of_bases.unwrap_or((0, 0)),
    }
}

fn bytes(width: Width) -> usize {
    width.bytes()
}
