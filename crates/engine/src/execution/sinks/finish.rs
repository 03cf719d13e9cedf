//! After the last launch, the contents of a sink are completed, and kept on the device or read back.

use super::{CONTROL_WORDS, Form, SMALL_WORDS, SinkState};
use crate::device::{DeviceRuntime, RunError};
use crate::joins::build_table::BuiltTable;
use crate::report::RunReport;
use crate::results::Rows;
use crate::results::contents::{Contents, GroupStorage};
use crate::rows::columns::Allocator;
use crate::rows::heap::RowHeap;
use crate::rows::zeroed;
use crate::string::interned::InternedStrings;
use galatea_base::policy::policy;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::group_layout::DenseLayout;
use galatea_codegen::sink::chains::RowLayout;
use galatea_codegen::strategy::Strategy;
use galatea_device::{DeviceBuffer, In, InOut, Out, Stream};
use galatea_expression::LookupSide;
use galatea_kernels::{CollectGroups, DenseFold, GroupEntries};
use std::ops::Range;

policy! {
    /// When dense groups are collected on the device before they are read, without accumulators that have no
    /// row.
    pub(crate) struct FinishPolicy {
        /// Minimum number of accumulator words: reading 40,000 and scanning them on the host takes 0.4 ms,
        /// counting and collecting on the device about ten microseconds.
        collected_words: usize = 1 << 15,
        /// Divisor of the number of accumulators: the quotient is the maximum number of groups.
        collected_share: usize = 2,
    }
}

const POLICY: FinishPolicy = FinishPolicy::DEFAULT;

impl SinkState {
    /// After the last launch: merges copies of groups, if any.
    pub(crate) fn fold(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        merges: Option<&DeviceBuffer<u8>>,
    ) -> Result<(), RunError> {
        if let (Strategy::Dense(DenseLayout { groups, .. }), Some(merges)) = (&bound.strategy, merges) {
            let words = self.control.slice_mut(CONTROL_WORDS..)?;
            DenseFold::new(runtime.device())?.launch(stream, InOut(words), In(merges), *groups)?;
        }
        Ok(())
    }

    /// After the last launch: completes a build side of query number `owner`.
    pub(crate) fn complete(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        owner: u64,
    ) -> Result<(), RunError> {
        let allocator = Allocator {
            runtime,
            stream,
            owner,
            what: "a join or a window",
        };
        if let Form::Build(table) = &mut self.form {
            table.complete(&allocator, &mut self.control, self.texts.as_ref())?;
            if !table.finds_strings() {
                self.texts = None;
            }
        }
        Ok(())
    }

    /// Reads the contents back, unless they stay on the device. Remaining rows are passed to `rows`.
    pub(crate) fn finish(
        mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        rows: &Rows<'_>,
        report: &mut RunReport,
    ) -> Result<Contents, RunError> {
        if let Some(build_side) = self.kept.take() {
            return self.keep(runtime, stream, bound, build_side, report);
        }
        let end = match self.form {
            Form::Array(words) => CONTROL_WORDS + words,
            _ => CONTROL_WORDS,
        };
        let small = end <= SMALL_WORDS;
        let mut control = stream.read(&self.control, ..if small { end } else { CONTROL_WORDS })?;
        let mut contents = Contents {
            rows_passed: control[3],
            error: control[0] as u32,
            bytes: 8 * control.len() as u64,
            ..Contents::default()
        };
        let read = !matches!(self.form, Form::Build(_) | Form::Sort(_));
        let texts = self.texts.as_ref().filter(|_| read);
        if let (0, Some(texts)) = (contents.error, texts) {
            contents.texts = texts.read(stream)?;
            contents.bytes += contents.texts.bytes();
        }
        match self.form {
            Form::Array(_) if small => contents.groups = GroupStorage::Host(control.split_off(CONTROL_WORDS)),
            Form::Array(_) => {
                let words = CONTROL_WORDS..end;
                contents.groups = match self.few_groups(runtime, stream, bound, words.clone())? {
                    Some(groups) => GroupStorage::Numbered(groups),
                    None => GroupStorage::Fixed(self.control, words),
                };
            }
            Form::Hash(mut table) => {
                let (mut held, waiting) = (control[1], control[4]);
                if waiting > 0 {
                    let (control, rows) = ((&mut *self.control, 1), (held, waiting));
                    table.merge(runtime, stream, control, rows, self.texts.as_ref(), report)?;
                    held = stream.read(&self.control, 1..2)?[0];
                }
                report.groups = Some(held);
                if let Some(groups) = table.collect(runtime, stream, held, report)? {
                    contents.groups = GroupStorage::Collected(groups);
                }
            }
            Form::Append { .. } => {}
            Form::Sort(columns) => {
                if let (0, ResultPlan::Rows(plan)) = (contents.error, &bound.result) {
                    let (count, fetch) = (control[1], self.fetch);
                    let plan = (plan, self.texts.as_ref());
                    let in_order = matches!(bound.strategy, Strategy::Sort { in_order: true, .. });
                    columns.finish(runtime, stream, plan, (count, in_order), fetch, rows, report)?;
                }
            }
            Form::Build(mut table) => {
                // After an error, such as full memory for strings, rows are missing.
                if contents.error == 0 {
                    table.check(control[3], control[1])?;
                }
                table.add_strings(self.texts);
                table.add_string_rows(rows.strings_left());
                table.park();
                contents.built = Some(table);
            }
            Form::Chains { mut heap, layout } => {
                gather(runtime, stream, bound, &mut heap, &layout, rows, report)?;
                stream.synchronize()?;
                heap.keep(runtime, stream, report)?;
            }
        }
        Ok(contents)
    }

    /// The groups that have a row, as `[word][group]` after their numbers, if dense accumulators use much
    /// memory and most of them are empty. Otherwise, and if memory for them is insufficient, all accumulators
    /// are read.
    fn few_groups(
        &self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        words: Range<usize>,
    ) -> Result<Option<DeviceBuffer<u64>>, RunError> {
        let ResultPlan::Aggregate {
            occupied: Some(marker),
            ..
        } = bound.result
        else {
            return Ok(None);
        };
        if words.len() < POLICY.collected_words {
            return Ok(None);
        }
        let entries = GroupEntries {
            words: bound.slot_words() as u32,
            marker: marker as u32,
            numbered: true,
        };
        let most = words.len() / bound.slot_words() / POLICY.collected_share;
        let collect = CollectGroups::new(runtime.device())?;
        let table = self.control.slice(words)?;
        let collected = |groups: usize| -> Result<_, RunError> {
            let words = (groups * entries.columns()) as u64;
            let mut collected = zeroed(runtime, stream, words, "groups to return")?;
            let mut used = runtime.zeroed::<u64>(stream, 1, "a counter")?;
            collect.launch(stream, In(table), Out(&mut collected), InOut(&mut used), entries)?;
            Ok((collected, stream.read(&used, ..)?[0] as usize))
        };
        let (_, groups) = collected(0)?;
        if groups > most {
            return Ok(None);
        }
        match collected(groups) {
            Err(RunError::Memory { .. }) => Ok(None),
            collected => Ok(Some(collected?.0)),
        }
    }

    /// Keeps the groups on the device as the input of another pipeline, described by `build_side`.
    fn keep(
        mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        build_side: LookupSide,
        report: &mut RunReport,
    ) -> Result<Contents, RunError> {
        let control = stream.read(&self.control, ..CONTROL_WORDS)?;
        let built = match self.form {
            Form::Array(words) => {
                self.control.park();
                let texts = self.texts.map(InternedStrings::parked);
                let entries = words / bound.slot_words().max(1);
                BuiltTable::of_table(build_side, self.control, CONTROL_WORDS, entries as u64, texts)
            }
            Form::Hash(mut table) => {
                let (mut held, waiting) = (control[1], control[4]);
                if waiting > 0 {
                    let (control, rows) = ((&mut *self.control, 1), (held, waiting));
                    table.merge(runtime, stream, control, rows, self.texts.as_ref(), report)?;
                    held = stream.read(&self.control, 1..2)?[0];
                }
                report.groups = Some(held);
                let (slots, entries) = table.keep(runtime, stream, report)?;
                let texts = self.texts.map(InternedStrings::parked);
                BuiltTable::of_table(build_side, slots, 0, entries, texts)
            }
            form => unreachable!("{form:?} has no groups"),
        };
        Ok(Contents {
            rows_passed: control[3],
            error: control[0] as u32,
            bytes: 8 * control.len() as u64,
            built: Some(built),
            ..Contents::default()
        })
    }
}

/// Moves the output rows in chains of pages to the host.
pub(super) fn gather(
    runtime: &DeviceRuntime,
    stream: &Stream,
    bound: &BoundPipeline,
    heap: &mut RowHeap,
    layout: &RowLayout,
    rows: &Rows<'_>,
    report: &mut RunReport,
) -> Result<(), RunError> {
    let gathered = heap.gather(runtime, stream, report)?;
    report.pages += gathered.pages;
    if let ResultPlan::Rows(plan) = &bound.result {
        report.link_bytes += rows.take_gathered(stream, plan, layout, &gathered)?;
    }
    Ok(())
}
