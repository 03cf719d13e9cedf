//! Generates the body of a stream's persistent operator.
//!
//! Only types are available: a value can be any value of its type. So all decisions are made here, at
//! planning.
//!
//! ```text
//! parameters, 64 bits each:   error, tables of windows, their numbers of groups, unused, lookup tables ..., literals ...
//! compute(work):              rows of the frame, a thread each: columns, filters, then the code of rows.rs or windows.rs
//! ```

use super::frame::FrameLayout;
use super::plan::StreamPlan;
use super::rows::RowResults;
use super::settings::{BLOCK_THREADS, StreamSettings};
use super::windows::WindowResults;
use arrow::datatypes::DataType;
use galatea_base::reason::Reason;
use galatea_codegen::SinkPlan;
use galatea_expression::code::{Code, line};
use galatea_expression::{ColumnBinding, Emitter, Expr, HEADERS, LookupTable, Parameters, is_string};
use galatea_flow::{GpuOperator, Topic, Topology};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Number of parameters before the lookup tables.
const HEAD: usize = 4;

/// A stream as the device computes it.
#[derive(Debug)]
pub(crate) struct BoundStream {
    /// Layout of the frames of rows.
    pub(super) layout: FrameLayout,
    /// Layout of the frames of results.
    pub(super) results: Results,
    /// Bytes of a frame.
    pub(super) frame_bytes: usize,
    /// Literals and lookup tables.
    pub(super) parameters: Parameters,
    source: String,
}

/// Contents of result frames.
#[derive(Debug)]
pub(super) enum Results {
    /// Rows that passed.
    Rows(RowResults),
    /// Groups of windows.
    Windows(Box<WindowResults>),
}

impl BoundStream {
    /// The operator of a plan.
    ///
    /// # Errors
    /// The reason why these types are not supported.
    pub(crate) fn new(plan: &StreamPlan, settings: &StreamSettings) -> Result<Self, Reason> {
        let pipeline = &plan.pipeline;
        let codes = code_columns(&pipeline.sink);
        let sources: BTreeSet<usize> = match &pipeline.sink {
            SinkPlan::Rows { outputs, .. } => {
                let computed = outputs.iter().filter(|output| output.as_column().is_none());
                let read = pipeline.filters.iter().chain(computed);
                read.flat_map(Expr::columns).collect()
            }
            _ => pipeline.columns(),
        };
        let mut layout = FrameLayout::new(&plan.schema, &sources, &codes, settings.frame_bytes)?;
        let columns: Vec<usize> = sources.into_iter().collect();
        let here = |source: usize| columns.binary_search(&source).unwrap_or(usize::MAX);
        let rewrite = |expr: &Expr| match expr.as_column() {
            Some(source) if codes.contains(&source) => {
                Expr::column(here(source), DataType::UInt32, expr.nullable())
            }
            _ => expr.remap_columns(&here),
        };
        let bindings: Vec<ColumnBinding> = layout
            .columns
            .iter()
            .map(|column| column.binding.clone())
            .collect();
        let mut parameters = Parameters::default();
        let mut emitter = Emitter::new(&bindings, &mut parameters).with_guard("live");
        let mut row = Code::default();
        row.lines("bool live = exists;");
        let mut keep = Vec::new();
        for filter in &pipeline.filters {
            // A filter is evaluated only for rows that pass the filters before it.
            keep.push(emitter.emit_where(&keep, &rewrite(filter), &mut row)?.code);
        }
        if !keep.is_empty() {
            line!(row, "live = live && {};", keep.join(" && "));
        }
        let (results, before, after) = match &pipeline.sink {
            SinkPlan::Rows { outputs, .. } => {
                let results =
                    RowResults::new(outputs, &rewrite, settings, &mut layout, (&mut emitter, &mut row))?;
                let after = results.after_rows();
                (Results::Rows(results), String::new(), after)
            }
            SinkPlan::Aggregate { keys, aggregates, .. } => {
                let window = plan.window.ok_or_else(no_window)?;
                let calls = (keys.as_slice(), aggregates.as_slice());
                let results = WindowResults::new(
                    calls,
                    window,
                    &rewrite,
                    settings,
                    &codes,
                    (&mut emitter, &mut row),
                )?;
                let before = results.publish();
                (
                    Results::Windows(Box::new(results)),
                    before,
                    "work.set_output_bytes(0);".to_owned(),
                )
            }
            _ => return Err(no_window()),
        };
        // The positions of columns depend on the number of rows that have results in one frame.
        let mut columns = Code::default();
        layout.declare(&mut columns);
        columns.nest(0, &row);
        let source = body(&columns, (&before, &after), parameters.tables.len());
        Ok(Self {
            layout,
            results,
            frame_bytes: settings.frame_bytes,
            parameters,
            source,
        })
    }

    /// The operator, with the addresses of its data.
    pub(super) fn operator(&self, error: u64, windows: [u64; 2], tables: &[u64]) -> StreamOperator {
        let head = [error, windows[0], windows[1], 0];
        let literals = self.parameters.literals.iter();
        StreamOperator {
            source: self.source.clone(),
            words: head.iter().chain(tables).chain(literals).copied().collect(),
        }
    }

    /// The contents of its lookup tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = &[u8]> {
        self.parameters.tables.iter().map(|table| match table {
            LookupTable::Host(bytes) => &bytes[..],
            LookupTable::Interned | LookupTable::Built { .. } => {
                unreachable!("a stream has no build sides, and its keys are codes")
            }
        })
    }

    /// CUDA C++ of the kernel that runs it.
    pub(super) fn kernel(&self) -> String {
        let mut topology = Topology::new();
        let rows = topology.topic(Topic::new("rows"));
        let tables = vec![0; self.parameters.tables.len()];
        topology.link(Some(rows), self.operator(0, [0; 2], &tables), None);
        topology.kernel_source(BLOCK_THREADS).unwrap_or_default()
    }
}

fn no_window() -> Reason {
    Reason::Node {
        node: "a stream".into(),
        detail: "its groups are in no windows".into(),
    }
}

/// String columns that are group keys without further computation.
fn code_columns(sink: &SinkPlan) -> BTreeSet<usize> {
    let SinkPlan::Aggregate { keys, .. } = sink else {
        return BTreeSet::new();
    };
    let texts = keys.iter().filter(|key| is_string(key.data_type()));
    texts.filter_map(Expr::as_column).collect()
}

/// Source code of the operator: `rows` is the code for each row; `before` and `after` surround the loop over
/// rows.
fn body(rows: &Code, (before, after): (&str, &str), tables: usize) -> String {
    let mut code = Code::default();
    code.lines("struct Arguments { const u64* literals; const u8* const* tables; u32* error; };\n");
    code.lines("struct Operator {\n    GALATEA_INLINE static void begin() {}\n");
    code.lines("    GALATEA_INLINE static void compute(Work& work) {");
    let mut compute = Code::default();
    line!(
        compute,
        "const u64* const words = work.parameters<u64>();
const Arguments args = {{words + {}, reinterpret_cast<const u8* const*>(words + {HEAD}), reinterpret_cast<u32*>(words[0])}};
const u8* const frame = work.input<u8>();
u8* const out = work.output<u8>();
const u32* const command = work.input<u32>();
const u32 rows = command[1];
(void)out;",
        HEAD + tables
    );
    compute.lines(before);
    compute.lines("for (u32 base = 0; base < rows; base += work.threads()) {");
    let mut each = Code::default();
    each.lines("const u32 row = base + work.thread();\nconst bool exists = row < rows;");
    each.nest(0, rows);
    compute.nest(1, &each);
    compute.lines("}");
    compute.lines(after);
    compute.lines(
        "const u32 raised = *reinterpret_cast<volatile u32*>(args.error);\nif (raised != 0) work.fail(raised);",
    );
    code.nest(2, &compute);
    code.lines("    }\n};");
    code.as_str().to_owned()
}

/// The persistent operator of a stream.
#[derive(Debug)]
pub(super) struct StreamOperator {
    source: String,
    words: Vec<u64>,
}

/// Headers of accumulators and group tables, besides those of expressions.
const OPERATOR_HEADERS: [&str; HEADERS.len() + 2] = {
    let mut all = ["galatea/aggregate.cuh"; HEADERS.len() + 2];
    all[1] = "galatea/hash_table.cuh";
    let mut at = 0;
    while at < HEADERS.len() {
        all[at + 2] = HEADERS[at];
        at += 1;
    }
    all
};

impl GpuOperator for StreamOperator {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("stream")
    }

    fn source(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.source)
    }

    fn headers(&self) -> &[&'static str] {
        &OPERATOR_HEADERS
    }

    fn parameters(&self) -> Vec<u64> {
        self.words.clone()
    }
}
