//! Analysis of the bank and value conflicts of grouping by a column, with replicated accumulators and with a
//! conflict layout.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use galatea_engine::config::{DeviceChoice, GalateaConfig};
use galatea_engine::session::Session;
use galatea_layout::model::{
    Accumulators, Choice, GroupedAggregation, Groups, LaidOutColumn, Launch, Machine, predict,
};
use galatea_layout::{AccessPattern, Analyser, Conflicts, LayoutError, Tiles, for_each_access};
use galatea_store::DenseColumn;
use galatea_store::layout::{PIPELINE_TILES, TABLE_BYTES};
use galatea_store::{Column, ColumnSource, ConflictLayout, LoadHints, StoreError, StoredTable};

use super::rounded;
use super::table::{LaidOutTable, column_index, provider, session};

/// The numbers of copies to compare.
const REPLICAS: [u32; 4] = [1, 2, 8, 32];
/// The number of accesses that the prediction samples.
const SAMPLED_ACCESSES: usize = 4096;

/// The conflicts of one layout of the accumulators under one access pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct ConflictLine {
    /// The access pattern: the paper's or a pipeline's.
    pub pattern: &'static str,
    /// The layout of the accumulators.
    pub accumulators: String,
    /// Entries of the table, including copies and holes.
    pub slots: u64,
    /// The conflicts.
    pub conflicts: Conflicts,
}

/// Result of [`analyse_conflicts`].
#[derive(Debug, Clone)]
pub struct ConflictAnalysis {
    /// Number of sampled rows.
    pub rows: u64,
    /// Number of rows of the column.
    pub all_rows: u64,
    /// Number of groups: possible distinct values, including NULL.
    pub groups: u64,
    /// The lines.
    pub lines: Vec<ConflictLine>,
    /// The device of the prediction, and whether its rates were measured.
    pub device: String,
    /// Each layout's predicted time for one 64-bit sum per group, on that device.
    pub prediction: Choice,
}

impl ConflictAnalysis {
    /// The lines as rows.
    ///
    /// # Errors
    /// Arrow's, for columns of different lengths, which does not occur.
    pub fn batch(&self) -> Result<RecordBatch> {
        let texts = |text: &dyn Fn(&ConflictLine) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.lines.iter().map(text)))
        };
        let means = |mean: fn(&Conflicts) -> f64| -> ArrayRef {
            // Two decimals, as in Table 1 of the paper.
            let means = self.lines.iter().map(|line| rounded(mean(&line.conflicts), 2));
            Arc::new(Float64Array::from_iter_values(means))
        };
        let worst = |worst: fn(&Conflicts) -> u32| -> ArrayRef {
            let numbers = self.lines.iter().map(|line| worst(&line.conflicts));
            Arc::new(UInt32Array::from_iter_values(numbers))
        };
        let slots = self.lines.iter().map(|line| line.slots);
        Ok(RecordBatch::try_from_iter([
            ("pattern", texts(&|line| line.pattern.to_string())),
            ("accumulators", texts(&|line| line.accumulators.clone())),
            (
                "slots",
                Arc::new(UInt64Array::from_iter_values(slots)) as ArrayRef,
            ),
            ("banks", means(Conflicts::mean_banks)),
            ("read_rounds", means(Conflicts::mean_read_rounds)),
            ("write_rounds", means(Conflicts::mean_write_rounds)),
            ("worst_read", worst(|conflicts| conflicts.worst_read)),
            ("worst_write", worst(|conflicts| conflicts.worst_write)),
            ("between_warps", means(Conflicts::mean_between_warps)),
        ])?)
    }
}

/// Analyses the conflicts of grouping by `column` of `table`, with one 4-byte accumulator per group, from a
/// sample of the first `rows` rows. The table is any that a query can name, including paths of files.
///
/// # Errors
/// [`super::ConflictLayoutError`] for unknown tables and columns, [`StoreError::NoLayout`] for columns
/// without dense group numbers in shared memory, and DataFusion's.
pub async fn analyse_conflicts(
    ctx: &SessionContext,
    table: &TableReference,
    column: &str,
    rows: usize,
) -> Result<ConflictAnalysis> {
    let column = load(ctx, table, column).await?;
    let rows = rows.max(1);
    let name = column.name.clone();
    let (session, config) = session(ctx)?;
    let analyse = move || {
        let (device, machine) = machine(&session, &config);
        analyse(&column, rows, device, &machine)
    };
    let analysis = tokio::task::spawn_blocking(analyse).await;
    let analysis = analysis.map_err(|panic| StoreError::Internal(panic.to_string()))?;
    Ok(analysis.map_err(|reason| StoreError::NoLayout { column: name, reason })?)
}

/// The GPU of this session with its measured rates, or the reference machine, because the emulated device has
/// no times.
fn machine(session: &Arc<Session>, config: &GalateaConfig) -> (String, Machine) {
    let gpu = match config.device {
        DeviceChoice::Auto | DeviceChoice::Gpu => session.engine().device(config).ok(),
        DeviceChoice::Cpu | DeviceChoice::Emulated => None,
    };
    match gpu {
        Some(gpu) => {
            let machine = gpu.machine();
            let rates = if machine.measured {
                "measured"
            } else {
                "scaled from an H200's"
            };
            (format!("{} (rates {rates})", gpu.device().info().name), machine)
        }
        None => ("an H200 (no GPU is used here)".to_string(), Machine::H200),
    }
}

/// The encoded column, from the store or encoded now.
async fn load(ctx: &SessionContext, table: &TableReference, column: &str) -> Result<Arc<Column>> {
    let provider = provider(ctx, table).await?;
    let (session, _) = session(ctx)?;
    let store = session.engine().store();
    let schema = provider.schema();
    let index = column_index(&schema, table, column)?;
    let text = |data_type: &DataType| data_type.is_string() || data_type.is_binary();
    let hints = |index: usize, data_type: &DataType| match text(data_type) {
        true => LoadHints::with_dictionaries(vec![index]),
        false => LoadHints::default(),
    };
    if let Some(table) = LaidOutTable::of(ctx, &provider, store).await? {
        let hints = hints(index, schema.field(index).data_type());
        return Ok(table.load(index, &hints).await?);
    }
    let frame = ctx.read_table(provider)?;
    let plan = frame.select_columns(&[schema.field(index).name()])?;
    let plan = plan.create_physical_plan().await?;
    let made = StoredTable::from_plan(store, "rows to analyse", &plan, &ctx.task_ctx(), None).await?;
    let hints = hints(0, schema.field(index).data_type());
    let view = made.load(&[0], &hints, None).await?;
    Ok(Arc::clone(&view.columns[0]))
}

fn analyse(
    column: &Column,
    rows: usize,
    device: String,
    machine: &Machine,
) -> Result<ConflictAnalysis, galatea_store::NoLayout> {
    let dense = DenseColumn::of(column)?;
    let (groups, all_rows) = (dense.values, column.rows());
    let mut codes = dense.codes();
    codes.truncate(rows);
    let mut left = codes.len();
    let mut chunk_rows = dense.chunk_rows();
    chunk_rows.retain_mut(|rows| {
        *rows = (*rows as usize).min(left) as u32;
        left -= *rows as usize;
        *rows > 0
    });
    let ours = PIPELINE_TILES.in_chunks(&chunk_rows)?;
    let mut lines = Vec::new();
    let laid_out = compare("pipelines", &codes, groups, &ours, &mut lines)?;
    compare("paper", &codes, groups, &Tiles::paper(), &mut lines)?;

    let sample = sample(&codes, &ours);
    let width = column.encoding.bytes_per_row().unwrap_or(0);
    let aggregation = GroupedAggregation {
        rows: all_rows,
        // The column's codes, and the 64-bit values to sum.
        row_bytes: (width + size_of::<u64>()) as f64,
        groups: Groups::Sample {
            rows: &sample,
            groups,
        },
        accumulators: Accumulators {
            counts: 0,
            sums: 0,
            wide_sums: 1,
            high_halves: 1.0,
        },
        laid_out: Some(laid_out),
        instructions: 0.0,
    };
    let launch = Launch {
        threads: PIPELINE_TILES.threads,
        rows_per_thread: PIPELINE_TILES.rows_per_thread,
        shared_bytes: TABLE_BYTES,
    };
    Ok(ConflictAnalysis {
        rows: codes.len() as u64,
        all_rows,
        groups: groups as u64,
        lines,
        device,
        prediction: predict(&aggregation, &launch, machine),
    })
}

/// Adds the lines of a pattern. Returns the parameters of its layout for the cost model.
fn compare<P: AccessPattern>(
    name: &'static str,
    codes: &[u32],
    groups: usize,
    pattern: &P,
    lines: &mut Vec<ConflictLine>,
) -> Result<LaidOutColumn, LayoutError> {
    let analyser = Analyser {
        window: ConflictLayout::WINDOW,
        ..Analyser::default()
    };
    for copies in REPLICAS {
        lines.push(ConflictLine {
            pattern: name,
            accumulators: match copies {
                1 => "one copy".to_string(),
                copies => format!("{copies} copies"),
            },
            slots: groups as u64 * u64::from(copies),
            conflicts: analyser.groups(codes, pattern, |group, lane| {
                group * copies + lane as u32 % copies
            }),
        });
    }
    let found = ConflictLayout::AUTO.lay_out(codes.to_vec(), groups, pattern)?;
    lines.push(ConflictLine {
        pattern: name,
        accumulators: "slots".to_string(),
        slots: found.report.slots as u64,
        conflicts: analyser.words(&found.slots, pattern),
    });
    Ok(LaidOutColumn::from(&found.report))
}

/// The groups of complete accesses, from blocks spread over the rows.
fn sample<P: AccessPattern>(codes: &[u32], pattern: &P) -> Vec<u32> {
    let blocks = pattern.blocks(codes.len());
    let per_block = pattern.accesses(codes.len(), 0).max(1);
    let step = (blocks * per_block).div_ceil(SAMPLED_ACCESSES).max(1);
    let mut sample = Vec::new();
    for block in (0..blocks).step_by(step) {
        for_each_access(pattern, codes.len(), block, |lanes, rows| {
            if lanes.len() == pattern.lanes() {
                sample.extend(rows.iter().map(|row| codes[*row]));
            }
        });
    }
    // The column has fewer rows than an access has lanes.
    if sample.is_empty() { codes.to_vec() } else { sample }
}
