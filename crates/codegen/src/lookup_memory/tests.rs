use super::*;
use crate::aggregate::{AggregateCall, AggregateFunction};
use crate::bind::bind;
use crate::bound::BoundPipeline;
use crate::choices::{GroupBy, GroupCombine, RowOutput, Selection};
use crate::strategy::Strategy;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use galatea_device::{Architecture, Tier, compile_for, testing};
use galatea_kernels::Pipeline;
use galatea_kernels::heap::HeapBuild;
use galatea_store::{ConflictLayout, Store, StoreOptions, StoredTable, TableView};

const FACT: [(&str, DataType); 3] = [
    ("k", DataType::Int32),
    ("w", DataType::Utf8),
    ("v", DataType::Int64),
];

/// Facts with keys from 0 to 99, some NULL, in an integer column and in a string column. Both are laid out if
/// `laid_out`.
fn facts(rows: i64, laid_out: bool) -> TableView {
    let key = |row: i64| (row % 13 > 0).then_some((row * row % 100) as i32);
    let numbers: Int32Array = (0..rows).map(key).collect();
    let words: StringArray = (0..rows)
        .map(|row| key(row).map(|key| format!("w{key}")))
        .collect();
    let values = Int64Array::from_iter_values(0..rows);
    let columns: [ArrayRef; 3] = [Arc::new(numbers), Arc::new(words), Arc::new(values)];
    let columns = FACT
        .iter()
        .zip(columns)
        .map(|((name, _), values)| (*name, values, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("one length");
    let store = Store::new(StoreOptions::default());
    let table = StoredTable::from_batches(&store, "f", batch.schema(), [batch]).expect("encoded");
    if laid_out {
        let change = table.set_conflict_layout(&[0, 1], Some(ConflictLayout::AUTO));
        futures::executor::block_on(change).expect("laid out");
    }
    table.snapshot().view()
}

/// A build side with these keys and columns of every kind, with values from `low` on.
fn build_side(keys: ArrayRef, low: i64) -> Arc<LookupSide> {
    let rows = 0..keys.len() as i64;
    let wide: Decimal128Array = rows.clone().map(|row| Some(i128::from(row) << 70)).collect();
    let columns: Vec<(usize, ArrayRef)> = vec![
        (
            1,
            Arc::new(Int32Array::from_iter(
                rows.clone()
                    .map(|row| (row % 3 > 0).then_some((low + row % 50) as i32)),
            )),
        ),
        (
            2,
            Arc::new(
                rows.clone()
                    .map(|row| Some(row % 2 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            3,
            Arc::new(StringArray::from_iter_values(
                rows.clone().map(|row| format!("n{}", row % 5)),
            )),
        ),
        (
            4,
            Arc::new(Float32Array::from_iter_values(rows.clone().map(|row| row as f32))),
        ),
        (
            5,
            Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| row as f64))),
        ),
        (
            6,
            Arc::new(Int64Array::from_iter_values(rows.map(|row| row << 40))),
        ),
        (
            7,
            Arc::new(wide.with_precision_and_scale(38, 0).expect("a decimal type")),
        ),
    ];
    Arc::new(LookupSide::new("k", &keys, &columns, true).expect("close keys"))
}

fn numbers(keys: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(keys))
}

fn column(column: usize) -> Expr {
    Expr::column(column, FACT[column].1.clone(), true)
}

fn lookup(column: usize, data_type: DataType, key: usize) -> Expr {
    Expr::lookup(0, column, &Field::new("d", data_type, true), self::column(key))
}

fn call(function: AggregateFunction, argument: Option<Expr>, result: DataType) -> AggregateCall {
    AggregateCall {
        function,
        argument,
        filter: None,
        field: Arc::new(Field::new("a", result, true)),
    }
}

/// Rows with a match for column `key` in the build side go to the sink.
fn plan(key: usize, sink: SinkPlan) -> PipelinePlan {
    PipelinePlan {
        filters: vec![Expr::member(0, column(key))],
        sink,
        output: Arc::new(Schema::empty()),
    }
}

fn sums(key: usize, groups: Vec<Expr>) -> PipelinePlan {
    let counted = lookup(1, DataType::Int32, key);
    let summed = column(2);
    let aggregates = vec![
        call(AggregateFunction::Count, Some(counted), DataType::Int64),
        call(AggregateFunction::Sum, Some(summed), DataType::Int64),
    ];
    plan(
        key,
        SinkPlan::Aggregate {
            keys: groups,
            aggregates,
            kept: false,
        },
    )
}

fn options(build_sides: LookupMemory) -> KernelOptions {
    KernelOptions {
        in_order: false,
        quick: false,
        block: 0,
        items: 16,
        shared_bytes: Machine::H200.shared_bytes_per_block,
        machine: Machine::H200,
        awaits: false,
        collide: false,
        group_by: GroupBy::Auto,
        group_copies: 0,
        group_combine: GroupCombine::Auto,
        hash_table_bytes: 1 << 30,
        copies_bytes: 1 << 30,
        row_output: RowOutput::Auto,
        heap: HeapBuild::default(),
        build_sides,
        selection: Selection::Auto,
    }
}

fn bound(
    plan: &PipelinePlan,
    facts: &TableView,
    build_side: &Arc<LookupSide>,
    shape: KernelOptions,
) -> BoundPipeline {
    let columns = plan.columns();
    let view = TableView {
        columns: columns
            .iter()
            .map(|column| Arc::clone(&facts.columns[*column]))
            .collect(),
        ..facts.clone()
    };
    bind(plan, &view, std::slice::from_ref(build_side), shape).expect("bound")
}

/// Number of gathers from device memory in the row loop.
fn gathers(bound: &BoundPipeline) -> usize {
    let rows = bound.source.split("for (; morsel < args.end_morsel").nth(1);
    rows.expect("a loop over morsels").matches("args.tables[").count()
}

#[test]
fn packed_build_sides_need_no_global_gathers() {
    for key in [0, 1] {
        let keys = |count: i32| numbers(0..count);
        let words = |count| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(
                (0..count).map(|key| format!("w{key}")),
            ))
        };
        let build_side = build_side(if key == 0 { keys(90) } else { words(90) }, 5);
        let plan = sums(key, Vec::new());
        for (memory, laid_out, index) in [
            (LookupMemory::Shared, false, "dim0_0["),
            (LookupMemory::Slots, true, "u32(q0[i])"),
        ] {
            let bound = bound(&plan, &facts(4000, laid_out), &build_side, options(memory));
            assert_eq!(gathers(&bound), 0, "{}", bound.source);
            assert!(bound.source.contains(index), "{}", bound.source);
            // Presence, NULL and 49 distances take eight bits, but a word by slot.
            assert_eq!(bound.source.matches("= dim0_").count(), 1, "{}", bound.source);
            assert!(bound.source.contains(if laid_out {
                "const u32* const dim0_0"
            } else {
                "const u8* const dim0_0"
            }));
            assert!(bound.dynamic_shared > 0);
        }
        let cached = bound(
            &plan,
            &facts(4000, false),
            &build_side,
            options(LookupMemory::Cache),
        );
        assert!(gathers(&cached) >= 2, "{}", cached.source);
        assert_eq!(cached.dynamic_shared, 0);
    }
}

#[test]
fn build_sides_of_one_shape_share_a_kernel() {
    let facts = facts(4000, false);
    let plan = sums(0, Vec::new());
    let sources = [(70, 3), (99, -1_000_000)].map(|(keys, low)| {
        let bound = bound(
            &plan,
            &facts,
            &build_side(numbers(0..keys), low),
            options(LookupMemory::Shared),
        );
        (bound.source, bound.dynamic_shared)
    });
    assert_eq!(sources[0].0, sources[1].0);
    assert_ne!(sources[0].1, sources[1].1, "another number of bytes");
}

#[test]
fn block_fits_build_sides_and_groups() {
    let facts = facts(4000, false);
    let groups = [Vec::new(), vec![column(0)], vec![lookup(3, DataType::Utf8, 0)]];
    let build_side = build_side(numbers(0..500), 7);
    let (mut packed, mut cached) = (0, 0);
    for groups in groups {
        for shared_bytes in (0..12).map(|step| 1 << step << 7).chain([2_000, 5_000, 100_000]) {
            for memory in [LookupMemory::Auto, LookupMemory::Shared] {
                let shape = KernelOptions {
                    shared_bytes,
                    ..options(memory)
                };
                let bound = bound(&sums(0, groups.clone()), &facts, &build_side, shape);
                let bytes = u64::from(bound.dynamic_shared);
                assert!(
                    bytes <= shared_bytes,
                    "{bytes} of {shared_bytes}: {:?}",
                    bound.build_sides
                );
                let is_packed = bound.source.contains("dim0_0");
                assert_eq!(
                    is_packed,
                    !bound.build_sides[0].starts_with("cache"),
                    "{:?}",
                    bound.build_sides
                );
                *(if is_packed { &mut packed } else { &mut cached }) += 1;
            }
        }
    }
    assert!(packed > 20 && cached > 20, "{packed} packed, {cached} not");
}

/// A build side that does not fit by slot or by code may fit by key.
#[test]
fn build_sides_fall_back_to_packing_by_key() {
    let many = |laid_out| TableView {
        rows: 200_000_000,
        ..facts(4000, laid_out)
    };
    let memory = |plan, laid_out, keys, shared_bytes| {
        let shape = KernelOptions {
            shared_bytes,
            ..options(LookupMemory::Auto)
        };
        let bound = bound(plan, &many(laid_out), &build_side(keys, 0), shape);
        (bound.build_sides[0].clone(), gathers(&bound))
    };
    let words = |count| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (0..count).map(|key| format!("w{key}")),
        ))
    };
    let by_slot = sums(0, Vec::new());
    let ample = memory(&by_slot, true, numbers(0..60), 200_000);
    assert!(ample.0.starts_with("slots "), "{ample:?}");
    let narrow = memory(&by_slot, true, numbers(0..60), (2 << 10) + 80);
    assert_eq!(narrow.0, "shared 64 B");
    // The facts have 22 distinct strings.
    let by_code = sums(1, Vec::new());
    let ample = memory(&by_code, false, words(5), 200_000);
    assert_eq!(ample, ("shared 32 B".to_owned(), 0));
    // Ranks of strings are in device memory.
    let narrow = memory(&by_code, false, words(5), (2 << 10) + 16);
    assert_eq!(narrow, ("shared 16 B".to_owned(), 1));
}

/// On a large GPU, any packed build side leaves half of the threads.
#[test]
fn large_build_sides_use_larger_blocks_or_the_cache() {
    let machine = Machine::H200;
    let facts = TableView {
        rows: 200_000_000,
        ..facts(4000, false)
    };
    let memories = [64, 1024, 16_384, 70_000, 200_000, 1_000_000].map(|keys| {
        let bound = bound(
            &sums(0, Vec::new()),
            &facts,
            &build_side(numbers(0..keys), 0),
            options(LookupMemory::Auto),
        );
        let threads = machine.resident_blocks(bound.block, bound.dynamic_shared.into()) * bound.block;
        assert!(
            threads * 2 >= machine.threads,
            "{threads} threads, {:?}",
            bound.build_sides
        );
        (bound.block, bound.build_sides[0].clone())
    });
    let expected = [
        (256, "shared 80 B"),
        (256, "shared 1.0 KiB"),
        (256, "shared 16.0 KiB"),
        (1024, "shared 68.4 KiB"),
        (1024, "shared 195.3 KiB"),
        (256, "cache (976.6 KiB more than 225.0 KiB of shared memory)"),
    ];
    assert_eq!(
        memories,
        expected.map(|(block, memory)| (block, memory.to_owned()))
    );
}

#[test]
fn nvrtc_compiles_lookups_of_every_kind() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let every = |key| -> Vec<Expr> {
        let types = [
            DataType::Int32,
            DataType::Boolean,
            DataType::Utf8,
            DataType::Float32,
            DataType::Float64,
            DataType::Int64,
            DataType::Decimal128(38, 0),
        ];
        let types = types.into_iter().enumerate();
        types
            .map(|(column, data_type)| lookup(column + 1, data_type, key))
            .collect()
    };
    let words = StringArray::from_iter_values((0..60).map(|key| format!("w{key}")));
    let build_sides = [build_side(numbers(0..60), 0), build_side(Arc::new(words), 0)];
    for key in [0, 1] {
        for (memory, laid_out) in [
            (LookupMemory::Cache, false),
            (LookupMemory::Shared, false),
            (LookupMemory::Shared, true),
            (LookupMemory::Slots, true),
        ] {
            let facts = facts(4000, laid_out);
            let outputs = SinkPlan::Rows {
                outputs: every(key),
                order: None,
            };
            let plans = [
                (plan(key, outputs.clone()), GroupBy::Auto, RowOutput::Heap),
                (sums(key, Vec::new()), GroupBy::Auto, RowOutput::Auto),
                (
                    sums(key, vec![lookup(3, DataType::Utf8, key)]),
                    GroupBy::Copies,
                    RowOutput::Auto,
                ),
                (sums(key, vec![column(key)]), GroupBy::Slots, RowOutput::Auto),
                (
                    sums(key, vec![lookup(6, DataType::Int64, key)]),
                    GroupBy::Hash,
                    RowOutput::Auto,
                ),
                (plan(key, outputs), GroupBy::Auto, RowOutput::Direct),
            ];
            // Strings differ only in how the entry is found.
            let plans = plans.into_iter().take(if key == 0 { 6 } else { 2 });
            for (plan, group_by, row_output) in plans {
                let shape = KernelOptions {
                    group_by,
                    row_output,
                    ..options(memory)
                };
                let bound = bound(&plan, &facts, &build_sides[key], shape);
                let expected = memory.to_string();
                assert!(
                    bound.build_sides[0].starts_with(&expected),
                    "{:?}",
                    bound.build_sides
                );
                let program = Pipeline::program(&bound.source, Tier::Optimised);
                let all = [Architecture::SM_90, Architecture::SM_80];
                // The plan that returns all columns has every kind of lookup.
                let architectures = if row_output == RowOutput::Heap {
                    &all[..]
                } else {
                    &all[..1]
                };
                for architecture in architectures.iter().copied() {
                    let image = compile_for(architecture, &program, &nvrtc);
                    image.unwrap_or_else(|error| {
                        panic!("{memory} {:?}: {error}\n{}", bound.strategy, bound.source)
                    });
                }
            }
        }
    }
}

#[test]
fn group_layout_accounts_for_packed_build_sides() {
    let facts = TableView {
        rows: 200_000_000,
        ..facts(4000, false)
    };
    let groups = vec![column(0)];
    for memory in [LookupMemory::Cache, LookupMemory::Auto] {
        let bound = bound(
            &sums(0, groups.clone()),
            &facts,
            &build_side(numbers(0..40_000), 0),
            options(memory),
        );
        let Strategy::Shared(layout) = bound.strategy else {
            panic!("{} of few groups", bound.strategy)
        };
        let blocks = Machine::H200.resident_blocks(layout.block, bound.dynamic_shared.into());
        assert!(blocks * layout.block * 2 >= Machine::H200.threads, "{layout}");
    }
}
