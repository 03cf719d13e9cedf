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
    let names: Vec<&str> = row.columns().iter().map(tokio_postgres::Column::name).collect();
    assert_eq!(names[..3], ["oid", "oid_1", "typname"]);
    let row = client
        .query_one(
            "SELECT current_user, current_schema, version(), pg_catalog.current_database()",
            &[],
        )
        .await
        .expect("a row");
    let names: Vec<&str> = row.columns().iter().map(tokio_postgres::Column::name).collect();
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

/// Queries of drivers and tools have columns and rows.
#[tokio::test]
async fn drivers_read_the_catalog() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(
        &client,
        "CREATE TABLE items (id BIGINT NOT NULL, price DECIMAL(10, 2), ts TIMESTAMP, name VARCHAR); \
         CREATE VIEW cheap AS SELECT id FROM items WHERE price < 1",
    )
    .await
    .expect("tables");
    for (sql, expected) in [
        (
            "SELECT setting FROM pg_settings WHERE name = 'max_index_keys'",
            vec!["32"],
        ),
        (
            "SELECT current_setting('search_path'), current_setting('absent', true)",
            vec!["public|NULL"],
        ),
        ("SELECT set_config('application_name', 'x', false)", vec!["x"]),
        ("SHOW application_name", vec!["x"]),
        ("SELECT pg_advisory_unlock_all()", vec![""]),
        (
            "SELECT pg_type_is_visible(t.oid) FROM pg_type t WHERE typname = 'int4'",
            vec!["t"],
        ),
        (
            "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public'",
            vec!["items|ann"],
        ),
        (
            "SELECT viewname FROM pg_views WHERE schemaname = 'public'",
            vec!["cheap"],
        ),
        ("SELECT rolname, rolcanlogin FROM pg_roles", vec!["ann|t"]),
        ("SELECT usename FROM pg_user", vec!["ann"]),
        (
            "SELECT column_name, data_type, udt_name, is_nullable, numeric_precision, numeric_scale \
             FROM information_schema.columns WHERE table_name = 'items' AND table_schema = 'public' ORDER BY ordinal_position",
            vec![
                "id|bigint|int8|NO|64|0",
                "price|numeric|numeric|YES|10|2",
                "ts|timestamp without time zone|timestamp|YES|NULL|NULL",
                "name|text|text|YES|NULL|NULL",
            ],
        ),
        (
            "SELECT table_name FROM information_schema.views WHERE table_schema = 'public'",
            vec!["cheap"],
        ),
        (
            "SELECT count(*) FROM information_schema.table_constraints t JOIN information_schema.key_column_usage k USING (constraint_name)",
            vec!["0"],
        ),
        (
            "SELECT c.relname, c.reloptions FROM pg_class c WHERE c.relname = 'items' AND xmin IS NULL",
            vec!["items|NULL"],
        ),
        (
            "SELECT a.attname FROM pg_attribute a JOIN (SELECT indrelid, unnest(indkey) AS k FROM pg_index) i ON i.indrelid = a.attrelid AND i.k = a.attnum",
            vec![],
        ),
        (
            "SELECT (information_schema._pg_expandarray(i.indkey)).n AS n, ct.relname AS t FROM pg_class ct JOIN pg_index i ON i.indrelid = ct.oid",
            vec![],
        ),
        (
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE pg_table_is_visible(c.oid) AND n.nspname <> 'pg_catalog' ORDER BY 1",
            vec!["cheap", "items"],
        ),
        (
            "SELECT array_to_string(ARRAY(SELECT polname FROM pg_policy WHERE polrelid = c.oid), ','), relname \
             FROM pg_class c WHERE relname = 'items'",
            vec!["NULL|items"],
        ),
        (
            "SELECT json_build_object('a', 1, 'b', 'x')",
            vec!["{\"a\" : 1, \"b\" : \"x\"}"],
        ),
        (
            "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_' || '%' ESCAPE '/' ORDER BY 1",
            vec!["information_schema", "public"],
        ),
        (
            "SELECT to_regclass('items') = 'items'::regclass, to_regclass('absent')",
            vec!["t|NULL"],
        ),
        (
            "SELECT pg_size_pretty(20480), pg_typeof(1.5::double), quote_literal('a''b')",
            vec!["20 kB|double precision|'a''b'"],
        ),
        (
            "SELECT pg_get_userbyid(10), pg_encoding_to_char(6), obj_description(1, 'pg_class')",
            vec!["ann|UTF8|NULL"],
        ),
        ("SELECT count(*) FROM pg_stat_activity", vec!["0"]),
        (
            "SELECT typname FROM pg_type WHERE typinput = 'int4in'::regproc",
            vec!["int4"],
        ),
    ] {
        assert_eq!(simple(&client, sql).await.expect(sql), expected, "{sql}");
    }
    let definition = simple(&client, "SELECT pg_get_viewdef('cheap'::regclass, true)")
        .await
        .expect("a row");
    assert!(definition[0].contains("price < 1"), "{definition:?}");
    assert!(
        simple(&client, "SHOW TABLES")
            .await
            .expect("rows")
            .iter()
            .any(|row| row.contains("items"))
    );
    assert_eq!(
        simple(&client, "SHOW COLUMNS FROM items")
            .await
            .expect("rows")
            .len(),
        4
    );
    simple(&client, "SHOW galatea.device").await.expect("a row");
    server.stop().await;
}
