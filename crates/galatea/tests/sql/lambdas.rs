//! Functions with lambdas, list comprehensions and JSON. The answers are DuckDB's, and the same on the CPU
//! and on the emulated device, over tables in memory and Parquet files.

use crate::front::Both;
use tempfile::TempDir;

/// A table t of an integer and lists, and a table d of JSON; and Parquet files with their rows.
async fn tables() -> (Both, TempDir) {
    let (both, folder) = (Both::new(), tempfile::tempdir().expect("a folder"));
    for sql in [
        "CREATE TABLE t(k BIGINT, l BIGINT[]) AS VALUES
           (1, [1, 2, 3]), (10, [5]), (2, []), (3, NULL), (NULL, [7, NULL])",
        r#"CREATE TABLE d(id BIGINT, j VARCHAR) AS VALUES
           (1, '{"name": "Ann", "age": 31, "tags": ["a", "b"], "home": {"city": "Bonn"}}'),
           (2, '{"name": "B\u00e9a", "age": null, "tags": [], "a.b": 1.5}'),
           (3, '[10, 20, -30]'), (4, 'no JSON'), (5, NULL)"#,
    ] {
        both.run(sql).await;
    }
    for table in ["t", "d"] {
        let file = folder.path().join(format!("{table}.parquet"));
        let copy = format!("COPY {table} TO '{}'", file.display());
        both.first(&copy).await;
    }
    (both, folder)
}

/// Checks queries over `FROM t` and `FROM d`, and over their files.
async fn check(queries: &[(&str, &str)]) {
    let (both, folder) = tables().await;
    for (sql, expected) in queries {
        both.answers(sql, expected).await;
        let mut over_file = (*sql).to_owned();
        for table in ["t", "d"] {
            let file = format!(
                "FROM '{}' AS {table}",
                folder.path().join(format!("{table}.parquet")).display()
            );
            over_file = over_file.replace(&format!("FROM {table}"), &file);
        }
        both.answers(&over_file, expected).await;
    }
}

#[tokio::test]
async fn lists_are_transformed_filtered_and_reduced() {
    check(&[
        (
            "SELECT list_transform(l, x -> x + 1) FROM t ORDER BY k",
            "[2, 3, 4]; []; NULL; [6]; [8, NULL]",
        ),
        (
            "SELECT list_transform(l, lambda x: x * k + t.k), apply(l, x -> k) FROM t ORDER BY k",
            "[2, 3, 4] [1, 1, 1]; [] []; NULL NULL; [60] [10]; [NULL, NULL] [NULL, NULL]",
        ),
        // The parameter hides the column of its name.
        (
            "SELECT list_transform(l, k -> k - 1) FROM t ORDER BY k LIMIT 1",
            "[0, 1, 2]",
        ),
        (
            "SELECT list_filter(l, lambda x: x > 1 AND x < 6) FROM t ORDER BY k",
            "[2, 3]; []; NULL; [5]; []",
        ),
        (
            "SELECT list_reduce(l, lambda sum, x: sum + x, 100) FROM t ORDER BY k",
            "106; 100; NULL; 105; NULL",
        ),
        (
            "SELECT array_reduce(l, (sum, x) -> sum + x * k) FROM t WHERE len(l) > 0 ORDER BY k",
            "6; 5; NULL",
        ),
        (
            "SELECT sum(list_reduce(l, (m, x) -> greatest(m, x))) FROM t WHERE len(l) > 0",
            "15",
        ),
        (
            "SELECT k FROM t WHERE any_match(l, x -> x % 5 = 0)",
            "10",
        ),
        (
            "SELECT [x * 2 for x in l if x > 1], [k for x in l] FROM t WHERE k = 1",
            "[4, 6] [1, 1, 1]",
        ),
        (
            "SELECT count(*) FILTER (WHERE len([x for x in l if x > 2]) > 0) FROM t",
            "3",
        ),
        (
            "SELECT list_transform(list_filter([1, 2, 3], x -> x > 1), x -> [x, x + 1])",
            "[[2, 3], [3, 4]]",
        ),
        (
            "SELECT [x.a || x.b.c for x in [{'a': 'p', 'b': {'c': 'q'}}]]",
            "[pq]",
        ),
        (
            "SELECT list_reduce([1.25::DECIMAL(9,2), 2, 2], (a, b) -> a * b), list_reduce([1, 2], (a, b) -> a + b / 4.0)",
            "5.00 1.5",
        ),
        (
            "SELECT list_reduce(['a', 'b', 'c'], (a, b) -> a || b), list_reduce([3], (a, b) -> a / 0)",
            "abc 3",
        ),
    ])
    .await;
}

/// Columns that lambdas read are moved, removed and joined by other operators.
#[tokio::test]
async fn lambdas_read_the_columns_of_their_rows() {
    check(&[
        (
            "SELECT list_transform(m, y -> 5 + y) FROM (SELECT k, list_transform(l, x -> x * k) AS m FROM t WHERE k < 3) ORDER BY k",
            "[6, 7, 8]; []",
        ),
        (
            "SELECT list_transform(l, x -> list_filter(l, y -> y > x)) FROM t WHERE k = 1",
            "[[2, 3], [3], []]",
        ),
        (
            "SELECT sum(n) FROM (SELECT k, id, len([x for x in l if x >= id]) AS n FROM t JOIN d ON any_match(l, x -> x = id)) WHERE k > 0",
            "7",
        ),
        (
            "SELECT (SELECT sum(list_reduce([x for x in l if x > u.k], (a, b) -> a + b, 0)) FROM t) FROM (SELECT * FROM t) AS u WHERE u.k < 3 ORDER BY u.k",
            "17; 15",
        ),
        (
            "SELECT k, row_number() OVER (ORDER BY len([x for x in l if x > k]) DESC, k) FROM t WHERE k < 4 ORDER BY k",
            "1 2; 2 3; 3 1",
        ),
        (
            "SELECT [x IN (0.0, 5, 6, 7, 8) for x in ['-0.0'::DOUBLE, 5, 9]]",
            "[true, true, false]",
        ),
        (
            "SELECT list_transform([0, 2], x -> CASE WHEN x <> 0 THEN 10 / x END), [x for x in [0, 5] if x <> 0 AND 10 / x = 2]",
            "[NULL, 5] [5]",
        ),
        (
            "SELECT len([now() for x in l]), [x || (SELECT max(j ->> 'name') FROM d) for x in l] FROM t WHERE k = 10",
            "1 [5Béa]",
        ),
    ])
    .await;
}

#[tokio::test]
async fn lambdas_have_names_and_errors() {
    let (both, _folder) = tables().await;
    both.columns(
        "SELECT list_transform(l, lambda x: x + 1) FROM t",
        "list_transform(l, x -> x + 1)",
    )
    .await;
    both.run("CREATE MACRO doubled(list) AS list_transform(list, x -> x * 2)")
        .await;
    both.answers("SELECT doubled([1, 2])", "[2, 4]").await;
    both.run("CREATE MACRO next(x) AS list_transform([1, 2], x -> x + 1)")
        .await;
    both.answers("SELECT next(5)", "[2, 3]").await;
    both.run("CREATE MACRO added(x) AS list_transform([1, 2], y -> x + y)")
        .await;
    both.answers("SELECT added(y) FROM (VALUES (10)) v(y)", "[11, 12]")
        .await;
    both.refuses("SELECT list_transform([1, 2], (x, i) -> x + i)", "support only 1")
        .await;
    both.refuses(
        "SELECT list_transform([9223372036854775807], x -> x + 1)",
        "overflow",
    )
    .await;
    both.refuses("SELECT list_reduce(l, (a, b) -> a + b) FROM t", "an empty list")
        .await;
    both.refuses("SELECT list_reduce(1, (a, b) -> a + b)", "takes a list")
        .await;
    both.refuses("SELECT list_reduce([1], 2)", "takes a list").await;
}

/// Many lists of different lengths, beside a loop over the elements.
#[tokio::test]
async fn reduced_lists_agree_with_a_loop() {
    let both = Both::new();
    both.run(
        "CREATE TABLE many AS SELECT value AS k, CASE WHEN value % 11 <> 5 THEN range(value, value + value % 7) END AS l
         FROM generate_series(0, 2999)",
    )
    .await;
    let expected = |k: i64| match k % 11 {
        5 => "NULL".to_owned(),
        _ => (k..k + k % 7).fold(k, |sum, x| (sum * 3 + x) % 1009).to_string(),
    };
    let expected: Vec<String> = (0..3000).map(expected).collect();
    let sql = "SELECT list_reduce(l, (sum, x) -> (sum * 3 + x) % 1009, k) FROM many ORDER BY k";
    assert_eq!(both.rows(sql).await, expected);
    let long = "SELECT list_reduce(range(100000), (a, b) -> (a + b) % 1000)";
    both.answers(long, "0").await;
}

#[tokio::test]
async fn json_is_read_by_paths() {
    check(&[
        (
            "SELECT j ->> 'name', j -> 'age', j -> '$.tags[0]', j ->> '$.home.city' FROM d ORDER BY id",
            "Ann 31 \"a\" Bonn; Béa null NULL NULL; NULL NULL NULL NULL; NULL NULL NULL NULL; NULL NULL NULL NULL",
        ),
        (
            "SELECT j ->> 0, j -> '$[#-1]', j ->> -2, json_extract(j, '/1') FROM d WHERE id = 3",
            "10 -30 20 20",
        ),
        (
            "SELECT j -> 'tags' ->> 1, j ->> 'a.b', j -> '$.\"a.b\"' FROM d WHERE id < 3 ORDER BY id",
            "b NULL NULL; NULL 1.5 1.5",
        ),
        (
            "SELECT id FROM d WHERE j ->> 'name' = 'Ann' OR 'Béa' = j ->> '$.name' ORDER BY id",
            "1; 2",
        ),
        (
            "SELECT id FROM d WHERE j ->> '$.home.city' IS NOT NULL AND j ->> 'name' IN ('Ann', 'Bob')",
            "1",
        ),
        (
            "SELECT CAST(j ->> 'age' AS INT) + 1 FROM d WHERE id < 3 ORDER BY id",
            "32; NULL",
        ),
        (
            "SELECT json_extract_string(j, ['x'][1]), json_extract_path_text(j, 'home', 'city') FROM d WHERE id = 1",
            "NULL Bonn",
        ),
        (
            "SELECT json_array_length(j), json_array_length(j, '$.tags'), json_type(j), json_valid(j) FROM d ORDER BY id",
            "0 2 OBJECT true; 0 0 OBJECT true; 3 NULL ARRAY true; NULL NULL NULL false; NULL NULL NULL NULL",
        ),
        (
            "SELECT json_type(j, 'age'), json_exists(j, '$.age'), json_keys(j, 'home') FROM d WHERE id < 3 ORDER BY id",
            "UBIGINT true [city]; NULL true NULL",
        ),
        (
            "SELECT count(DISTINCT j ->> 'name'), max(j ->> 'age') FROM d",
            "2 31",
        ),
        (
            "SELECT j ->> 'name' AS n, count(*) FROM d GROUP BY n ORDER BY n NULLS LAST",
            "Ann 1; Béa 1; NULL 3",
        ),
    ])
    .await;
}

#[tokio::test]
async fn json_is_written() {
    check(&[
        (
            "SELECT to_json(l), json_object('k', k, 'l', l), json_array(k, 'x', NULL) FROM t ORDER BY k NULLS FIRST LIMIT 3",
            "[7,null] {\"k\":null,\"l\":[7,null]} [null,\"x\",null]; \
             [1,2,3] {\"k\":1,\"l\":[1,2,3]} [1,\"x\",null]; \
             [] {\"k\":2,\"l\":[]} [2,\"x\",null]",
        ),
        (
            "SELECT to_json({'a': 1, 'b': NULL, 'd': DATE '2024-01-02', 't': TIMESTAMP '2024-01-02 03:04:05.5'})",
            "{\"a\":1,\"b\":null,\"d\":\"2024-01-02\",\"t\":\"2024-01-02 03:04:05.500\"}",
        ),
        ("SELECT to_json('a\"b'), to_json(NULL), to_json(1.50::DECIMAL(5,2))", "\"a\\\"b\" NULL 1.50"),
        (
            "SELECT json_array_length(json_group_array(k)), max(k) FROM t",
            "5 10",
        ),
        (
            "SELECT json_group_array(k) FROM t WHERE k = 10 OR k IS NULL GROUP BY k ORDER BY k",
            "[10]; [null]",
        ),
        (
            "SELECT json_group_object(id, id * 2) FROM (SELECT id FROM d WHERE id < 3 ORDER BY id)",
            "{\"1\":2,\"2\":4}",
        ),
        ("SELECT json_group_array(k) FROM t WHERE k > 100", "[]"),
        (
            "SELECT json_group_array(json_object('k', k, 'a', json_array(k))) FROM t WHERE k = 10 GROUP BY k",
            r#"[{"k":10,"a":[10]}]"#,
        ),
        (
            "SELECT json_object('all', json_group_array(json_object('k', k))) FROM t WHERE k = 10 GROUP BY k",
            r#"{"all":[{"k":10}]}"#,
        ),
        (
            "SELECT to_json({'a': json_array(id), 'b': '[1]'}), json_array([j -> 'tags', NULL]), json_object('c', CASE WHEN id > 0 THEN json_array(id) END) FROM d WHERE id = 1",
            r#"{"a":[1],"b":"[1]"} [[["a", "b"],null]] {"c":[1]}"#,
        ),
        (
            "SELECT to_json(list(json_object('id', id) ORDER BY id)) FROM d WHERE id < 3",
            r#"[{"id":1},{"id":2}]"#,
        ),
        (
            "SELECT json_object('a', json_array(1, NULL), 'b', j -> 'tags', 'c', '{}'::JSON, 'd', '{}'), to_json(to_json('x')) FROM d WHERE id < 3 ORDER BY id",
            "{\"a\":[1,null],\"b\":[\"a\", \"b\"],\"c\":{},\"d\":\"{}\"} \"x\"; \
             {\"a\":[1,null],\"b\":[],\"c\":{},\"d\":\"{}\"} \"x\"",
        ),
    ])
    .await;
    let (both, _folder) = tables().await;
    both.refuses("SELECT j -> '$.*' FROM d", "wildcard").await;
    both.refuses("SELECT j -> '$.a[x]' FROM d", "no integer").await;
    both.refuses("SELECT j -> ['a', 'b'] FROM d", "list of JSON paths")
        .await;
    both.refuses("SELECT k -> 'a' FROM t", "expected a string").await;
    both.refuses("SELECT json_object('a') FROM t", "names and values in turn")
        .await;
    both.columns(
        "SELECT j -> 'a' = 1, json_type(j) FROM d",
        "j -> 'a' = 1 json_type(j)",
    )
    .await;
}

#[tokio::test]
async fn short_forms_are_written_out() {
    check(&[
        ("SELECT sum(k) FILTER (k > 2) FROM t", "13"),
        (
            "SELECT k FROM t WHERE k IN [1, 3] OR k NOT IN [1, 2, 3] ORDER BY k",
            "1; 3; 10",
        ),
        (
            "SELECT struct_pack(a := k, b := 'x') FROM t WHERE k = 2",
            "{a: 2, b: x}",
        ),
    ])
    .await;
    let (both, _folder) = tables().await;
    both.answers("TABLE t ORDER BY k LIMIT 1", "1 [1, 2, 3]").await;
    both.columns("SELECT struct_pack(a := 1)", "struct_pack(a := 1)")
        .await;
}
