//! Code generation: a bound pipeline becomes one CUDA C++ kernel.
//!
//! ```text
//! for each morsel of this block
//!     for each step of block × V rows                    a thread holds V consecutive rows
//!         live = bits of the rows that exist
//!         for each stage:  if live: load its columns; for each row: live &= conjuncts; in the last one: row → sink
//! ```
//!
//! A column that only few rows need is loaded in a stage of its own, by the threads that still have a live
//! row. Selective scans thereby read only parts of their columns. Columns that would be read in any case are
//! loaded together (`stages.rs`). Rows are decoded to the narrowest C++ type that their interval allows; the
//! slots of laid-out columns are first translated to codes by a lookup table (`rows.rs`). Before the morsels,
//! small build sides are copied into shared memory (`lookup_memory.rs`). The sink adds its own statements
//! (`sink`).

use super::aggregate::BLOCK_ROWS;
use super::bound::{BoundPipeline, MorselOrder};
use super::rows;
use super::sink::{Geometry, Sink};
use super::used_headers;
use galatea_expression::code::{Code, line};
use galatea_kernels::heap::HeapBuild;

/// Headers of every pipeline.
const HEADERS: [&str; 2] = ["prelude", "morsel"];

/// Header of key tables, which rows are looked up in or inserted into.
const KEY_TABLE: &str = "key_table";

/// Header of multimap joins.
const PAIRS: &str = "pairs";

/// Header of rows in pages of a heap.
const PAGE_CHAIN: &str = "page_chain";

/// Header of windows.
const WINDOWS: &str = "windows";

/// Header of regular expressions.
const AUTOMATON: &str = "automaton";

/// Header of computed strings.
const COMPUTED_STRING: &str = "computed_string";

/// Header of interned strings.
const INTERNED: &str = "interned";

/// Header of string searches by whole warps.
const STRING_SCAN: &str = "string_scan";

/// The lookups of a pipeline that affect its kernel's source.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// The statements that copy build sides into shared memory and declare cursors over pairs.
    pub(super) code: Code,
    /// Whether it searches key tables.
    pub(super) finds_keys: bool,
    /// Whether its rows are the pairs of a join.
    pub(super) pairs: bool,
    /// Whether its rows are in the order of a window.
    pub(super) windows: bool,
    /// Whether its rows are entries that another pipeline left on the device.
    pub(super) entries: bool,
}

/// The kernel of a pipeline. `stages` contains the statements for the rows of a step.
pub(super) fn kernel(bound: &BoundPipeline, sink: &dyn Sink, lookups: &Lookups, stages: &Code) -> String {
    let (block, items) = (bound.block, bound.items);
    let geometry = Geometry { block, items };
    let mut body = Code::default();
    sink.prologue(geometry, &mut body);
    body.nest(0, &lookups.code);
    rows::declare_slot_tables(&bound.columns, &mut body);
    body.lines("u32 passed = 0;\nChunkCursor cursor(args);");
    if bound.morsel_order == MorselOrder::Claimed {
        // The host divides launches so that no block has to exceed its maximum.
        let most = (BLOCK_ROWS / u64::from(bound.morsel_rows)).max(1);
        body.lines("__shared__ u32 claimed[2];\nMorselClaims claims(args);\nu32 morsel;");
        line!(
            body,
            "for (u32 mine = 0; mine < {most}u && (morsel = claims.next(claimed)) < args.end_morsel; ++mine) {{"
        );
    } else {
        let first = sink.resumed_morsel().unwrap_or("args.first_morsel + blockIdx.x");
        line!(body, "u32 morsel = {first};");
        body.lines("for (; morsel < args.end_morsel; morsel += gridDim.x) {");
    }
    body.nest(1, &morsel(bound, sink, lookups.entries, stages));
    body.lines("}");
    sink.epilogue(geometry, &mut body);
    body.lines(
        "\
passed = __reduce_add_sync(0xffffffffu, passed);
if ((threadIdx.x & 31u) == 0 && passed != 0) atomicAdd(args.counters + 2, (unsigned long long)passed);
",
    );
    let mut code = Code::default();
    if bound.awaits {
        code.lines("#define GALATEA_AWAITS_CHUNKS");
    }
    if sink.headers().contains(&PAGE_CHAIN) && bound.heap != HeapBuild::default() {
        for (name, value) in bound.heap.definitions() {
            match value {
                Some(value) => line!(code, "#define {name} {value}"),
                None => line!(code, "#define {name}"),
            }
        }
    }
    let used: Vec<&str> = used_headers::used_by(body.as_str()).collect();
    let headers = HEADERS.iter().chain(&used).chain(sink.headers());
    let also = [
        (lookups.finds_keys, &KEY_TABLE),
        (lookups.pairs, &PAIRS),
        (lookups.windows, &WINDOWS),
        (bound.parameters.has_automata, &AUTOMATON),
        (bound.parameters.computes_strings, &COMPUTED_STRING),
        (bound.parameters.finds_strings, &INTERNED),
        (bound.parameters.scans_strings, &STRING_SCAN),
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
    code.nest(1, &body);
    code.lines("}");
    code.as_str().to_owned()
}

/// The loop over a morsel. Columns are loaded as vectors, so a thread has consecutive rows. Entries are
/// looked up row by row, so consecutive entries belong to different threads.
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
    code.lines("const u32 rows = cursor.rows();\nconst u64 first_row = cursor.first_row();");
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
