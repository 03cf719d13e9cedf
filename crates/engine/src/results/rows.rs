//! Rows of an append sink.

use super::pieces::Part;
use super::string_gather::GatheredStrings;
use super::values::Values;
use super::{Outlet, batch};
use crate::device::RunError;
use crate::string::late_materialised::{self, StringRows, StringsOfSide};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use galatea_codegen::PipelinePlan;
use galatea_codegen::output::{OutputColumn, OutputForm, RowResult, RowsPlan, StringSource};
use galatea_codegen::sink::chains::RowLayout;
use galatea_device::{DeviceSlice, Stream};
use galatea_expression::Raised;
use galatea_memory::GatheredRows;
use galatea_memory::regions::WorkingRegion;
use galatea_store::TableView;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of an append sink, passed on in pieces.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    plan: &'a PipelinePlan,
    view: &'a TableView,
    /// By position in the chunk table.
    chunks: Arc<[usize]>,
    /// Strings of build sides, by the number of the build side.
    sides: BTreeMap<usize, StringsOfSide>,
    outlet: Outlet<'a>,
}

impl<'a> Rows<'a> {
    /// The pipeline.
    pub(crate) fn plan(&self) -> &PipelinePlan {
        self.plan
    }

    /// A reader of rows that has passed nothing to `outlet` yet.
    pub(crate) fn new(
        plan: &'a PipelinePlan,
        view: &'a TableView,
        chunks: Arc<[usize]>,
        sides: BTreeMap<usize, StringsOfSide>,
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

    /// The strings of the rows that the run leaves on the device.
    pub(crate) fn strings_left(&self) -> StringsOfSide {
        late_materialised::left_by(self.plan, self.view, &self.chunks, &self.sides)
    }

    /// Number of rows passed on so far.
    pub(crate) fn count(&self) -> u64 {
        self.outlet.rows()
    }

    /// Reads `count` rows from the output columns, which are in scan order or were `sorted`. Returns the
    /// number of bytes read.
    pub(crate) fn take(
        &self,
        stream: &Stream,
        plan: &RowsPlan,
        (outputs, validity): (&[WorkingRegion<u8>], &[Option<WorkingRegion<u8>>]),
        count: u64,
        sorted: bool,
    ) -> Result<u64, RunError> {
        let texts = (plan.columns.iter().zip(outputs)).map(|(column, output)| {
            let rows = || Ok(output.slice(..count as usize * column.row_bytes())?);
            self.strings_on_device(stream, column, sorted, rows)
        });
        let texts: Vec<Option<GatheredStrings>> = texts.collect::<Result<_, _>>()?;
        let mut parts = Vec::new();
        let mut places = Vec::new();
        let columns = plan.columns.iter().zip(outputs).zip(validity).zip(&texts);
        for (((column, output), valid), texts) in columns {
            places.push(parts.len());
            parts.push(match texts {
                Some(texts) => Part::Starts(&texts.starts),
                None => Part::Bytes(output, column.row_bytes()),
            });
            let flags = texts.as_ref().and_then(|texts| texts.valid.as_ref());
            parts.extend(flags.map(|flags| Part::Bytes(flags, 1)));
            parts.extend(valid.as_ref().map(|valid| Part::Bytes(valid, 1)));
        }
        places.push(parts.len());
        let bytes = self.outlet.pieces(stream, count as usize, &parts, |piece| {
            let arrays =
                (plan.columns.iter().zip(places.windows(2)).zip(&texts)).map(|((column, place), texts)| {
                    let flags = (place[0] + 1..place[1]).map(|part| nulls_of(piece.bytes(part)));
                    let nulls = flags.reduce(|all, flags| &all & &flags).map(NullBuffer::new);
                    match texts {
                        Some(texts) => texts.array(piece, piece.words(place[0]), nulls, &column.data_type),
                        None => self.array(column, &Values::Bytes(piece.bytes(place[0])), nulls),
                    }
                });
            self.results(plan, &arrays.collect::<Result<Vec<_>, _>>()?, piece.rows)
        })?;
        Ok(bytes + total_bytes(&texts))
    }

    /// The strings of an output for these row numbers, if the device gathers them. It does if they are
    /// scattered, because of an order or as strings of a build side.
    fn strings_on_device<'d>(
        &self,
        stream: &Stream,
        column: &OutputColumn,
        sorted: bool,
        rows: impl FnOnce() -> Result<DeviceSlice<'d, u8>, RunError>,
    ) -> Result<Option<GatheredStrings>, RunError> {
        match &column.form {
            OutputForm::Row(source) if sorted || matches!(source, StringSource::BuildSide { .. }) => {
                let texts = self.strings_of(source)?;
                texts.on_device(self.outlet.runtime(), stream, rows()?)
            }
            _ => Ok(None),
        }
    }

    /// The strings of an output.
    fn strings_of(&self, source: &StringSource) -> Result<StringRows, RunError> {
        let texts = match source {
            StringSource::Column(column) => Some(StringRows::of(self.view, *column, &self.chunks)),
            StringSource::BuildSide { build_side, column } => self
                .sides
                .get(build_side)
                .and_then(|side| side.get(column))
                .cloned(),
        };
        texts.ok_or_else(|| RunError::Defect(format!("no strings of {source:?}")))
    }

    /// Reads rows of words gathered from page chains. Returns the number of bytes read.
    pub(crate) fn take_gathered(
        &self,
        stream: &Stream,
        plan: &RowsPlan,
        layout: &RowLayout,
        gathered: &GatheredRows,
    ) -> Result<u64, RunError> {
        let rows = gathered.rows;
        let texts = (plan.columns.iter().zip(&layout.fields)).map(|(column, (field, _))| {
            let words = field.word * rows..(field.word + 1) * rows;
            let rows = || Ok(gathered.columns.slice(words)?.into_bytes());
            self.strings_on_device(stream, column, false, rows)
        });
        let texts: Vec<Option<GatheredStrings>> = texts.collect::<Result<_, _>>()?;
        let mut parts: Vec<Part> = (0..layout.words)
            .map(|word| Part::Words(&gathered.columns, word * rows))
            .collect();
        // The words of rows are followed by those of strings.
        let mut places = vec![parts.len()];
        for texts in &texts {
            parts.extend(texts.as_ref().map(|texts| Part::Starts(&texts.starts)));
            let flags = texts.as_ref().and_then(|texts| texts.valid.as_ref());
            parts.extend(flags.map(|flags| Part::Bytes(flags, 1)));
            places.push(parts.len());
        }
        let bytes = self.outlet.pieces(stream, rows, &parts, |piece| {
            let columns = plan.columns.iter().zip(&layout.fields);
            let arrays = (columns.zip(places.windows(2)).zip(&texts)).map(
                |(((column, (field, valid)), place), texts)| {
                    let valid = valid.map(|valid| {
                        let bits = piece.words(valid.word);
                        BooleanBuffer::collect_bool(piece.rows, |i| bits[i] >> valid.bit & 1 != 0)
                    });
                    if let Some(texts) = texts {
                        let flags = (place[0] + 1..place[1]).map(|part| nulls_of(piece.bytes(part)));
                        let nulls = flags
                            .chain(valid)
                            .reduce(|all, flags| &all & &flags)
                            .map(NullBuffer::new);
                        return texts.array(piece, piece.words(place[0]), nulls, &column.data_type);
                    }
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
                    self.array(column, &values, valid.map(NullBuffer::new))
                },
            );
            self.results(plan, &arrays.collect::<Result<Vec<_>, _>>()?, piece.rows)
        })?;
        Ok(bytes + total_bytes(&texts))
    }

    /// The results computed from these columns.
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
                let texts = self.strings_of(source)?;
                texts.gather(&values.u64s(|row| row), nulls.as_ref(), &column.data_type)
            }
            form => Ok(values.array(form, nulls, &column.data_type)?),
        }
    }
}

/// The validity of rows, from flags of one byte each.
fn nulls_of(flags: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(flags.len(), |i| flags[i] != 0)
}

/// Total bytes of strings that were gathered on the device.
fn total_bytes(texts: &[Option<GatheredStrings>]) -> u64 {
    texts.iter().flatten().map(|texts| texts.total).sum()
}

/// A result computed from these columns.
fn computed(result: &RowResult, columns: &[ArrayRef]) -> Result<ArrayRef, RunError> {
    let (function, arguments) = match result {
        RowResult::Column(number) => return Ok(ArrayRef::clone(&columns[*number])),
        RowResult::Computed { function, arguments } => (function, arguments),
    };
    let arguments = arguments.iter().map(|argument| computed(argument, columns));
    let evaluated = function.evaluate(&arguments.collect::<Result<Vec<_>, _>>()?)?;
    match evaluated.errors.into_iter().flatten().next() {
        Some(error) => Err(RunError::Raised(Box::new(Raised::Named(error)))),
        None => Ok(evaluated.results),
    }
}
