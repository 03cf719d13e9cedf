//! Binding: adapts a plan to the encodings of its columns.
//!
//! All choices that depend on the data and on the device model (`KernelOptions::machine`) are taken here: how
//! each column is read and decoded, which accumulators the aggregates need, how keys become groups, which
//! strategy the group-by uses, and which memory holds the build sides.

use super::bound::{BoundPipeline, MorselOrder};
use super::column_access::{AccessForm, ColumnAccess};
use super::generate::{self, Lookups};
use super::lookup_memory::BuildSideInput;
use super::options::KernelOptions;
use super::plan::{PipelinePlan, SinkPlan};
use super::rows::{LIVE, RowLoops};
use super::sink_choice::{BoundSink, Cardinality, SinkInput};
use super::stages::{self, Stage};
use super::strategy::Strategy;
use crate::choices::GroupBy;
use galatea_base::reason::Reason;
use galatea_expression::code::{Code, line};
use galatea_expression::{Emitter, Expr, LookupSide, LookupTable, Parameters, Part};
use galatea_kernels::{MAX_LITERALS, MAX_TABLES};
use galatea_store::TableView;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Binds `plan` to the encodings of `view` and to the rows of its build sides. The columns of `view` are
/// `plan.columns()` in ascending order.
///
/// # Errors
/// The [`Reason`] why no kernel supports these encodings.
pub fn bind(
    plan: &PipelinePlan,
    view: &TableView,
    build_sides: &[Arc<LookupSide>],
    options: KernelOptions,
) -> Result<BoundPipeline, Reason> {
    let sources: Vec<usize> = plan.columns().into_iter().collect();
    let mut parameters = Parameters::default();
    let columns: Vec<ColumnAccess> = sources
        .iter()
        .zip(&view.columns)
        .map(|(source, column)| ColumnAccess::new(*source, column, &mut parameters))
        .collect();
    let rewrite = |e: &Expr| to_kernel_columns(e, &sources);
    let lookups = BuildSideInput {
        plan,
        columns: &columns,
        rewrite: &rewrite,
        build_sides,
        options: &options,
        rows: view.rows,
    }
    .choose()?;
    let options = lookups.remaining(options);
    let row_bytes: usize = columns.iter().map(|c| c.form.row_bytes()).sum();
    let looks_up = lookups.packed.iter().any(Option::is_none);
    let items = rows_of_a_thread(plan, &columns, looks_up, &options).min(lookups.items(row_bytes));

    let filters: Vec<Expr> = plan.filters.iter().map(rewrite).collect();
    let sink_columns: BTreeSet<usize> = plan
        .sink_expressions()
        .into_iter()
        .flat_map(|e| rewrite(e).columns())
        .collect();
    let stages = stages::plan(
        options.selection,
        &filters,
        &columns,
        &sink_columns,
        plan.sink.writes_rows(),
    );
    let selectivity = stages::selectivity(&filters, &columns);

    let bindings: Vec<_> = columns.iter().map(|c| c.binding.clone()).collect();
    let mut loops = RowLoops::new(&columns, items);
    let mut body = Code::default();
    // A warp has consecutive rows if the rows are those of a table, or of the inputs of a union, in order.
    let in_order = !build_sides.iter().any(|build_side| build_side.gives_rows());
    let offsets = in_order.then(|| {
        columns
            .iter()
            .map(|column| column.form.offset_type())
            .collect::<Vec<_>>()
    });
    // Evaluates the conjuncts of a stage for row `i`. Statements that are emitted afterwards are evaluated
    // only if they hold.
    let filter_row = |stage: &Stage, emitter: &mut Emitter<'_>, row: &mut Code, body: &mut Code| {
        let mut keep = Vec::new();
        for index in &stage.filters {
            // The first filter is needed for all rows.
            if let (0, Some(offsets)) = (*index, &offsets) {
                emitter.begin_scans(offsets.clone(), items);
            }
            // A filter is evaluated only for rows that pass the previous filters.
            keep.push(emitter.emit_where(&keep, &filters[*index], row)?.code);
            body.nest(0, &emitter.end_scans());
        }
        if !keep.is_empty() {
            line!(row, "if (!({})) live &= ~(1u << i);", keep.join(" && "));
        }
        Ok::<_, Reason>(())
    };
    for stage in &stages.before {
        let mut row = Code::default();
        let mut emitter = Emitter::new(&bindings, &mut parameters)
            .with_build_sides(build_sides, &lookups.packed)
            .with_guard(LIVE);
        filter_row(stage, &mut emitter, &mut row, &mut body)?;
        loops.stage(&stage.columns, &row, &mut body);
    }
    let mut row = Code::default();
    let mut emitter = Emitter::new(&bindings, &mut parameters)
        .with_build_sides(build_sides, &lookups.packed)
        .with_guard(LIVE);
    filter_row(&stages.last, &mut emitter, &mut row, &mut body)?;
    let input = SinkInput {
        plan,
        view,
        columns: &columns,
        rewrite: &rewrite,
        items,
        options: &options,
        cardinality: Cardinality {
            rows: view.rows,
            passing: view.rows as f64 * selectivity,
        },
        looks_up,
    };
    let mut values = Code::default();
    let BoundSink {
        sink,
        strategy,
        result,
        why,
    } = input.bind(emitter, &mut values)?;
    sink.before_rows(&mut body);
    if sink.is_warp_aggregated() {
        // The mask of live rows is computed while all lanes of the warp still execute. Later the compiler may
        // choose any mask of active lanes, and lanes that wait for others would hang.
        body.lines("const u32 warp_live = __ballot_sync(0xffffffffu, live != 0);");
        row.lines("const u32 active = __ballot_sync(warp_live, (live >> i & 1u) != 0);");
    }
    row.lines("if ((live >> i & 1u) == 0) continue;");
    row.nest(0, &values);
    sink.row(&mut row);
    loops.stage(&stages.last.columns, &row, &mut body);
    sink.after_rows(&mut body);

    let block = match (&strategy, options.block) {
        (Strategy::Shared(layout), _) => layout.block,
        (Strategy::Partition { block, .. }, _) => *block,
        (_, forced) => lookups.block(forced),
    };
    let mut looked_up = Lookups {
        code: lookups.prologue(sink.dynamic_shared(), block, &mut parameters),
        finds_keys: build_sides.iter().any(|build_side| build_side.has_key_table()),
        pairs: false,
        windows: build_sides.iter().any(|build_side| build_side.is_windows()),
        entries: build_sides.iter().any(|build_side| build_side.is_entries()),
    };
    // The threads of a block read adjacent entries, but each thread reads adjacent rows of a column.
    debug_assert!(
        !looked_up.entries || view.columns.is_empty(),
        "a pipeline over entries scans no columns"
    );
    for (number, _) in (build_sides.iter().enumerate()).filter(|(_, build_side)| build_side.is_pairs()) {
        let directory = LookupTable::Built {
            build_side: number,
            part: Part::Directory,
        };
        let table = parameters.lookup_table(directory);
        line!(looked_up.code, "PairCursor pairs{number}(args.tables[{table}]);");
        looked_up.pairs = true;
    }
    // If the rows are partitioned, blocks stay close together, so that few partitions are in use at a time.
    let in_partitions = build_sides.iter().any(|build_side| build_side.is_partitions());
    let steps = match in_partitions {
        true => 1,
        false => sink.steps(),
    };
    let morsel_order = match (in_partitions, sink.resumed_morsel()) {
        (false, _) => MorselOrder::Strided,
        (true, Some(_)) => MorselOrder::StridedClosely,
        (true, None) => MorselOrder::Claimed,
    };
    let mut bound = BoundPipeline {
        source: Arc::from(""),
        parameters,
        columns,
        strategy,
        result,
        block,
        dynamic_shared: lookups.dynamic_shared(sink.dynamic_shared()),
        items,
        morsel_rows: block * items * steps,
        morsel_order,
        awaits: options.awaits,
        heap: options.heap,
        collide: options.collide,
        rows: view.rows,
        selectivity,
        why,
        build_sides: lookups.notes,
    };
    bound.source = generate::kernel(&bound, &*sink, &looked_up, &body).into();
    check(&bound.parameters)?;
    Ok(bound)
}

/// Rows per thread in a step. More rows in flight hide latency as long as their registers leave enough for
/// other threads. A single group keeps its accumulators in a few registers, so a thread can hold 16 narrow
/// rows with cheap expressions, unless they look up build sides in device memory: 8 such rows per thread are
/// 9 % faster than 16 (`bench/results/2026-11-28-nvidia-h100/partitioned-rows.txt`).
fn rows_of_a_thread(
    plan: &PipelinePlan,
    columns: &[ColumnAccess],
    looks_up: bool,
    options: &KernelOptions,
) -> u32 {
    let cost: u32 = plan.expressions().iter().map(|e| e.cost()).sum();
    let wide = columns
        .iter()
        .any(|c| matches!(c.form, AccessForm::Wide | AccessForm::Text { .. }));
    let scalar = matches!(&plan.sink, SinkPlan::Aggregate { keys, .. } if keys.is_empty());
    let row_bytes: usize = columns.iter().map(|c| c.form.row_bytes()).sum();
    let most = match cost {
        // The number of rows per thread that columns are laid out for.
        _ if options.group_by == GroupBy::Slots => 8,
        0..=40 if scalar && row_bytes <= 16 && !looks_up => 16,
        0..=80 if !wide => 8,
        81..=200 if !wide => 4,
        _ => 2,
    };
    most.min(options.items)
}

/// Rewrites source columns of an expression to kernel columns.
fn to_kernel_columns(expr: &Expr, columns: &[usize]) -> Expr {
    expr.remap_columns(&|source| columns.binary_search(&source).unwrap_or(usize::MAX))
}

/// Refuses parameters that exceed the kernel's argument.
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
