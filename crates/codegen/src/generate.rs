//! Generation: a bound pipeline becomes one CUDA C++ kernel.
//!
//! ```text
//! for each morsel of this block
//!     for each step of block × V rows                    a thread holds V consecutive rows
//!         live = bits of the rows that exist
//!         for each stage:  if live: load its columns; for each row: live &= conjuncts; in the last one: row → sink
//! ```
//!
//! A column that few rows still need is loaded in a stage of its own, by the threads that have a live row
//! left, which is what makes selective scans read less than their columns; columns that will be read anyway
//! are loaded together (`stages.rs`). Rows are decoded to the narrowest C++ type their interval allows; the
//! slots of laid-out columns are looked up in a table of their codes first (`rows.rs`). Before the morsels,
//! small dimensions are copied into shared memory (`dimension_memory.rs`). The sink adds its own statements
//! (`sink`).

use super::bound::BoundPipeline;
use super::rows;
use super::sink::{Geometry, Sink};
use galatea_expression::code::{Code, line};

/// Headers of every pipeline.
const HEADERS: [&str; 8] = [
    "prelude",
    "morsel",
    "aggregate",
    "hash_table",
    "arithmetic",
    "decimal",
    "datetime",
    "strings",
];

/// Header of the tables of keys that rows are looked up in, or stored in.
const KEY_TABLE: &str = "key_table";

/// Header of joins whose keys repeat.
const PAIRS: &str = "pairs";

/// Header of rows in the order of a window.
const WINDOWS: &str = "windows";

/// Header of regular expressions.
const AUTOMATON: &str = "automaton";

/// Header of texts that are made of others.
const MADE_TEXT: &str = "made_text";

/// Header of texts that are found by their places.
const INTERNED: &str = "interned";

/// Header of texts that a warp goes through together.
const TEXT_SCAN: &str = "text_scan";

/// What a pipeline looks up, as far as the text of the kernel depends on it.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// The statements that copy dimensions into shared memory, and that declare cursors of pairs.
    pub(super) code: Code,
    /// Whether it finds keys in tables of keys.
    pub(super) finds_keys: bool,
    /// Whether its rows are the pairs of a join.
    pub(super) pairs: bool,
    /// Whether its rows are those of a window.
    pub(super) windows: bool,
    /// Whether its rows are entries that another pipeline left on the device.
    pub(super) entries: bool,
}

/// The kernel of a pipeline: `stages` is what is done with the rows of a step.
pub(super) fn kernel(bound: &BoundPipeline, sink: &dyn Sink, lookups: &Lookups, stages: &Code) -> String {
    let (block, items) = (bound.block, bound.items);
    let geometry = Geometry { block, items };
    let mut code = Code::default();
    if bound.awaits {
        code.lines("#define GALATEA_AWAITS_CHUNKS");
    }
    let headers = HEADERS.iter().chain(sink.headers());
    let also = [
        (lookups.finds_keys, &KEY_TABLE),
        (lookups.pairs, &PAIRS),
        (lookups.windows, &WINDOWS),
        (bound.parameters.has_automata, &AUTOMATON),
        (bound.parameters.makes_texts, &MADE_TEXT),
        (bound.parameters.finds_texts, &INTERNED),
        (bound.parameters.scans_texts, &TEXT_SCAN),
    ];
    let also = also
        .into_iter()
        .filter(|(needed, header)| *needed && !sink.headers().contains(header));
    for header in headers.chain(also.map(|(_, header)| header)) {
        line!(code, "#include \"galatea/{header}.cuh\"");
    }
    line!(code, "using namespace galatea;\n");
    line!(
        code,
        "extern \"C\" __global__ void __launch_bounds__({block}) pipeline(const __grid_constant__ PipelineArguments args) {{"
    );
    let mut body = Code::default();
    sink.prologue(geometry, &mut body);
    body.nest(0, &lookups.code);
    rows::declare_slot_tables(&bound.columns, &mut body);
    body.lines("u32 passed = 0;\nChunkCursor cursor(args);");
    line!(body, "u32 morsel = {};", sink.first_morsel());
    body.lines("for (; morsel < args.end_morsel; morsel += gridDim.x) {");
    body.nest(1, &morsel(bound, sink, lookups.entries, stages));
    body.lines("}");
    sink.epilogue(geometry, &mut body);
    body.lines(
        "\
passed = __reduce_add_sync(0xffffffffu, passed);
if ((threadIdx.x & 31u) == 0 && passed != 0) atomicAdd(args.counters + 2, (unsigned long long)passed);
",
    );
    code.nest(1, &body);
    code.lines("}");
    code.as_str().to_owned()
}

/// What a block does with a morsel. A thread has rows that follow each other in columns, which it loads as
/// vectors; entries are looked up row by row, so those that follow each other are of different threads.
fn morsel(bound: &BoundPipeline, sink: &dyn Sink, entries: bool, stages: &Code) -> Code {
    let (block, items, rows) = (bound.block, bound.items, bound.morsel_rows);
    let mut code = Code::default();
    sink.begin_morsel(&mut code);
    code.lines("cursor.seek(morsel);");
    if bound.awaits {
        code.lines("cursor.wait_for_arrival(args.arrivals);");
    }
    line!(
        code,
        "const u32 begin = (morsel - cursor.first_morsel()) * {rows}u;"
    );
    code.lines("const u32 rows = cursor.rows();");
    line!(
        code,
        "const u32 end = rows - begin < {rows}u ? rows : begin + {rows}u;"
    );
    rows::declare_buffers(&bound.columns, &mut code);
    line!(
        code,
        "for (u32 step = begin; step < end; step += {}u) {{",
        block * items
    );
    let mut step = Code::default();
    let all = (1u32 << items) - 1;
    let (first, left) = match entries {
        true => (
            "threadIdx.x".to_owned(),
            format!("(end - row + {}u) / {block}u", block - 1),
        ),
        false => (format!("threadIdx.x * {items}u"), "end - row".to_owned()),
    };
    line!(step, "const u32 row = step + {first};");
    line!(
        step,
        "u32 live = row >= end ? 0u : {left} >= {items}u ? {all}u : (1u << ({left})) - 1u;"
    );
    sink.begin_step(&mut step);
    step.nest(0, stages);
    step.lines("passed += __popc(live);");
    code.nest(1, &step);
    code.lines("}");
    sink.end_morsel(&mut code);
    code
}
