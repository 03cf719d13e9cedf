//! Rows of an append sink.

use super::pieces::Part;
use super::values::Values;
use super::{Outlet, batch};
use crate::execution::error::RunError;
use crate::execution::text_rows::{self, TextRows, TextsOfSide};
use crate::pipeline::PipelinePlan;
use crate::pipeline::output::{OutputColumn, OutputForm, RowResult, RowsPlan, TextSource};
use crate::pipeline::sink::chains::RowLayout;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use galatea_device::Stream;
use galatea_memory::GatheredRows;
use galatea_memory::regions::WorkingRegion;
use galatea_store::TableView;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of an append sink, given on in pieces.
#[derive(Debug)]
pub(in crate::execution) struct Rows<'a> {
    plan: &'a PipelinePlan,
    view: &'a TableView,
    /// By position in the table of chunks.
    chunks: Arc<[usize]>,
    /// Texts of build sides, by their number.
    sides: BTreeMap<usize, TextsOfSide>,
    outlet: Outlet<'a>,
}

impl<'a> Rows<'a> {
    /// Nothing given to `outlet` yet.
    pub(in crate::execution) fn new(
        plan: &'a PipelinePlan,
        view: &'a TableView,
        chunks: Arc<[usize]>,
        sides: BTreeMap<usize, TextsOfSide>,
        outlet: Outlet<'a>,
    ) -> Self {
        Self {
            plan,
            view,
            chunks,
            sides,
            outlet,
        }
    }

    /// The texts of what the run leaves on the device.
    pub(in crate::execution) fn texts_left(&self) -> TextsOfSide {
        text_rows::left_by(self.plan, self.view, &self.chunks, &self.sides)
    }

    /// Rows given on so far.
    pub(in crate::execution) fn count(&self) -> u64 {
        self.outlet.rows()
    }

    /// Reads `count` rows from the output columns; returns the bytes read.
    pub(in crate::execution) fn take(
        &self,
        stream: &Stream,
        plan: &RowsPlan,
        outputs: &[WorkingRegion<u8>],
        validity: &[Option<WorkingRegion<u8>>],
        count: u64,
    ) -> Result<u64, RunError> {
        let mut parts = Vec::new();
        let mut places = Vec::new();
        for ((column, output), valid) in plan.columns.iter().zip(outputs).zip(validity) {
            let value = parts.len();
            parts.push(Part::Bytes(output, column.row_bytes()));
            parts.extend(valid.as_ref().map(|valid| Part::Bytes(valid, 1)));
            places.push((value, valid.is_some()));
        }
        let bytes = self.outlet.pieces(stream, count as usize, &parts, |piece| {
            let arrays = plan
                .columns
                .iter()
                .zip(&places)
                .map(|(column, (value, nullable))| {
                    let nulls = nullable.then(|| {
                        let flags = piece.bytes(value + 1);
                        NullBuffer::new(BooleanBuffer::collect_bool(piece.rows, |i| flags[i] != 0))
                    });
                    self.array(column, &Values::Bytes(piece.bytes(*value)), nulls)
                });
            self.results(plan, &arrays.collect::<Result<Vec<_>, _>>()?, piece.rows)
        })?;
        Ok(bytes)
    }

    /// Reads rows of words gathered from page chains; returns the bytes read.
    pub(in crate::execution) fn take_gathered(
        &self,
        stream: &Stream,
        plan: &RowsPlan,
        layout: &RowLayout,
        gathered: &GatheredRows,
    ) -> Result<u64, RunError> {
        let rows = gathered.rows;
        let parts: Vec<Part> = (0..layout.words)
            .map(|word| Part::Words(&gathered.columns, word * rows))
            .collect();
        let bytes = self.outlet.pieces(stream, rows, &parts, |piece| {
            let arrays = (plan.columns.iter().zip(&layout.fields)).map(|(column, (field, valid))| {
                let nulls = valid.map(|valid| {
                    let bits = piece.words(valid.word);
                    NullBuffer::new(BooleanBuffer::collect_bool(piece.rows, |i| {
                        bits[i] >> valid.bit & 1 != 0
                    }))
                });
                let high = if column.row_bytes() == 16 {
                    field.word + 1
                } else {
                    field.word
                };
                let values = Values::Words {
                    low: piece.words(field.word),
                    high: piece.words(high),
                    bit: field.bit,
                };
                self.array(column, &values, nulls)
            });
            self.results(plan, &arrays.collect::<Result<Vec<_>, _>>()?, piece.rows)
        })?;
        Ok(bytes)
    }

    /// The results of rows whose columns these are.
    fn results(&self, plan: &RowsPlan, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch, RunError> {
        let results = plan.results.iter().map(|result| computed(result, columns));
        let results = results.collect::<Result<_, _>>()?;
        Ok(batch(&self.plan.output, results, rows)?)
    }

    fn array(
        &self,
        column: &OutputColumn,
        values: &Values<'_>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, RunError> {
        match &column.form {
            OutputForm::Row(source) => {
                let texts = match source {
                    TextSource::Column(column) => Some(TextRows::of(self.view, *column, &self.chunks)),
                    TextSource::BuildSide { dimension, column } => self
                        .sides
                        .get(dimension)
                        .and_then(|side| side.get(column))
                        .cloned(),
                };
                let texts = texts.ok_or_else(|| RunError::Raised(format!("no texts of {source:?}")))?;
                texts.gather(&values.u64s(|row| row), nulls.as_ref(), &column.data_type)
            }
            form => Ok(values.array(form, nulls, &column.data_type)?),
        }
    }
}

/// A result of rows whose columns these are.
fn computed(result: &RowResult, columns: &[ArrayRef]) -> Result<ArrayRef, RunError> {
    let (function, arguments) = match result {
        RowResult::Column(number) => return Ok(ArrayRef::clone(&columns[*number])),
        RowResult::Computed { function, arguments } => (function, arguments),
    };
    let arguments = arguments.iter().map(|argument| computed(argument, columns));
    let evaluated = function.evaluate(&arguments.collect::<Result<Vec<_>, _>>()?)?;
    match evaluated.errors.into_iter().flatten().next() {
        Some(error) => Err(RunError::Raised(error)),
        None => Ok(evaluated.results),
    }
}
