//! Groups of windows: their tables on the device, and their conversion to batches.
//!
//! The device has a ring of tables, one for each open window, and an additional one for rows with a NULL
//! time. A table holds groups by the other keys: a hash table, or accumulators for every possible group if
//! these are few. Windows are numbered, and a window has the table with its number modulo the size of the
//! ring. A publish command copies some slots of a table into a result frame, and clears them:
//!
//! ```text
//! used     a bit per slot of the command
//! words    the words of used slots, each at the position of its slot
//! ```

use super::error::StreamError;
use super::frame::{Places, bit};
use super::plan::Window;
use super::settings::{BLOCK_THREADS, StreamSettings};
use super::strings::StreamStrings;
use crate::results::{Integers, batch, records};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;
use galatea_base::policy::{Policy, policy};
use galatea_base::reason::Reason;
use galatea_codegen::accumulators::AccumulatorPlan;
use galatea_codegen::aggregate::AggregateCall;
use galatea_codegen::group_key::{GroupKey, KeyLayout, KeyPart};
use galatea_codegen::sink::add_to_global;
use galatea_expression::code::{Code, line};
use galatea_expression::{Emitter, Expr, Value};
use std::collections::BTreeSet;
use std::ops::Range;

policy! {
    /// Tables of windows.
    pub(super) struct WindowPolicy {
        /// Minimum number of tables of open windows: windows are published while rows of later ones arrive.
        tables: u64 = 8,
        /// Maximum number of tables; more would be open at once only if rows may be late by more than this
        /// number of windows.
        most_tables: u64 = 1024,
        /// Maximum number of possible groups of a window with separate accumulators for each group.
        dense_groups: u64 = 4096,
    }
}

const POLICY: WindowPolicy = WindowPolicy::DEFAULT;

/// The tuning policies of this module.
pub(super) fn listed() -> Policy {
    WindowPolicy::listed()
}

/// The error code of a full table.
pub(super) const TABLE_FULL: u32 = 0xfff0_0000;

/// A group key of the result.
#[derive(Debug)]
enum ResultKey {
    /// The start of the window.
    Window(DataType),
    /// The next part of the group key.
    Part,
    /// The same, as codes of the strings of a column of the source.
    Text(usize, DataType),
}

/// Layout of result frames with windows.
#[derive(Debug)]
pub(super) struct WindowResults {
    pub(super) window: Window,
    keys: Vec<ResultKey>,
    key: GroupKey,
    accumulators: AccumulatorPlan,
    /// Index of a slot's word that is nonzero if the slot has a group.
    occupied: usize,
    /// Number of slots of a table.
    pub(super) slots: u64,
    /// Maximum number of groups of a table.
    pub(super) limit: u64,
    /// Number of tables in the ring.
    pub(super) tables: u64,
    /// Number of slots of a command.
    pub(super) published: usize,
    /// Start of the words of slots in a result frame.
    words: usize,
    /// Allowed lateness of a row, in units of the window's time.
    pub(super) lateness: i64,
}

impl WindowResults {
    /// The results of these keys and calls. Appends the code for a row.
    ///
    /// # Errors
    /// Keys and calls that are not supported here.
    pub(super) fn new(
        (keys, calls): (&[Expr], &[AggregateCall]),
        window: Window,
        rewrite: &dyn Fn(&Expr) -> Expr,
        settings: &StreamSettings,
        codes: &BTreeSet<usize>,
        (emitter, row): (&mut Emitter<'_>, &mut Code),
    ) -> Result<Self, Reason> {
        let lateness = window.units(settings.lateness);
        let open = lateness as u64 / window.stride.unsigned_abs() + 3;
        let tables = open.max(POLICY.tables).next_power_of_two();
        if tables > POLICY.most_tables {
            return Err(Reason::Limit {
                expression: "windows that are open at once (galatea.stream.lateness)".into(),
                asked: open,
                limit: POLICY.most_tables,
                unit: "windows",
            });
        }
        let mut update = Code::default();
        let (mut values, mut results, mut start) = (Vec::new(), Vec::new(), None);
        for (number, key) in keys.iter().enumerate() {
            let value = emitter.emit(&rewrite(key), &mut update)?;
            if number == window.key {
                results.push(ResultKey::Window(key.data_type().clone()));
                start = Some(value);
                continue;
            }
            results.push(match key.as_column().filter(|column| codes.contains(column)) {
                Some(column) => ResultKey::Text(column, key.data_type().clone()),
                None => ResultKey::Part,
            });
            values.push(value);
        }
        let parts = values.iter().map(KeyPart::new).collect::<Result<Vec<_>, _>>()?;
        let key = GroupKey::new(parts, POLICY.dense_groups.min(settings.groups))?;
        let bounds = (u64::MAX, true);
        let mut accumulators = AccumulatorPlan::of_calls(calls, rewrite, bounds, emitter, &mut update)?;
        if !accumulators.extremes.is_empty() {
            return Err(Reason::Function {
                name: "MIN and MAX".into(),
                detail: "of strings without codes, and of values beyond 64 bits, in windows of a stream"
                    .into(),
            });
        }
        let (slots, limit, occupied) = match key.layout {
            KeyLayout::Dense { groups } => (groups, groups, accumulators.row_count()),
            // Each thread may insert one more group, since it checks their number before.
            _ => {
                let most = settings.groups + u64::from(settings.blocks) * u64::from(BLOCK_THREADS);
                ((most + 1).next_power_of_two(), settings.groups, 0)
            }
        };
        let slot = key.slot_key_words() + accumulators.words;
        let published = Places::rows_that_fit(settings.frame_bytes, 0, &[1, slot * 64])?;
        let mut places = Places::new(published, 0);
        places.array(1);
        let results = Self {
            window,
            keys: results,
            key,
            accumulators,
            occupied,
            slots,
            limit,
            tables,
            published,
            words: places.array(slot * 64),
            lateness,
        };
        if let Some(start) = start {
            results.emit_table(&start, emitter, &mut update);
        }
        results.emit_update(&values, &mut update);
        row.lines("if (live) {");
        row.nest(1, &update);
        row.lines("}");
        Ok(results)
    }

    /// Number of words of a slot.
    fn slot_words(&self) -> usize {
        self.key.slot_key_words() + self.accumulators.words
    }

    /// Number of words of all tables, including that of NULL.
    pub(super) fn table_words(&self) -> u64 {
        (self.tables + 1) * self.slots * self.slot_words() as u64
    }

    /// The table of the window with this number; `None`: of rows without a window.
    pub(super) fn table(&self, window: Option<i64>) -> u32 {
        let table = window.map_or(self.tables, |number| number as u64 & (self.tables - 1));
        table as u32
    }

    fn emit_table(&self, start: &Value, emitter: &mut Emitter<'_>, code: &mut Code) {
        let stride = emitter.parameter(self.window.stride as u64);
        line!(
            code,
            "const i64 window_start = i64({}), stride = i64(args.literals[{stride}]);",
            start.code
        );
        code.lines("const i64 window = window_start / stride - (window_start % stride < 0 ? 1 : 0);");
        let ring = format!("u32(u64(window) & {}ull)", self.tables - 1);
        match &start.null {
            Some(null) => line!(code, "const u32 table = {null} ? {}u : {ring};", self.tables),
            None => line!(code, "const u32 table = {ring};"),
        }
    }

    fn emit_update(&self, values: &[Value], code: &mut Code) {
        line!(
            code,
            "u64* const slots = reinterpret_cast<u64*>(words[1]) + u64(table) * {}ull;",
            self.slots * self.slot_words() as u64
        );
        self.key.emit(values, code);
        if let KeyLayout::Dense { .. } = self.key.layout {
            line!(
                code,
                "u64* const at = slots + u64(group) * {}u;",
                self.slot_words()
            );
            add_to_global(&self.accumulators, code);
            return;
        }
        line!(
            code,
            "const GroupTable groups = {{slots, {}ull, {}ull, reinterpret_cast<u64*>(words[2]) + table, {}u, {}u, false}};
u32 inserted = 0;
u64* const at = groups.find_or_insert(key, inserted);
if (at == nullptr) {{
    work.fail({TABLE_FULL}u);
}} else {{",
            self.slots,
            self.limit,
            self.key.key_words(),
            self.slot_words()
        );
        let mut update = Code::default();
        add_to_global(&self.accumulators, &mut update);
        code.nest(1, &update);
        code.lines("}");
    }

    /// The code for a publish command.
    pub(super) fn publish(&self) -> String {
        let slot = self.slot_words();
        format!(
            "\
if (command[0] == 1u) {{
    u64* const slots = reinterpret_cast<u64*>(words[1]) + u64(command[2]) * {}ull;
    for (u32 base = 0; base < rows; base += work.threads()) {{
        const u32 at = base + work.thread();
        u64* const slot = slots + u64(command[3] + (at < rows ? at : 0)) * {slot}u;
        const bool used = at < rows && reinterpret_cast<volatile u64*>(slot)[{}] != 0;
        store_bits(reinterpret_cast<u32*>(out), at, rows, used);
        if (used) {{
            u64* const to = reinterpret_cast<u64*>(out + {}u) + u64(at) * {slot}u;
            for (u32 word = 0; word < {slot}u; ++word) {{
                to[word] = reinterpret_cast<volatile u64*>(slot)[word];
                slot[word] = 0;
            }}
        }}
    }}
    if (work.thread() == 0) reinterpret_cast<u64*>(words[2])[command[2]] = 0;
    work.set_output_bytes({}u + rows * {}u);
    return;
}}",
            self.slots * slot as u64,
            self.occupied,
            self.words,
            self.words,
            slot * 8
        )
    }

    /// The groups of a window among those slots of its table, from a result frame; `None` if there are none.
    ///
    /// # Errors
    /// A frame of another length, or errors of Arrow and of aggregates.
    pub(super) fn batch(
        &self,
        schema: &SchemaRef,
        window: Option<i64>,
        slots: &Range<u64>,
        texts: &StreamStrings,
        (number, frame): (u64, &[u8]),
    ) -> Result<Option<RecordBatch>> {
        let (count, words) = ((slots.end - slots.start) as usize, self.slot_words());
        let bytes = self.words + count * words * 8;
        if frame.len() < bytes {
            return Err(StreamError::Frame {
                frame: number,
                asked: bytes as u64,
                there: frame.len() as u64,
            }
            .into());
        }
        let used: Vec<usize> = (0..count).filter(|slot| bit(frame, *slot)).collect();
        if used.is_empty() {
            return Ok(None);
        }
        let record = |slot: &usize| {
            let from = self.words + slot * words * 8;
            let (words, _) = frame[from..from + words * 8].as_chunks::<8>();
            words.iter().map(|word| u64::from_le_bytes(*word))
        };
        let groups: Vec<u64> = used.iter().flat_map(record).collect();
        let numbers = used.iter().map(|slot| slots.start + *slot as u64).collect();
        let found = records(&self.key, &self.accumulators, &groups, numbers);
        let mut found = found
            .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?
            .into_iter();
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for key in &self.keys {
            let mut next = || found.next().ok_or(StreamError::Ended);
            arrays.push(match key {
                ResultKey::Window(data_type) => {
                    let nulls = window.is_none().then(|| NullBuffer::new_null(used.len()));
                    let start = self.window.start(window.unwrap_or(0));
                    Integers::Narrow(vec![start; used.len()]).array(nulls, data_type)?
                }
                ResultKey::Part => next()?,
                ResultKey::Text(column, data_type) => texts.texts(*column, &next()?, data_type)?,
            });
        }
        arrays.extend(found);
        Ok(Some(batch(schema, arrays, used.len())?))
    }
}
