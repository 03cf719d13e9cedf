//! Generation: a bound pipeline becomes one CUDA C++ kernel.
//!
//! ```text
//! for each unit of rows of this block
//!     for each step of block × V rows                    a thread holds V consecutive rows
//!         live = bits of the rows that exist
//!         for each stage:  if live: load its columns; for each row: live &= conjuncts; in the last one: row → sink
//! ```
//!
//! A column that few rows still need is loaded in a stage of its own, by the threads that have a live row
//! left, which is what makes selective scans read less than their columns; columns that will be read anyway
//! are loaded together (`stages.rs`). Rows are decoded to the narrowest C++ type their interval allows; the
//! slots of placed columns are looked up in a table of their codes first. Before the units, dimensions that
//! have room are copied into shared memory (`dimension_home.rs`).

use super::bind::{AccessForm, AccumulatorPlan, ColumnAccess, Strategy, to_kernel_columns};
use super::dimension_home::DimensionInput;
use super::group_key::GroupKey;
use super::sink::build::{BuildPlan, GroupBuildPlan};
use super::sink::shared::SharedHome;
use super::sink::{self, OutputColumn};
use super::sink_rows::{Cardinality, SinkInput, Sunk, group_of_slot, row_strategy};
use super::stages;
use super::{PipelinePlan, SinkPlan};
use crate::config::{DimensionHome, GroupBy, GroupCombine, RowOutput};
use crate::expression::{ColumnKind, Dimension, Emitter, Expr, Parameters, kind_for};
use crate::reason::Reason;
use galatea_kernels::{MAX_LITERALS, MAX_TABLES};
use galatea_layout::model::Machine;
use galatea_store::TableView;
use std::fmt::Write;
use std::sync::Arc;

/// Tuning of a generated kernel that is not decided by the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Threads of a block: a power of two from 32 to 1024; 0: whatever suits the pipeline.
    pub block: u32,
    /// Most rows a thread holds; the generator takes fewer for expensive rows. A power of two up to 16.
    pub items: u32,
    /// Shared memory a block may ask for.
    pub shared_bytes: u64,
    /// What the model of grouped aggregation knows of the device.
    pub machine: Machine,
    /// Makes every hash zero, for tests of long probe sequences.
    pub collide: bool,
    /// Forced group-by strategy.
    pub group_by: GroupBy,
    /// Forced number of copies, 0: none.
    pub group_copies: u32,
    /// Which rows of a group are added up first, if that is forced.
    pub group_combine: GroupCombine,
    /// Bytes that copies of groups in device memory may take.
    pub copies_room: u64,
    /// Bytes that a fully sized hash table may have.
    pub hash_room: u64,
    /// Where rows that are returned go.
    pub row_output: RowOutput,
    /// Where dimensions are looked up.
    pub dimensions: DimensionHome,
}

impl Shape {
    /// Whether lanes of a warp combine their rows of a group before they update it in device memory. That
    /// costs nothing even where all groups differ: atomics take longer, and lanes that go on together issue
    /// them together (a million groups in a hash table, 100 million rows on an H200: 3.7 ms instead of 5.4).
    pub fn combines_at_home(&self) -> bool {
        matches!(self.group_combine, GroupCombine::Auto | GroupCombine::Warps)
    }
}

/// A pipeline ready to compile and run.
#[derive(Debug, Clone)]
pub struct BoundPipeline {
    /// The kernel, entry `pipeline`.
    pub source: Arc<str>,
    /// Literals and lookup tables.
    pub parameters: Parameters,
    /// The columns it reads, in kernel order.
    pub columns: Vec<ColumnAccess>,
    /// How rows are collected.
    pub strategy: Strategy,
    /// What to make of the sink's contents.
    pub result: ResultPlan,
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: u32,
    /// Rows of a thread in a step.
    pub items: u32,
    /// Rows of a unit.
    pub unit_rows: u32,
    /// Whether hashes are forced to collide.
    pub collide: bool,
    /// Rows of the table it was bound to: sums were proven to fit for that many.
    pub rows: u64,
    /// Guess of the share of rows that pass the filters.
    pub selectivity: f64,
    /// Literals that name the hot groups of a shared strategy.
    pub hot: Vec<usize>,
    /// Why dense groups are collected as they are.
    pub why: Option<String>,
    /// Of each dimension where it is looked up, and why, for people.
    pub dimensions: Vec<String>,
}

/// What the host makes of a sink's contents.
#[derive(Debug, Clone)]
pub enum ResultPlan {
    /// Groups of accumulator words; `key` is `None` for the single group of a scalar aggregate.
    Groups {
        /// The group key.
        key: Option<GroupKey>,
        /// The accumulators.
        accumulators: AccumulatorPlan,
        /// Word that tells used groups of a dense strategy from unused ones.
        occupied: Option<usize>,
    },
    /// Columns of rows.
    Rows(Vec<OutputColumn>),
    /// A build side, which stays on the device.
    Build(BuildPlan),
    /// Groups that stay on the device as a build side.
    BuildGroups(GroupBuildPlan),
}

impl BoundPipeline {
    /// Words of a group in global memory: key words of a hash slot, then accumulators.
    pub fn slot_words(&self) -> usize {
        match &self.result {
            ResultPlan::Groups {
                key, accumulators, ..
            } => {
                let key_words = match (&self.strategy, key) {
                    (Strategy::Hash { .. }, Some(key)) => key.slot_key_words(),
                    _ => 0,
                };
                key_words + accumulators.words
            }
            ResultPlan::Rows(_) | ResultPlan::Build(_) | ResultPlan::BuildGroups(_) => 0,
        }
    }
}

/// Whether row `i` of the thread exists and has passed the filters so far.
const LIVE: &str = "(live >> i & 1u) != 0";

/// Binds `plan` to the encodings of `view`, whose columns are `plan.columns()` in ascending order, and to the
/// rows of its dimensions.
pub fn bind(
    plan: &PipelinePlan,
    view: &TableView,
    dimensions: &[Arc<Dimension>],
    shape: Shape,
) -> Result<BoundPipeline, Reason> {
    let sources: Vec<usize> = plan.columns().into_iter().collect();
    let mut parameters = Parameters::default();
    let columns: Vec<ColumnAccess> = sources
        .iter()
        .zip(&view.columns)
        .map(|(source, column)| ColumnAccess::new(*source, column, &mut parameters))
        .collect();
    let rows = view.rows;
    let bindings: Vec<_> = columns.iter().map(|c| c.binding.clone()).collect();
    let rewrite = |e: &Expr| to_kernel_columns(e, &sources);
    let mut loaded = vec![false; columns.len()];
    let mut body = String::new();
    let homes = DimensionInput {
        plan,
        columns: &columns,
        rewrite: &rewrite,
        dimensions,
        shape: &shape,
        rows,
    }
    .homes()?;
    let shape = homes.beside(shape);

    let cost: u32 = plan.expressions().iter().map(|e| e.cost()).sum();
    let wide = columns
        .iter()
        .any(|c| matches!(c.form, AccessForm::Wide | AccessForm::Text { .. }));
    // More rows in flight hide latency as long as their registers leave room for enough threads: a single
    // group keeps its accumulators in a few registers, so cheap narrow rows can be held by the 16.
    let scalar = matches!(&plan.sink, SinkPlan::Aggregate { keys, .. } if keys.is_empty());
    let row_bytes: usize = columns.iter().map(|c| c.form.row_bytes()).sum();
    let items = if shape.group_by == GroupBy::Placed { 8 } else { 16 }
        .min(shape.items.min(homes.items(row_bytes)))
        .min(match cost {
            _ if shape.group_by == GroupBy::Placed => 8,
            0..=40 if scalar && row_bytes <= 16 => 16,
            0..=80 if !wide => 8,
            81..=200 if !wide => 4,
            _ => 2,
        });

    let filters: Vec<Expr> = plan.filters.iter().map(rewrite).collect();
    let append = matches!(plan.sink, SinkPlan::Materialise { .. } | SinkPlan::Build { .. });
    let sink_columns = plan
        .sink_expressions()
        .into_iter()
        .flat_map(|e| rewrite(e).columns())
        .collect();
    let stages = stages::plan(&filters, &columns, &sink_columns, append);
    let selectivity = stages::selectivity(&filters, &columns);
    let cardinality = Cardinality {
        rows,
        passing: rows as f64 * selectivity,
    };
    let mut sunk = Sunk {
        strategy: row_strategy(shape.row_output, cardinality),
        result: ResultPlan::Rows(Vec::new()),
        hot: Vec::new(),
        why: None,
    };
    for stage in &stages {
        let mut code = String::new();
        let mut emitter = Emitter::new(&bindings, &mut parameters)
            .with_dimensions(dimensions, &homes.packed)
            .with_guard(LIVE);
        let mut keep = Vec::new();
        for index in &stage.filters {
            // A filter is evaluated for the rows that those before it keep.
            keep.push(emitter.emit_where(&keep, &filters[*index], &mut code)?.code);
        }
        if !keep.is_empty() {
            let _ = writeln!(code, "if (!({})) live &= ~(1u << i);", keep.join(" && "));
        }
        if stage.sink {
            let row = code.len();
            code.push_str("if ((live >> i & 1u) == 0) continue;\n");
            let input = SinkInput {
                plan,
                view,
                columns: &columns,
                rewrite: &rewrite,
                items,
                shape,
                cardinality,
            };
            sunk = input.sink_rows(emitter, &mut code)?;
            body.push_str(match sunk.strategy {
                Strategy::Append { .. } => sink::append::RESERVE,
                Strategy::Chains => sink::chains::RESERVE,
                _ => "",
            });
            if sunk.strategy.combines_warps() {
                code.insert_str(row, sink::TOGETHER);
                body.push_str(sink::WARP_LIVE);
            }
        }
        let frame = StageFrame {
            columns: &columns,
            used: stage.columns.iter().copied().collect(),
            items,
        };
        frame.open(&mut loaded, &mut body);
        body.push_str(&indent(&code, 4));
        frame.close(&mut body);
        if stage.sink {
            body.push_str(match &sunk.strategy {
                Strategy::Shared(layout) => sink::shared::after_rows(layout),
                Strategy::Hash { waits: true, .. } => sink::hash::AFTER_ROWS,
                _ => "",
            });
        }
    }
    if let Strategy::Shared(layout) = &mut sunk.strategy
        && let SharedHome::Placed { column, table, .. } = &mut layout.home
    {
        *table = parameters.table(group_of_slot(&columns[*column], &sunk.result));
    }

    let block = match (&sunk.strategy, shape.block) {
        (Strategy::Shared(layout), _) => layout.block,
        _ => homes.block(shape.block),
    };
    let mut bound = BoundPipeline {
        source: Arc::from(""),
        parameters,
        columns,
        strategy: sunk.strategy,
        result: sunk.result,
        hot: sunk.hot,
        why: sunk.why,
        dimensions: Vec::new(),
        block,
        dynamic_shared: 0,
        items,
        unit_rows: 0,
        collide: shape.collide,
        rows,
        selectivity,
    };
    let steps = if matches!(
        bound.strategy,
        Strategy::Hash { waits: true, .. } | Strategy::Append { .. } | Strategy::Chains
    ) {
        1
    } else {
        4
    };
    bound.unit_rows = block * items * steps;
    let sink = sink::frame(&bound);
    let dimensions = homes.prologue(sink.dynamic_shared, block, &mut bound.parameters);
    bound.dynamic_shared = homes.dynamic_shared(sink.dynamic_shared);
    bound.source = kernel(&bound, items, &sink, &dimensions, &body).into();
    bound.dimensions = homes.notes;
    check(&bound.parameters)?;
    Ok(bound)
}

/// Refuses what the argument of the kernel has no room for.
fn check(parameters: &Parameters) -> Result<(), Reason> {
    for (asked, limit, unit) in [
        (parameters.literals.len(), MAX_LITERALS, "literals"),
        (parameters.tables.len(), MAX_TABLES, "lookup tables"),
    ] {
        if asked > limit {
            return Err(Reason::Limit {
                expression: "pipeline".into(),
                asked: asked as u64,
                limit: limit as u64,
                unit,
            });
        }
    }
    Ok(())
}

/// One `if (live)` block: loads, then a loop over the thread's rows.
struct StageFrame<'a> {
    columns: &'a [ColumnAccess],
    used: Vec<usize>,
    items: u32,
}

impl StageFrame<'_> {
    fn open(&self, loaded: &mut [bool], body: &mut String) {
        // Registers are declared outside the condition so that later stages see them.
        let fresh: Vec<usize> = self.used.iter().copied().filter(|k| !loaded[*k]).collect();
        for &k in &fresh {
            loaded[k] = true;
            if let Some(element) = element(self.columns[k].form) {
                let _ = writeln!(body, "            Rows<{element}, {}> q{k};", self.items);
            }
            if self.columns[k].nullable {
                let _ = writeln!(body, "            u32 v{k} = 0;");
            }
        }
        body.push_str("            if (live != 0) {\n");
        for &k in &fresh {
            if let Some(element) = element(self.columns[k].form) {
                let _ = writeln!(
                    body,
                    "            q{k} = load_rows<{element}, {}>(d{k}, row);",
                    self.items
                );
            }
            if self.columns[k].nullable {
                let _ = writeln!(
                    body,
                    "            v{k} = load_validity<{}>(m{k}, row);",
                    self.items
                );
            }
        }
        let _ = writeln!(
            body,
            "#pragma unroll\n            for (int i = 0; i < {}; ++i) {{",
            self.items
        );
        for &k in &self.used {
            let column = &self.columns[k];
            let _ = writeln!(body, "                {}", decode(k, column));
            if column.nullable {
                let _ = writeln!(
                    body,
                    "                const bool c{k}_null = (v{k} >> i & 1u) == 0;"
                );
            }
        }
    }

    fn close(&self, body: &mut String) {
        body.push_str("            }\n            }\n");
    }
}

/// C++ element type of a column's codes; `None` when nothing is loaded per row.
fn element(form: AccessForm) -> Option<&'static str> {
    Some(match form {
        AccessForm::Integer { width, .. } | AccessForm::Code { width } => match width {
            0 => return None,
            1 => "u8",
            2 => "u16",
            4 => "u32",
            _ => "u64",
        },
        AccessForm::Boolean => "u8",
        AccessForm::Float32 => "float",
        AccessForm::Float64 => "double",
        AccessForm::Wide => "i128",
        AccessForm::Text { .. } => return None,
    })
}

/// The declaration of `c{k}` for row `i`.
fn decode(k: usize, column: &ColumnAccess) -> String {
    let code = match column.placed {
        // What was loaded for a row that is not there, or dropped out before, is no slot.
        Some(_) => format!("s{k}[{LIVE} ? q{k}[i] : 0]"),
        None => format!("q{k}[i]"),
    };
    match (column.form, &column.binding.kind) {
        (AccessForm::Integer { width, factor }, ColumnKind::Integer { min, max }) => {
            let ctype = kind_for(*min, *max).c_type();
            // Codes are unsigned and their product with the factor stays inside the interval, modulo 2^n.
            let unsigned = match ctype {
                "i32" => "u32",
                "i64" => "u64",
                _ => "u128",
            };
            match (width, factor) {
                (0, _) => format!("const {ctype} c{k} = {ctype}(b{k});"),
                (_, 1) => format!("const {ctype} c{k} = {ctype}({unsigned}(b{k}) + {unsigned}({code}));"),
                _ => format!(
                    "const {ctype} c{k} = {ctype}({unsigned}(b{k}) + {unsigned}({code}) * {unsigned}({factor}ull));"
                ),
            }
        }
        (AccessForm::Wide, ColumnKind::Integer { min, max }) => {
            let ctype = kind_for(*min, *max).c_type();
            format!("const {ctype} c{k} = {ctype}(q{k}[i]);")
        }
        (AccessForm::Boolean, _) => format!("const bool c{k} = q{k}[i] != 0;"),
        (AccessForm::Float32, _) => format!("const float c{k} = q{k}[i];"),
        (AccessForm::Float64, _) => format!("const double c{k} = q{k}[i];"),
        (AccessForm::Code { width: 0 }, _) => format!("const u32 c{k} = 0;"),
        (AccessForm::Code { .. }, _) => format!("const u32 c{k} = u32({code});"),
        (AccessForm::Text { offset_width }, _) => format!(
            "const Text c{k} = text_at<{}>(o{k}, d{k}, row + i, end);",
            if offset_width == 4 { "u32" } else { "u64" }
        ),
        (form, kind) => format!("#error column {k}: {form:?} as {kind:?}"),
    }
}

/// The parts of a kernel that depend on the sink.
#[derive(Debug, Default)]
pub struct SinkFrame {
    /// Statements before the loop over units.
    pub prologue: String,
    /// The headers it needs beside those of every pipeline.
    pub headers: &'static [&'static str],
    /// Declares `unit`, the first one of this block; by default from the arguments.
    pub first_unit: Option<&'static str>,
    /// Statements at the start of each unit; may `break`.
    pub unit: String,
    /// Statements after `live` has the bits of the rows that exist.
    pub live: &'static str,
    /// Statements at the end of each unit; may `break`.
    pub unit_end: &'static str,
    /// Statements after the loop.
    pub epilogue: String,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
}

const FIRST_UNIT: &str = "u32 unit = args.resume ? args.progress[blockIdx.x] : args.first_unit + blockIdx.x;";

fn kernel(bound: &BoundPipeline, items: u32, sink: &SinkFrame, dimensions: &str, body: &str) -> String {
    let mut s = String::with_capacity(4096 + body.len());
    for header in [
        "prelude",
        "tile",
        "aggregate",
        "hash_table",
        "arithmetic",
        "decimal",
        "datetime",
        "strings",
    ]
    .iter()
    .chain(sink.headers)
    .chain(
        if body.contains("key_table_find") && !sink.headers.contains(&"key_table") {
            &["key_table"][..]
        } else {
            &[]
        },
    ) {
        let _ = writeln!(s, "#include \"galatea/{header}.cuh\"");
    }
    s.push_str("using namespace galatea;\n\n");
    let block = bound.block;
    let _ = writeln!(
        s,
        "extern \"C\" __global__ void __launch_bounds__({block}) pipeline(const __grid_constant__ PipelineArguments args) {{"
    );
    s.push_str(&indent(&sink.prologue, 1));
    s.push_str(&indent(dimensions, 1));
    for (k, column) in bound.columns.iter().enumerate() {
        if let Some(placed) = &column.placed {
            let _ = writeln!(
                s,
                "    const u32* const s{k} = (const u32*)args.tables[{}];",
                placed.table
            );
        }
    }
    s.push_str("    u32 passed = 0;\n    ChunkCursor cursor(args);\n");
    s.push_str("    ");
    s.push_str(sink.first_unit.unwrap_or(FIRST_UNIT));
    s.push('\n');
    s.push_str("    for (; unit < args.end_unit; unit += gridDim.x) {\n");
    s.push_str(&indent(&sink.unit, 2));
    s.push_str("        cursor.seek(unit);\n");
    let _ = writeln!(
        s,
        "        const u32 begin = (unit - cursor.first_unit()) * {}u;",
        bound.unit_rows
    );
    let _ = writeln!(s, "        const u32 rows = cursor.rows();");
    let _ = writeln!(
        s,
        "        const u32 end = rows - begin < {0}u ? rows : begin + {0}u;",
        bound.unit_rows
    );
    for (k, column) in bound.columns.iter().enumerate() {
        if element(column.form).is_some() || matches!(column.form, AccessForm::Text { .. }) {
            let _ = writeln!(s, "        const unsigned char* d{k} = cursor.data({k});");
        }
        if matches!(column.form, AccessForm::Text { .. }) {
            let _ = writeln!(s, "        const unsigned char* o{k} = cursor.offsets({k});");
        }
        if matches!(column.form, AccessForm::Integer { .. }) {
            let _ = writeln!(s, "        const i64 b{k} = cursor.base({k});");
        }
        if column.nullable {
            let _ = writeln!(s, "        const unsigned char* m{k} = cursor.validity({k});");
        }
    }
    let _ = writeln!(
        s,
        "        for (u32 step = begin; step < end; step += {}u) {{",
        block * items
    );
    let _ = writeln!(s, "            const u32 row = step + threadIdx.x * {items}u;");
    let all = (1u32 << items) - 1;
    let _ = writeln!(
        s,
        "            u32 live = row >= end ? 0u : end - row >= {items}u ? {all}u : (1u << (end - row)) - 1u;"
    );
    s.push_str(&indent(sink.live, 3));
    s.push_str(body);
    s.push_str("            passed += __popc(live);\n        }\n");
    s.push_str(&indent(sink.unit_end, 2));
    s.push_str("    }\n");
    s.push_str(&indent(&sink.epilogue, 1));
    s.push_str("    passed = __reduce_add_sync(0xffffffffu, passed);\n");
    s.push_str("    if ((threadIdx.x & 31u) == 0 && passed != 0) atomicAdd(args.counters + 2, (unsigned long long)passed);\n}\n");
    s
}

/// Indents every line by `depth` steps of four blanks.
pub fn indent(code: &str, depth: usize) -> String {
    let pad = "    ".repeat(depth);
    code.lines()
        .fold(String::with_capacity(code.len() * 2), |mut all, line| {
            let _ = writeln!(all, "{}{line}", if line.starts_with('#') { "" } else { &pad });
            all
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, RecordBatch, StringArray};
    use galatea_store::{ConflictLayout, Store, StoreOptions, StoredTable};

    /// A slot that was loaded for a row that is not there may be anything: it must not be looked up.
    #[test]
    fn slots_are_looked_up_for_live_rows_alone() {
        let numbers = Int32Array::from_iter_values((0..100).map(|row| row % 3 * 10));
        let words = StringArray::from_iter_values((0..100).map(|row| ["a", "b"][row % 2]));
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _), ("w", Arc::new(words) as _)]);
        let batch = batch.expect("columns of one length");
        let store = Store::new(StoreOptions::default());
        let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).expect("encoded");
        let placing = table.set_conflict_layout(&[0, 1], Some(ConflictLayout::AUTO));
        futures::executor::block_on(placing).expect("placed");
        let mut parameters = Parameters::default();
        let codes = table.snapshot().columns.clone().into_iter().enumerate();
        let codes: Vec<String> = codes
            .map(|(k, column)| decode(k, &ColumnAccess::new(k, &column, &mut parameters)))
            .collect();
        assert_eq!(
            codes,
            [
                "const i32 c0 = i32(u32(b0) + u32(s0[(live >> i & 1u) != 0 ? q0[i] : 0]) * u32(10ull));",
                "const u32 c1 = u32(s1[(live >> i & 1u) != 0 ? q1[i] : 0]);",
            ]
        );
        assert_eq!(parameters.tables.len(), 2);
    }
}
