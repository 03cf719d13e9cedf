//! The order of inner joins: all orders return the same rows, with fewer rows between joins.

use crate::compare::Pair;
use crate::joins::STRICT;
use crate::sessions::planned;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::sync::Arc;

/// A session with that join order and the tables.
async fn session(order: &str) -> SessionContext {
    session_with(("galatea.join.order", order), TABLES).await
}

/// A session with this setting and these tables in the store, which have column statistics. Its queries run
/// on the CPU.
pub(crate) async fn session_with((name, value): (&str, &str), tables: &[&str]) -> SessionContext {
    let ctx = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting(name, value)
        .build()
        .expect("a session");
    for table in tables {
        run(&ctx, table).await;
    }
    run(&ctx, "SET galatea.device = 'cpu'").await;
    ctx
}

pub(crate) async fn run(ctx: &SessionContext, sql: &str) {
    let frame = ctx.sql(sql).await.expect("a plan");
    frame.collect().await.expect("a result");
}

/// Orders of parts of assemblies, and their suppliers.
const TABLES: &[&str] = &[
    "CREATE TABLE sales AS SELECT value AS s_id, value % 1000 AS s_part, value % 300 AS s_customer, value % 7 AS s_count FROM generate_series(0, 49999)",
    "CREATE TABLE parts AS SELECT value AS p_id, value % 50 AS p_size, value % 90 AS p_maker FROM generate_series(0, 999)",
    "CREATE TABLE makers AS SELECT value AS m_id, value % 10 AS m_region, 'maker ' || value AS m_name FROM generate_series(0, 89)",
    "CREATE TABLE customers AS SELECT value AS c_id, value % 30 AS c_city FROM generate_series(0, 299)",
];

/// The total number of rows that the joins of a query return on the CPU.
async fn joined_rows(order: &str, sql: &str) -> usize {
    rows_of::<HashJoinExec>(&session(order).await, sql).await
}

/// The total number of rows that the nodes of one kind return when a query runs.
pub(crate) async fn rows_of<N: ExecutionPlan>(ctx: &SessionContext, sql: &str) -> usize {
    let plan = planned(ctx, sql).await;
    collect(Arc::clone(&plan), ctx.task_ctx())
        .await
        .expect("a result");
    rows_below::<N>(&plan)
}

fn rows_below<N: ExecutionPlan>(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.is::<N>().then(|| plan.metrics()?.output_rows()).flatten();
    plan.children().into_iter().map(rows_below::<N>).sum::<usize>() + own.unwrap_or(0)
}

/// Joins that return many rows are last.
#[tokio::test]
async fn selective_joins_are_executed_first() {
    let cases = [
        // Written from the largest table to the most selective one.
        "SELECT count(*) FROM sales JOIN customers ON s_customer = c_id JOIN parts ON s_part = p_id \
         JOIN makers ON p_maker = m_id WHERE m_id = 3",
        // By inferred equality: no condition connects makers and parts directly.
        "SELECT count(*) FROM customers JOIN sales ON s_customer = c_id JOIN parts ON p_id = s_customer \
         JOIN makers ON m_id = c_id WHERE m_region = 2",
        // A list of values is joined before the number of rows is large.
        "SELECT count(*) FROM sales JOIN customers ON s_customer = c_id JOIN parts ON s_part = p_id \
         WHERE p_id IN (SELECT m_id FROM makers WHERE m_region = 2)",
        // Below an aggregate, whose result is joined again.
        "SELECT sum(n) FROM makers JOIN (SELECT p_maker, count(*) AS n, sum(c_city) FROM sales JOIN customers ON s_customer = c_id \
         JOIN parts ON s_part = p_id WHERE p_size = 7 GROUP BY p_maker) ON m_id = p_maker",
    ];
    for sql in cases {
        let (written, found) = (joined_rows("written", sql).await, joined_rows("auto", sql).await);
        assert!(found * 2 < written, "{sql}\n{found} rows instead of {written}");
    }
}

/// A good order is unchanged, and so is an order of tables without statistics.
#[tokio::test]
async fn good_or_unknown_join_orders_are_unchanged() {
    let explained = |order: &'static str, sql: &'static str| async move {
        let ctx = session(order).await;
        let frame = ctx.sql(sql).await.expect("a plan");
        let plan = frame.create_physical_plan().await.expect("a physical plan");
        datafusion::physical_plan::displayable(plan.as_ref())
            .indent(false)
            .to_string()
    };
    let good = "SELECT s_id, m_name FROM makers JOIN parts ON p_maker = m_id JOIN sales ON s_part = p_id \
                JOIN customers ON s_customer = c_id WHERE m_id = 3 AND p_maker = 3";
    let unknown = "SELECT count(*) FROM sales JOIN customers ON s_customer = c_id \
                   JOIN (SELECT unnest(make_array(p_id, 1)) AS u, p_maker FROM parts) ON s_part = u JOIN makers ON p_maker = m_id WHERE m_id = 3";
    for sql in [good, unknown] {
        assert_eq!(
            explained("auto", sql).await,
            explained("written", sql).await,
            "{sql}"
        );
    }
}

/// A random query over a random graph of tables: keys of several parts, of expressions and in cycles, further
/// conditions, columns in any order.
fn random_query(rng: &mut SmallRng, tables: usize) -> (Vec<String>, String) {
    let mut created = Vec::new();
    let mut sql = String::new();
    let mut conditions: Vec<String> = Vec::new();
    for table in 0..tables {
        let rows = *[1, 3, 20, 150, 700].choose(rng).expect("one of them");
        let [a, b] = [1, 2].map(|_| rng.random_range(1..=rows));
        created.push(format!(
            "CREATE TABLE t{table} AS SELECT value AS id, CASE WHEN value % 11 = 3 THEN NULL ELSE value % {a} END AS a, \
             CAST(value % {b} AS INT) AS b FROM generate_series(1, {rows})"
        ));
        if table == 0 {
            sql += "t0";
            continue;
        }
        let other = rng.random_range(0..table);
        let mut on = vec![match rng.random_range(0..5) {
            0 => format!("t{table}.id = t{other}.a"),
            1 => format!("t{table}.a = t{other}.id"),
            2 => format!("t{table}.id + 1 = t{other}.id * 2"),
            3 => format!("t{table}.b = t{other}.b AND t{table}.id = t{other}.id"),
            _ => format!("t{table}.id = t{other}.id"),
        }];
        let third = rng.random_range(0..table);
        match rng.random_range(0..6) {
            0 => on.push(format!("t{table}.b < t{third}.b + t{other}.id")),
            1 => on.push(format!("t{table}.a = t{third}.a")),
            _ => {}
        }
        let kind = if rng.random_range(0..8) == 0 {
            "LEFT JOIN"
        } else {
            "JOIN"
        };
        write!(sql, " {kind} t{table} ON {}", on.join(" AND ")).expect("a string");
        if rng.random_range(0..3) == 0 {
            conditions.push(format!("t{other}.id % 5 < 3"));
        }
        if rng.random_range(0..5) == 0 {
            let column = ["id", "a"].choose(rng).expect("one of them");
            conditions.push(format!(
                "t{other}.{column} IN (SELECT a FROM t{third} WHERE b < 9)"
            ));
        }
        if rng.random_range(0..4) == 0 {
            conditions.push(format!("t{other}.b <= {}", rng.random_range(0..40)));
        }
    }
    let columns: Vec<String> = (0..tables)
        .map(|_| {
            let column = ["id", "a", "b"].choose(rng).expect("one of them");
            format!("t{}.{column}", rng.random_range(0..tables))
        })
        .collect();
    let sums = columns
        .iter()
        .enumerate()
        .map(|(i, column)| format!("sum({column}) AS c{i}"));
    let sums = sums.collect::<Vec<_>>().join(", ");
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    let sql = match rng.random_range(0..3) {
        0 => {
            let columns = columns
                .iter()
                .enumerate()
                .map(|(i, column)| format!("{column} AS c{i}"));
            let order = (1..=columns.len())
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
                .join(", ");
            let columns = columns.collect::<Vec<_>>().join(", ");
            format!("SELECT {columns} FROM {sql}{filter} ORDER BY {order} LIMIT 50")
        }
        _ => format!("SELECT count(*), {sums} FROM {sql}{filter}"),
    };
    (created, sql)
}

/// Any selected order returns the rows of the written order.
#[tokio::test]
async fn results_do_not_depend_on_join_order() {
    let first: u64 = rand::rng().random_range(0..1 << 40);
    for seed in first..first + 40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let tables = rng.random_range(3..=6);
        let (created, sql) = random_query(&mut rng, tables);
        let pair = Pair::new(&[]);
        for ctx in [&pair.cpu, &pair.gpu] {
            for table in &created {
                run(ctx, table).await;
            }
        }
        let same = crate::compare::same;
        // First only the order, then with everything on the device.
        run(&pair.gpu, "SET galatea.device = 'cpu'").await;
        let alone = pair.compare(&sql, same).await;
        run(&pair.gpu, "SET galatea.device = 'emulated'").await;
        let placed = pair.compare(&sql, same).await;
        for outcome in [alone, placed] {
            if let Err(difference) = outcome {
                panic!("seed {seed}\n{}\n{sql}\n{difference}", created.join(";\n"));
            }
        }
    }
}

/// More relations than the exhaustive search supports, and more than a set can hold.
#[tokio::test]
async fn many_relations_are_ordered() {
    for relations in [11, 12, 13, 30, 70] {
        let pair = Pair::new(&[]);
        for ctx in [&pair.cpu, &pair.gpu] {
            for sql in [
                "CREATE TABLE wide AS SELECT value AS id, value % 40 AS next FROM generate_series(0, 199)",
                "CREATE TABLE few AS SELECT value AS id FROM generate_series(0, 1)",
            ] {
                run(ctx, sql).await;
            }
        }
        run(&pair.gpu, "SET galatea.device = 'cpu'").await;
        let mut sql = "SELECT count(*), sum(w0.next) FROM wide w0".to_string();
        for i in 1..relations - 1 {
            write!(sql, " JOIN wide w{i} ON w{}.next = w{i}.id", i - 1).expect("a string");
        }
        write!(sql, " JOIN few ON w{}.next = few.id", relations - 2).expect("a string");
        pair.check(&sql, false, &format!("{relations} relations")).await;
        let last = relations - 2;
        write!(
            sql,
            " WHERE EXISTS (SELECT 1 FROM few f WHERE f.id = w0.id AND f.id < w{last}.next)"
        )
        .expect("a string");
        pair.check(&sql, false, &format!("{relations} relations and a condition"))
            .await;
    }
}

/// Joins in a changed order run as whole queries on the device, like others.
#[tokio::test]
async fn reordered_joins_run_on_the_device() {
    let pair = Pair::new(&[STRICT]);
    for ctx in [&pair.cpu, &pair.gpu] {
        for table in TABLES {
            run(ctx, table).await;
        }
    }
    let sql = "SELECT m_region, count(*), sum(s_count) FROM sales JOIN customers ON s_customer = c_id JOIN parts ON s_part = p_id \
               JOIN makers ON p_maker = m_id AND m_region < c_city WHERE m_id < 5 GROUP BY m_region";
    pair.check(
        sql,
        true,
        "a condition between two that were not next to each other",
    )
    .await;
}
