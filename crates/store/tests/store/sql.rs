//! SQL on stored tables returns the same results as on DataFusion's own tables.

use std::sync::Arc;

use arrow::array::*;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::*;
use galatea_store::*;

fn session(chunk_rows: usize) -> (SessionContext, Arc<Store>) {
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows,
        ..StoreOptions::default()
    });
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
    install(&context, Arc::clone(&store)).unwrap();
    (context, store)
}

async fn run(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn stored(context: &SessionContext, name: &str) -> StoredTable {
    context
        .table_provider(name)
        .await
        .unwrap()
        .downcast_ref::<StoredTable>()
        .unwrap()
        .clone()
}

/// Statements with the same results for both kinds of table.
const STATEMENTS: &[&str] = &[
    "create table t (id int not null, name varchar, price decimal(15, 2) default 1.50, day date)",
    "insert into t values (1, 'a', 10.00, date '2024-01-01'), (2, null, 20.50, null)",
    "select * from t order by id",
    "insert into t (id, name) select value, 'name ' || (value % 13) from generate_series(3, 5000) as s(value)",
    "select count(*), count(name), min(name), max(name), sum(price), min(day), max(id) from t",
    "select name, count(*), sum(price) from t where id between 40 and 2900 group by name order by name",
    "select count(*) from t where name = 'name 7' and id < 100",
    "select count(*) from t where name = 'no such name' or day is not null",
    "insert into t select id + 100000, name || ' more', price * 1000000000, day from t",
    "select count(*), count(distinct name), sum(price), max(id) from t",
    "delete from t where id % 2 = 0",
    "select count(*), sum(id), sum(price) from t",
    "update t set name = 'changed' where id < 10",
    "select id, name from t where id < 20 order by id",
    "create table u as select name, sum(price) as total, count(*) as n from t group by name",
    "select * from u order by name, total limit 5",
    "create or replace table u as select id from t where id < 7",
    "select * from u order by id",
    "select t.id, u.id from t join u on t.id = u.id order by t.id",
    "insert overwrite u values (77), (78)",
    "select sum(id) from u",
    "select id from t order by id desc limit 3",
    "select * from t limit 0",
];

#[tokio::test]
async fn stored_tables_return_the_results_of_memory_tables() {
    for chunk_rows in [1, 100, 1 << 20] {
        // With a chunk per row, some inserts create ten thousand chunks, so the first few statements suffice.
        let statements = if chunk_rows == 1 {
            &STATEMENTS[..3]
        } else {
            STATEMENTS
        };
        let (context, store) = session(chunk_rows);
        let plain = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
        for sql in statements {
            if sql.starts_with("insert overwrite") {
                // Not implemented by DataFusion's tables.
                plain
                    .sql("create or replace table u as select * from (values (77), (78)) as v(id)")
                    .await
                    .unwrap()
                    .collect()
                    .await
                    .unwrap();
                run(&context, sql).await;
                continue;
            }
            assert_eq!(
                run(&plain, sql).await,
                run(&context, sql).await,
                "{sql}, {chunk_rows} rows a chunk"
            );
        }
        let table = stored(&context, "t").await;
        assert!(table.snapshot().rows() > 0);
        assert!(store.memory_used() > 0);
    }
}

#[tokio::test]
async fn inserts_share_unchanged_chunks() {
    let (context, _) = session(1000);
    run(&context, "create table t as select value as n, 'w' || (value % 5) as w from generate_series(0, 2999) as s(value)").await;
    let before = stored(&context, "t").await.snapshot();
    assert_eq!(before.chunk_rows, [1000, 1000, 1000]);
    run(&context, "insert into t values (2500, 'w3')").await;
    let after = stored(&context, "t").await.snapshot();
    assert_ne!(before.id, after.id);
    assert_eq!(after.chunk_rows, [1000, 1000, 1000, 1]);
    for (before, after) in before.columns.iter().zip(&after.columns) {
        assert!(Arc::ptr_eq(
            before.chunks[0].data.stored().memory(),
            after.chunks[0].data.stored().memory()
        ));
    }
    // A number beyond the width and a string that is not in the dictionary: both columns are encoded again.
    run(&context, "insert into t values (1000000, 'another')").await;
    let wider = stored(&context, "t").await.snapshot();
    assert_eq!(wider.chunk_rows, [1000, 1000, 1000, 2]);
    assert_eq!(wider.columns[1].dictionary().unwrap().len(), 6);
    assert_eq!(
        run(&context, "select sum(n), max(w) from t")
            .await
            .matches("5501000")
            .count(),
        1
    );
    // The earlier snapshot is unchanged.
    assert_eq!((before.rows(), after.rows()), (3000, 3001));
}

#[tokio::test]
async fn scans_use_zones_statistics_and_partitions() {
    let (context, _) = session(50_000);
    run(&context, "create table t as select value as n, 'w' || (value / 80000) as w from generate_series(0, 399999) as s(value) order by value").await;
    let plan = |sql: &'static str| {
        let context = context.clone();
        async move {
            context
                .sql(sql)
                .await
                .unwrap()
                .create_physical_plan()
                .await
                .unwrap()
        }
    };
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(false).to_string();
    let filtered = plan("select sum(n) from t where n < 60000").await;
    assert!(
        text(&filtered).contains("chunks=2/8, partitions=4"),
        "{}",
        text(&filtered)
    );
    assert!(text(&filtered).contains("FilterExec"), "{}", text(&filtered));
    for (filter, kept) in [
        ("w = 'w4'", 2),
        ("w like 'w2%'", 4),
        ("w = 'w22'", 0),
        ("n in (3, 399999)", 2),
    ] {
        let plan = context
            .sql(&format!("select sum(n) from t where {filter}"))
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap();
        assert!(
            text(&plan).contains(&format!("chunks={kept}/8")),
            "{filter}: {}",
            text(&plan)
        );
    }
    // Counts, minima and maxima are read from the zones.
    let counted = plan("select count(*), min(n), max(n), min(w), max(w) from t").await;
    assert!(!text(&counted).contains("StoreScanExec"), "{}", text(&counted));
    assert!(
        run(&context, "select count(*), min(n), max(n), min(w), max(w) from t")
            .await
            .contains("| 400000   | 0        | 399999   | w0       | w4")
    );
    let limited = plan("select n from t limit 10").await;
    assert!(text(&limited).contains("limit=10"), "{}", text(&limited));
    assert_eq!(
        run(&context, "select count(*) from (select n from t limit 10)")
            .await
            .matches("10")
            .count(),
        1
    );
    // The store scan in a plan.
    fn scan(plan: &Arc<dyn ExecutionPlan>) -> &StoreScanExec {
        plan.downcast_ref::<StoreScanExec>()
            .unwrap_or_else(|| scan(plan.children()[0]))
    }
    let scan = scan(&filtered);
    assert_eq!(scan.projection(), [0]);
    assert_eq!(scan.filters().len(), 1);
    assert_eq!(scan.source().identity(), stored(&context, "t").await.identity());
}

#[tokio::test]
async fn tables_of_unsupported_types_stay_memory_tables() {
    let (context, _) = session(100);
    run(&context, "create table t as select [1, 2, 3] as list").await;
    assert!(
        context
            .table_provider("t")
            .await
            .unwrap()
            .downcast_ref::<StoredTable>()
            .is_none()
    );
    assert!(run(&context, "select * from t").await.contains("[1, 2, 3]"));
    run(&context, "create schema other").await;
    run(&context, "create table other.u as select 1 as n").await;
    assert!(
        context
            .table_provider("other.u")
            .await
            .unwrap()
            .downcast_ref::<StoredTable>()
            .is_some()
    );
}

#[tokio::test]
async fn tables_are_created_from_plans_and_streams() {
    let (context, store) = session(1000);
    let frame = context
        .sql("select value as n, cast(value as varchar) as s from generate_series(1, 12345) as g(value)")
        .await
        .unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let table = StoredTable::from_plan(&store, "p", &plan, &context.task_ctx(), None)
        .await
        .unwrap();
    assert_eq!(table.snapshot().rows(), 12_345);
    assert_eq!(
        table
            .snapshot()
            .chunk_rows
            .iter()
            .filter(|rows| **rows != 1000)
            .count(),
        1
    );
    context.register_table("p", Arc::new(table)).unwrap();
    assert!(
        run(&context, "select sum(n), max(s) from p")
            .await
            .contains("76205685")
    );
    let stream = frame.execute_stream().await.unwrap();
    let table = StoredTable::from_stream(&store, "s", stream, None).await.unwrap();
    assert_eq!(table.snapshot().rows(), 12_345);
}

#[tokio::test]
async fn failing_plan_creates_no_table_and_frees_memory() {
    let (context, store) = session(100);
    let frame = context
        .sql("select 10 / (value - 5000) as n from generate_series(1, 12345) as g(value)")
        .await
        .unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let error = StoredTable::from_plan(&store, "p", &plan, &context.task_ctx(), None)
        .await
        .unwrap_err();
    assert!(
        error.to_string().to_lowercase().contains("divide by zero"),
        "{error}"
    );
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(store.memory_used(), 0);
}
