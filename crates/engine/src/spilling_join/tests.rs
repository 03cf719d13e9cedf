//! Joins that spill return the same rows as in unlimited memory, and leave no files or memory behind.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{TaskContext, runtime_env::RuntimeEnv};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::{BinaryExpr, col};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;

use super::{SpillingJoinExec, with_spilling_joins};

const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::LeftMark,
    JoinType::RightSemi,
    JoinType::RightAnti,
    JoinType::RightMark,
];

/// Rows `(k, s, d, f, v, pad)` with the keys of `key`: the same number in each type.
fn side(rows: i64, key: impl Fn(i64) -> Option<i64>, pad: usize) -> Vec<RecordBatch> {
    let batch = |rows: std::ops::Range<i64>| {
        let keys: Vec<Option<i64>> = rows.clone().map(&key).collect();
        let texts = keys.iter().map(|key| key.map(|key| format!("key {key}")));
        let floats = keys.iter().map(|key| key.map(|key| key as f64 / 4.0));
        let decimals = keys.iter().map(|key| key.map(|key| i128::from(key) * 1_000_003));
        let decimals = Decimal128Array::from_iter(decimals).with_precision_and_scale(30, 2);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("k", Arc::new(Int64Array::from(keys.clone()))),
            ("s", Arc::new(StringArray::from_iter(texts))),
            ("d", Arc::new(decimals.expect("a decimal"))),
            ("f", Arc::new(Float64Array::from_iter(floats))),
            ("v", Arc::new(Int64Array::from_iter_values(rows.clone()))),
            (
                "pad",
                Arc::new(StringArray::from_iter_values(rows.map(|_| "x".repeat(pad)))),
            ),
        ];
        let fields = columns.iter().map(|(name, values)| {
            let nullable = !matches!(*name, "v" | "pad");
            Field::new(*name, values.data_type().clone(), nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, values)| values).collect();
        RecordBatch::try_new(schema, columns).expect("columns of one length")
    };
    let starts = (0..rows.max(1)).step_by(256);
    starts
        .map(|start| batch(start.min(rows)..(start + 256).min(rows)))
        .collect()
}

struct Case {
    build: Vec<RecordBatch>,
    probe: Vec<RecordBatch>,
    keys: Vec<&'static str>,
    filtered: bool,
    nulls: NullEquality,
    mode: PartitionMode,
    partitions: usize,
}

impl Case {
    fn new(build: Vec<RecordBatch>, probe: Vec<RecordBatch>) -> Self {
        Self {
            build,
            probe,
            keys: vec!["k"],
            filtered: false,
            nulls: NullEquality::NullEqualsNothing,
            mode: PartitionMode::Partitioned,
            partitions: 1,
        }
    }

    fn join(&self, join_type: JoinType) -> Arc<dyn ExecutionPlan> {
        let schema = self.build[0].schema();
        let keys = self.keys.iter().map(|key| col(key, &schema).expect("a key"));
        let keys: Vec<_> = keys.collect();
        let input = |batches: &Vec<RecordBatch>, partitions: usize| -> Arc<dyn ExecutionPlan> {
            let rows =
                MemorySourceConfig::try_new_exec(std::slice::from_ref(batches), Arc::clone(&schema), None);
            let hashed = Partitioning::Hash(keys.clone(), partitions);
            let repartitioned = RepartitionExec::try_new(rows.expect("rows"), hashed);
            Arc::new(repartitioned.expect("partitions"))
        };
        let build = match self.mode {
            PartitionMode::CollectLeft => Arc::new(CoalescePartitionsExec::new(input(&self.build, 2))),
            _ => input(&self.build, self.partitions),
        };
        let on = keys.iter().map(|key| (Arc::clone(key), Arc::clone(key)));
        let join = HashJoinExec::try_new(
            build,
            input(&self.probe, self.partitions),
            on.collect(),
            self.filtered.then(different_parity),
            &join_type,
            projection(join_type),
            self.mode,
            self.nulls,
            false,
        );
        Arc::new(join.expect("a join"))
    }

    /// Checks all types of joins with pools of those sizes; returns the number of files that were spilled.
    async fn check(&self, limits: &[usize]) -> usize {
        let mut files = 0;
        for join_type in TYPES {
            let unlimited = Arc::new(UnboundedMemoryPool::default());
            let expected = rows(self.join(join_type), Environment::new(unlimited).context()).await;
            let expected = expected.expect("rows");
            for limit in limits {
                let pools: [Arc<dyn MemoryPool>; 2] = [
                    Arc::new(GreedyMemoryPool::new(*limit)),
                    Arc::new(FairSpillPool::new(*limit)),
                ];
                for pool in pools {
                    let environment = Environment::new(pool);
                    let plan = environment.spilling(self.join(join_type));
                    let actual = rows(Arc::clone(&plan), environment.context()).await;
                    let actual = actual.unwrap_or_else(|error| panic!("{join_type} in {limit}: {error}"));
                    assert_eq!(actual.len(), expected.len(), "{join_type} in {limit}");
                    assert!(actual == expected, "{join_type} in {limit}");
                    files += spilled(&plan);
                    drop(plan);
                    environment.check_empty().await;
                }
            }
        }
        files
    }
}

/// A different parity of `v` on each side.
fn different_parity() -> JoinFilter {
    let field = |name| Field::new(name, DataType::Int64, false);
    let schema = Arc::new(Schema::new(vec![field("a"), field("b")]));
    let (a, b) = (col("a", &schema).expect("a"), col("b", &schema).expect("b"));
    let sum = Arc::new(BinaryExpr::new(a, Operator::Plus, b));
    let one = Arc::new(datafusion::physical_expr::expressions::Literal::new(1i64.into()));
    let two = Arc::new(datafusion::physical_expr::expressions::Literal::new(2i64.into()));
    let odd = Arc::new(BinaryExpr::new(sum, Operator::Modulo, two));
    let odd = Arc::new(BinaryExpr::new(odd, Operator::Eq, one));
    let at = |side| ColumnIndex { index: 4, side };
    JoinFilter::new(odd, vec![at(JoinSide::Left), at(JoinSide::Right)], schema)
}

/// The numbers of the rows of each side, in a different order, and marks.
fn projection(join_type: JoinType) -> Option<Vec<usize>> {
    match join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::RightSemi | JoinType::RightAnti => {
            Some(vec![4, 0])
        }
        JoinType::LeftMark | JoinType::RightMark => Some(vec![6, 4]),
        _ => Some(vec![10, 4]),
    }
}

struct Environment {
    runtime: Arc<RuntimeEnv>,
    folder: tempfile::TempDir,
}

impl Environment {
    fn new(pool: Arc<dyn MemoryPool>) -> Self {
        Self::with_disk(pool, 1 << 40)
    }

    fn with_disk(pool: Arc<dyn MemoryPool>, bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![folder.path().to_path_buf()]))
            .with_max_temp_directory_size(bytes);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .with_disk_manager_builder(disk)
            .build_arc()
            .expect("an environment");
        Self { runtime, folder }
    }

    fn context(&self) -> Arc<TaskContext> {
        let config = SessionConfig::new().with_batch_size(512);
        let context = TaskContext::default().with_session_config(config);
        Arc::new(context.with_runtime(Arc::clone(&self.runtime)))
    }

    fn spilling(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let plan = with_spilling_joins(plan, self.runtime.memory_pool.as_ref()).expect("a plan");
        assert!(plan.is::<SpillingJoinExec>());
        plan
    }

    /// Waits until cancelled tasks have ended; fails if memory or files are left.
    async fn check_empty(&self) {
        for _ in 0..400 {
            if self.runtime.memory_pool.reserved() == 0 && files(self.folder.path()) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let reserved = self.runtime.memory_pool.reserved();
        panic!(
            "{reserved} bytes and {} files are left",
            files(self.folder.path())
        );
    }
}

/// The number of files below a folder.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let count = |entry: std::io::Result<std::fs::DirEntry>| match entry.expect("an entry").path() {
        path if path.is_dir() => files(&path),
        _ => 1,
    };
    entries.map(count).sum()
}

fn spilled(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let metrics = plan.metrics().expect("metrics");
    let files = metrics.spill_count().expect("a count of files");
    assert_eq!(files > 0, metrics.spilled_bytes().expect("bytes") > 0);
    assert_eq!(files > 0, metrics.spilled_rows().expect("rows") > 0);
    files
}

/// The rows of a plan as sorted strings.
async fn rows(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Vec<String>> {
    let schema = plan.schema();
    let batches = collect(plan, context).await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        assert_eq!(batch.schema(), schema);
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|values| ArrayFormatter::try_new(values, &options).expect("values"))
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|values| values.value(row).to_string());
            values.collect::<Vec<_>>().join(", ")
        }));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Duplicates, keys without a match on each side, and NULLs.
fn mixed(rows: i64, salt: i64) -> Vec<RecordBatch> {
    padded(rows, salt, 40)
}

/// The same with strings of that length.
fn padded(rows: i64, salt: i64, pad: usize) -> Vec<RecordBatch> {
    let key = move |row: i64| (row % 17 != salt).then_some((row * 7 + salt) % 900 + 100 * salt);
    side(rows, key, pad)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_join_types_spill_partially_or_completely() {
    for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
        for (partitions, filtered) in [(1, false), (2, true), (16, true)] {
            let case = Case {
                mode,
                partitions,
                filtered,
                // A partition reserves some memory in any case.
                ..Case::new(padded(1500, 1, 1000), mixed(1200, 3))
            };
            assert_eq!(case.check(&[64 << 20]).await, 0, "nothing spills");
            assert!(case.check(&[200_000, 20_000]).await > 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_several_types_spill() {
    for keys in [vec!["s"], vec!["d"], vec!["f"], vec!["k", "s", "d"]] {
        let case = Case {
            keys,
            partitions: 2,
            ..Case::new(mixed(1200, 1), mixed(1000, 3))
        };
        assert!(case.check(&[40_000]).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_equals_null_joins_spill() {
    let case = Case {
        nulls: NullEquality::NullEqualsNull,
        ..Case::new(mixed(1500, 1), mixed(400, 3))
    };
    assert!(case.check(&[40_000]).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_sides_spill_nothing_or_one_side() {
    let (none, some) = (|| side(0, |_| None, 0), || mixed(1500, 1));
    for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
        let with = |build, probe| Case {
            mode,
            partitions: 2,
            ..Case::new(build, probe)
        };
        assert_eq!(with(none(), none()).check(&[40_000]).await, 0);
        assert_eq!(with(none(), some()).check(&[40_000]).await, 0);
        assert!(with(some(), none()).check(&[40_000]).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_buckets_are_repartitioned() {
    let wide = |salt| side(1600, move |row| Some(row * 3 + salt * (row % 2)), 2000);
    let case = Case::new(wide(0), wide(1));
    let once = 2 * 16;
    // Each of the runs has more files than one partitioning of both sides.
    assert!(case.check(&[100_000]).await > 2 * TYPES.len() * once);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_single_key_is_joined_in_blocks() {
    for filtered in [false, true] {
        let same = side(600, |_| Some(7), 1000);
        let few = side(30, |row| Some(7 + row % 2), 10);
        let case = Case {
            filtered,
            ..Case::new(same.clone(), few.clone())
        };
        assert!(case.check(&[100_000]).await > 0);
        let case = Case {
            filtered,
            mode: PartitionMode::CollectLeft,
            partitions: 2,
            ..Case::new(same, few)
        };
        assert!(case.check(&[100_000]).await > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frequent_key_is_joined_in_blocks_among_other_keys() {
    let skewed = side(900, |row| if row % 2 == 0 { Some(5) } else { Some(row) }, 1000);
    let nulls = side(300, |row| if row % 3 == 0 { None } else { Some(row) }, 10);
    let case = Case::new(skewed, nulls);
    assert!(case.check(&[60_000]).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetch_limits_rows_of_spilled_joins() {
    let case = Case::new(mixed(1500, 1), mixed(1200, 3));
    for limit in [20_000, 64 << 20] {
        let environment = Environment::new(Arc::new(GreedyMemoryPool::new(limit)));
        let join = case.join(JoinType::Inner).with_fetch(Some(10)).expect("a limit");
        let plan = environment.spilling(join);
        assert_eq!(rows(plan, environment.context()).await.expect("rows").len(), 10);
        environment.check_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_error_names_the_setting() {
    let case = Case::new(mixed(1500, 1), mixed(1200, 3));
    for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
        let case = Case {
            mode,
            build: case.build.clone(),
            probe: case.probe.clone(),
            ..Case::new(vec![], vec![])
        };
        let environment = Environment::with_disk(Arc::new(GreedyMemoryPool::new(20_000)), 30_000);
        let plan = environment.spilling(case.join(JoinType::Full));
        let error = rows(plan, environment.context())
            .await
            .expect_err("the disk is full");
        assert!(error.to_string().contains("max_temp_directory_size"), "{error}");
        environment.check_empty().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_join_frees_memory_and_files() {
    let case = Case::new(mixed(6000, 1), mixed(6000, 3));
    for mode in [PartitionMode::Partitioned, PartitionMode::CollectLeft] {
        for polls in [0, 1, 2] {
            let case = Case {
                mode,
                build: case.build.clone(),
                probe: case.probe.clone(),
                partitions: 2,
                ..Case::new(vec![], vec![])
            };
            let environment = Environment::new(Arc::new(GreedyMemoryPool::new(40_000)));
            let plan = environment.spilling(case.join(JoinType::Full));
            let mut stream = execute_stream(plan, environment.context()).expect("a stream");
            for _ in 0..polls {
                stream.next().await.expect("a batch").expect("rows");
            }
            drop(stream);
            environment.check_empty().await;
        }
    }
}
