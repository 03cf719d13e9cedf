//! Sorts rows that are returned in order: they stay in output columns until the last launch, are sorted by
//! the words of their order, and are gathered column by column (late materialisation: the sort moves row
//! numbers, not rows).

use crate::device::{DeviceRuntime, RunError};
use crate::report::RunReport;
use crate::results::Rows;
use crate::rows::columns::Allocator;
use crate::string::interned::InternedStrings;
use crate::string::order::rank_strings;
use galatea_codegen::output::{OutputColumn, RowsPlan};
use galatea_device::{Access, DeviceBuffer, Stream};
use galatea_kernels::{KeyWidth, MAX_OUTPUTS, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};
use galatea_memory::{KeyWord, RadixSort, SortedRows};

/// The columns of rows to sort, and the words of their order.
#[derive(Debug)]
pub(crate) struct SortColumns {
    /// Outputs, then words, the most significant first.
    values: Vec<WorkingRegion<u8>>,
    /// For outputs that may be NULL, a byte per row.
    validity: Vec<Option<WorkingRegion<u8>>>,
    widths: Vec<usize>,
    /// Number of columns that are words.
    words: usize,
    /// Maximum number of rows.
    capacity: u64,
    owner: u64,
}

/// Bytes that sorting and gathering `rows` rows use besides the columns: keys and row numbers twice, then the
/// widest column in order.
pub(crate) fn sorting_bytes(columns: &[OutputColumn], words: usize, rows: u64) -> u64 {
    let keys = columns.iter().rev().take(words);
    let widths: Vec<KeyWidth> = keys.map(|column| width_of(column.row_bytes())).collect();
    let widest = columns.iter().map(OutputColumn::row_bytes).max().unwrap_or(0);
    RadixSort::scratch_bytes(&widths, rows).max((4 + widest as u64) * rows)
}

/// Words are integers of 32 or 64 bits.
fn width_of(bytes: usize) -> KeyWidth {
    match bytes {
        4 => KeyWidth::Four,
        _ => KeyWidth::Eight,
    }
}

impl SortColumns {
    /// Columns of a query for at most `rows` rows. The last `words` of them are words of the order.
    pub(crate) fn new(
        allocator: &Allocator<'_>,
        columns: &[OutputColumn],
        words: usize,
        rows: u64,
    ) -> Result<Self, RunError> {
        let capacity = rows.max(1);
        let values = columns
            .iter()
            .map(|c| allocator.bytes(capacity * c.row_bytes() as u64));
        let values = values.collect::<Result<_, _>>()?;
        let validity = columns
            .iter()
            .map(|c| c.nullable().then(|| allocator.bytes(capacity)).transpose());
        Ok(Self {
            values,
            validity: validity.collect::<Result<_, _>>()?,
            widths: columns.iter().map(OutputColumn::row_bytes).collect(),
            words,
            capacity,
            owner: allocator.owner,
        })
    }

    /// Maximum number of rows.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Points the kernel's arguments to the columns, which never become full.
    pub(crate) fn bind(&self, args: &mut PipelineArguments) {
        args.capacity = self.capacity;
        args.limit = u64::MAX;
        for (k, (values, valid)) in self.values.iter().zip(&self.validity).enumerate() {
            args.outputs[k] = values.address();
            args.outputs[MAX_OUTPUTS / 2 + k] = valid.as_ref().map_or(0, |valid| valid.address());
        }
    }

    fn regions(&mut self) -> impl Iterator<Item = &mut WorkingRegion<u8>> {
        self.values.iter_mut().chain(self.validity.iter_mut().flatten())
    }

    /// Lets other queries move the columns until [`Self::uses`] are granted.
    pub(crate) fn park(&mut self) {
        self.regions().for_each(WorkingRegion::park);
    }

    /// The regions that a launch accesses, and how.
    pub(crate) fn uses(&mut self) -> Vec<Use<'_>> {
        self.regions()
            .map(|column| column.used(Access::ReadWrite))
            .collect()
    }

    /// Sorts the first `count` rows, and moves the required number of them to the host. `texts` are the
    /// strings with places in the words; `in_order`: rows are in table order, and may already be sorted.
    #[expect(clippy::too_many_arguments, reason = "the end of one run, used in one place")]
    pub(crate) fn finish(
        mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        (plan, texts): (&RowsPlan, Option<&InternedStrings>),
        (count, in_order): (u64, bool),
        fetch: Option<u64>,
        rows: &Rows<'_>,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        let sort = RadixSort::new(runtime.memory());
        let outputs = self.values.len() - self.words;
        let mut keys = self.values.split_off(outputs);
        let mut words: Vec<KeyWord> = (keys.iter_mut().zip(&self.widths[outputs..]))
            .map(|(values, width)| KeyWord {
                width: width_of(*width),
                values,
            })
            .collect();
        if let Some(texts) = texts {
            let allocator = Allocator {
                runtime,
                stream,
                owner: self.owner,
                what: "the order of strings",
            };
            rank_strings(&allocator, texts, &mut words, &plan.texts, count as usize)?;
        }
        let sorted = match in_order && sort.are_in_order(stream, &words, count as usize)? {
            true => SortedRows::AS_THEY_ARE,
            false => sort.sort(stream, &mut words, count as usize)?,
        };
        report.sort_passes = sorted.passes;
        report.in_order = in_order && sorted.ids.is_none();
        drop(keys);
        let wanted = fetch.map_or(count, |fetch| fetch.min(count));
        let (mut values, mut validity) = (Vec::new(), Vec::new());
        // Each column is freed when it has been gathered.
        let gather = |column: WorkingRegion<u8>, width: usize| -> Result<WorkingRegion<u8>, RunError> {
            let Some(ids) = &sorted.ids else {
                return Ok(column);
            };
            let ids = ids.slice(..wanted as usize)?;
            let gathered: DeviceBuffer<u8> = sort.gather(stream, &column, ids, width)?;
            Ok(runtime.memory().working(self.owner, "rows in order", gathered))
        };
        let taken = self.values.into_iter().zip(self.validity).zip(&self.widths);
        for ((column, valid), width) in taken {
            values.push(gather(column, *width)?);
            validity.push(valid.map(|valid| gather(valid, 1)).transpose()?);
        }
        report.link_bytes += rows.take(stream, plan, (&values, &validity), wanted, sorted.ids.is_some())?;
        Ok(())
    }
}
