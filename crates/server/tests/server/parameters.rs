//! Parameters of statements: the types that clients declare, and exact values.

use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut};

use crate::postgres::simple;
use crate::support::{config, postgres, start, state};

/// A value in the binary format of any type.
#[derive(Debug)]
struct Raw(&'static [u8]);

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// A value in the text format.
#[derive(Debug)]
struct Text(&'static str);

impl ToSql for Text {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> tokio_postgres::types::Format {
        tokio_postgres::types::Format::Text
    }

    tokio_postgres::types::to_sql_checked!();
}

#[tokio::test]
async fn values_keep_their_declared_types() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(
        &client,
        "CREATE TABLE items (id INT, price DECIMAL(10, 2), d DATE, ts TIMESTAMP, name VARCHAR); \
         INSERT INTO items SELECT v, v / 2.0, DATE '2024-01-01' + v::int, TIMESTAMP '2024-01-01 00:00:00', 'n' || v \
         FROM generate_series(1, 20) AS t(v)",
    )
    .await
    .expect("a table");
    let count = async |condition: &str, wire: Type, value: &(dyn ToSql + Sync)| {
        let sql = format!("SELECT count(*) FROM items WHERE {condition}");
        let statement = client
            .prepare_typed(&sql, std::slice::from_ref(&wire))
            .await
            .expect("prepared");
        assert_eq!(statement.params(), [wire]);
        let row = client.query_one(&statement, &[value]).await.expect(condition);
        row.get::<_, i64>(0)
    };
    for (condition, wire, value, expected) in [
        ("id < $1", Type::NUMERIC, "10.5", 10),
        ("id = $1", Type::NUMERIC, "10.5", 0),
        ("id < $1", Type::NUMERIC, "3000000000.5", 20),
        ("id < $1", Type::INT8, "3000000000", 20),
        ("id < $1", Type::FLOAT8, "10.5", 10),
        ("price >= $1", Type::INT4, "5", 11),
        ("price = $1", Type::NUMERIC, "2.504", 0),
        ("price = $1", Type::FLOAT8, "2.5", 1),
        ("d >= $1", Type::TIMESTAMP, "2024-01-10 12:00:00", 11),
        (
            "ts + $1 > TIMESTAMP '2024-01-02 00:00:00'",
            Type::INTERVAL,
            "86400000001 microseconds",
            20,
        ),
        ("name = ANY($1)", Type::TEXT_ARRAY, "{n1,\"n2\",NULL}", 2),
        ("id = ANY($1)", Type::INT4_ARRAY, "{1,2,30}", 2),
        ("id = $1", Type::VARCHAR, "7", 1),
        ("name = $1", Type::VARCHAR, "n7", 1),
    ] {
        assert_eq!(
            count(condition, wire, &Text(value)).await,
            expected,
            "{condition} {value}"
        );
    }
    assert_eq!(count("price > $1", Type::INT8, &7i64).await, 6);
    assert_eq!(count("id < $1", Type::FLOAT8, &10.5f64).await, 10);
    // 10.5: groups 10 and 5000, weight 0, scale 1.
    let numeric = Raw(&[0, 2, 0, 0, 0, 0, 0, 1, 0, 10, 0x13, 0x88]);
    assert_eq!(count("id < $1", Type::NUMERIC, &numeric).await, 10);
    // Without a declared type, a string has the type of the column.
    for (condition, value, expected) in [
        ("id = $1", "7", Ok(1)),
        ("id < $1", "10.5", Err("22P02")),
        ("id < $1", "3000000000", Err("22003")),
        ("price = $1", "2.504", Ok(0)),
        ("d < $1", "infinity", Err("22008")),
    ] {
        let sql = format!("SELECT count(*) FROM items WHERE {condition}");
        let found = client.query_one(&sql, &[&Text(value)]).await;
        match expected {
            Ok(count) => assert_eq!(found.expect(&sql).get::<_, i64>(0), count, "{sql}"),
            Err(code) => assert_eq!(state(found).0, code, "{sql}"),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn results_have_the_types_of_parameters() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    for (wire, text) in [
        (Type::NUMERIC, "1.50"),
        (Type::TIMESTAMP, "2024-01-05 03:00:00"),
        (Type::TIMESTAMPTZ, "2024-01-05 03:00:00+00"),
        (Type::DATE, "2024-01-05"),
        (Type::TIME, "03:00:01.5"),
        (Type::BYTEA, "\\x00ff"),
        (Type::INTERVAL, "1 year 2 days"),
        (Type::INT4_ARRAY, "{1,NULL,3}"),
        (Type::TEXT_ARRAY, "{a,\"b c\"}"),
        (Type::NUMERIC_ARRAY, "{1.5,22}"),
        (Type::BOOL, "t"),
    ] {
        let statement = client
            .prepare_typed("SELECT $1 AS a", std::slice::from_ref(&wire))
            .await
            .expect("prepared");
        assert_eq!(statement.columns()[0].type_(), &wire);
        client.query_one(&statement, &[&Text(text)]).await.expect("a row");
        let null: Option<&str> = None;
        let row = client
            .query_one(&statement, &[&null.map(|_| Text(""))])
            .await
            .expect("a row");
        assert!(row.try_get::<_, Option<bool>>(0).is_ok() || wire != Type::BOOL);
    }
    let bytes = client
        .prepare_typed("SELECT $1 AS a", &[Type::BYTEA])
        .await
        .expect("prepared");
    let row = client.query_one(&bytes, &[&vec![0u8, 255]]).await.expect("a row");
    assert_eq!(row.get::<_, Vec<u8>>(0), [0, 255]);
    let list = client
        .prepare_typed("SELECT $1 AS a", &[Type::INT8_ARRAY])
        .await
        .expect("prepared");
    let row = client.query_one(&list, &[&vec![1i64, 2]]).await.expect("a row");
    assert_eq!(row.get::<_, Vec<i64>>(0), [1, 2]);
    server.stop().await;
}

#[tokio::test]
async fn columns_convert_the_values_of_changes() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(
        &client,
        "CREATE TABLE t (a INT, b DECIMAL(10, 2), c DATE, d VARCHAR)",
    )
    .await
    .expect("a table");
    let insert = client
        .prepare_typed(
            "INSERT INTO t VALUES ($1, $2, $3, $4), ($5, 1, NULL, 'x')",
            &[
                Type::NUMERIC,
                Type::FLOAT8,
                Type::TIMESTAMP,
                Type::VARCHAR,
                Type::INT8,
            ],
        )
        .await
        .expect("prepared");
    let values: [&(dyn ToSql + Sync); 5] = [
        &Text("10.5"),
        &Text("2.346"),
        &Text("2024-01-05 10:00:00"),
        &"v",
        &2i64,
    ];
    assert_eq!(client.execute(&insert, &values).await.expect("inserted"), 2);
    assert_eq!(
        simple(&client, "SELECT * FROM t ORDER BY a").await.expect("rows"),
        ["2|1.00|NULL|x", "11|2.35|2024-01-05|v"]
    );
    let update = client
        .prepare_typed(
            "UPDATE t SET a = $1, b = b + $2 WHERE a = $3",
            &[Type::INT8, Type::INT4, Type::NUMERIC],
        )
        .await
        .expect("prepared");
    let values: [&(dyn ToSql + Sync); 3] = [&40i64, &1i32, &Text("11.0")];
    assert_eq!(client.execute(&update, &values).await.expect("updated"), 1);
    let select = client
        .prepare_typed(
            "INSERT INTO t (a, d) SELECT $1, d FROM t WHERE a = $2",
            &[Type::NUMERIC, Type::INT2],
        )
        .await
        .expect("prepared");
    assert_eq!(
        client
            .execute(&select, &[&Text("7.0"), &40i16])
            .await
            .expect("inserted"),
        1
    );
    assert_eq!(
        simple(&client, "SELECT a, b, d FROM t ORDER BY a")
            .await
            .expect("rows"),
        ["2|1.00|x", "7|NULL|v", "40|3.35|v"]
    );
    let wide = client
        .prepare_typed("INSERT INTO t (a) VALUES ($1)", &[Type::INT8])
        .await
        .expect("prepared");
    assert!(client.execute(&wide, &[&(1i64 << 40)]).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn declared_types_plan_expressions_of_parameters() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(
        &client,
        "CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, '1'), (2, '2')",
    )
    .await
    .expect("a table");
    for (sql, types, values, expected) in [
        (
            "SELECT $1 || $2",
            vec![Type::TEXT, Type::VARCHAR],
            vec!["a", "b"],
            "ab",
        ),
        (
            "SELECT ($1 + $2)::varchar",
            vec![Type::NUMERIC, Type::NUMERIC],
            vec!["1.5", "2.25"],
            "3.75",
        ),
        (
            "SELECT ($1 + $2)::varchar",
            vec![Type::INT4, Type::INT8],
            vec!["1", "2"],
            "3",
        ),
        (
            "SELECT b FROM t WHERE a = $1 OR b = $1",
            vec![Type::INT4],
            vec!["2"],
            "2",
        ),
        (
            "SELECT b FROM t ORDER BY a LIMIT $1 OFFSET $2",
            vec![Type::INT2, Type::INT4],
            vec!["1", "1"],
            "2",
        ),
        (
            "SELECT CASE WHEN $1 THEN 'y' ELSE 'n' END",
            vec![Type::BOOL],
            vec!["t"],
            "y",
        ),
    ] {
        let statement = client.prepare_typed(sql, &types).await.expect(sql);
        assert_eq!(statement.params(), types, "{sql}");
        let values: Vec<Text> = values.into_iter().map(Text).collect();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let row = client.query_one(&statement, &values).await.expect(sql);
        assert_eq!(row.get::<_, &str>(0), expected, "{sql}");
    }
    let concat = client.prepare("SELECT $1 || $2").await.expect("prepared");
    let row = client.query_one(&concat, &[&"a", &"b"]).await.expect("a row");
    assert_eq!(row.get::<_, &str>(0), "ab");
    let any = client
        .prepare("SELECT a FROM t WHERE b = ANY($1)")
        .await
        .expect("prepared");
    assert_eq!(any.params(), [Type::TEXT_ARRAY]);
    assert_eq!(
        client.query(&any, &[&vec!["2", "3"]]).await.expect("rows").len(),
        1
    );
    let part = client
        .prepare_typed("SELECT substr('abc', $1)", &[Type::INT2])
        .await
        .expect("prepared");
    let row = client.query_one(&part, &[&2i16]).await.expect("a row");
    assert_eq!(row.get::<_, &str>(0), "bc");
    let limit = client
        .prepare("SELECT a FROM t WHERE $1 AND a > 0 LIMIT $2")
        .await
        .expect("prepared");
    assert_eq!(limit.params(), [Type::BOOL, Type::INT8]);
    assert_eq!(
        client.query(&limit, &[&true, &1i64]).await.expect("rows").len(),
        1
    );
    server.stop().await;
}
