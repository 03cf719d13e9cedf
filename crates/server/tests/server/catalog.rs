//! Statements over `pg_catalog` and `information_schema`.

use crate::postgres::simple;
use crate::support::{config, postgres, start, state};

/// Statements with words of the catalog keep their meaning.
#[tokio::test]
async fn statements_over_tables_of_users_are_not_rewritten() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(
        &client,
        "CREATE TABLE items (id BIGINT, mpg_city BIGINT, name VARCHAR); \
         CREATE TABLE orders (order_id BIGINT, item_id BIGINT); \
         INSERT INTO items VALUES (1, 10, 'a,b'), (2, 20, 'pg_class'); \
         INSERT INTO orders VALUES (7, 1), (8, 1), (9, 2)",
    )
    .await
    .expect("tables");
    for (sql, expected) in [
        (
            "SELECT id, (SELECT max(order_id) FROM orders o WHERE o.item_id = i.id) AS mpg_x FROM items i ORDER BY id",
            vec!["1|8", "2|9"],
        ),
        (
            "SELECT i.id, (SELECT max(order_id) FROM orders o WHERE o.item_id = i.id) FROM items i \
             WHERE i.name <> 'current_user' /* pg_type */ ORDER BY id -- ::regclass",
            vec!["1|8", "2|9"],
        ),
        ("SELECT name FROM items WHERE name = 'pg_class'", vec!["pg_class"]),
        (
            "SELECT id FROM items WHERE name = ANY('{\"a,b\",x}'::text[])",
            vec!["1"],
        ),
        ("SELECT count(*) FROM items WHERE current_user = 'ann'", vec!["2"]),
        (
            "SELECT i.id FROM items i JOIN pg_class c ON c.relname = i.name AND c.oid <> 'orders'::regclass",
            vec!["2"],
        ),
        (
            "WITH pg_class AS (SELECT 5 AS oid) SELECT oid FROM pg_class",
            vec!["5"],
        ),
    ] {
        assert_eq!(simple(&client, sql).await.expect(sql), expected, "{sql}");
    }
    // A subquery with two rows is an error, not its first row.
    let sql = "SELECT (SELECT mpg_city FROM items)";
    assert!(simple(&client, sql).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn queries_of_the_catalog_have_the_names_of_their_columns() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(&client, "CREATE TABLE items (id BIGINT)")
        .await
        .expect("a table");
    let row = client
        .query_one("SELECT t.oid, t.* FROM pg_type t WHERE typname = 'int4'", &[])
        .await
        .expect("a row");
    let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
    assert_eq!(names[..3], ["oid", "oid_1", "typname"]);
    let row = client
        .query_one(
            "SELECT current_user, current_schema, version(), pg_catalog.current_database()",
            &[],
        )
        .await
        .expect("a row");
    let names: Vec<&str> = row.columns().iter().map(|column| column.name()).collect();
    assert_eq!(
        names,
        ["current_user", "current_schema", "version", "current_database"]
    );
    assert_eq!(row.get::<_, &str>(0), "ann");
    for (sql, expected) in [
        (
            "SELECT relname FROM pg_class WHERE oid = 'items'::regclass",
            vec!["items"],
        ),
        (
            "SELECT relname FROM pg_class WHERE oid = 'public.items'::regclass",
            vec!["items"],
        ),
        (
            "SELECT relname FROM pg_class WHERE oid = CAST('pg_type' AS regclass)",
            vec!["pg_type"],
        ),
        (
            "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(items)$' COLLATE pg_catalog.default",
            vec!["items"],
        ),
        (
            "SELECT relname FROM pg_class WHERE relkind = ANY ('{r,v}') AND relname = 'items'",
            vec!["items"],
        ),
        ("SELECT 'integer'::regtype, '23'::regtype", vec!["23|23"]),
    ] {
        assert_eq!(simple(&client, sql).await.expect(sql), expected, "{sql}");
    }
    let (code, message) = state(simple(&client, "SELECT absent FROM pg_class").await);
    assert_eq!(code, "42703", "{message}");
    server.stop().await;
}
