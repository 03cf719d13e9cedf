//! Values of results, and the protocol of statements and transactions.

use tokio_postgres::types::{FromSql, Type};

use crate::postgres::simple;
use crate::support::{config, postgres, start, state};

/// The bytes of a value of any type.
struct Bytes(Vec<u8>);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[tokio::test]
async fn values_have_the_text_of_postgres() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    for (sql, expected) in [
        (
            "SELECT NULL::interval, INTERVAL '1 month 2 days'",
            "NULL|1 mon 2 days",
        ),
        (
            "SELECT 'inf'::double, '-inf'::real, 'nan'::double",
            "Infinity|-Infinity|NaN",
        ),
        ("SELECT make_array('inf'::double, 1.5)", "{Infinity,1.5}"),
        (
            "SELECT '12345678901234567890123456789012345678'::decimal(38, 0), '1.5'::decimal(60, 30)",
            "12345678901234567890123456789012345678|1.500000000000000000000000000000",
        ),
        (
            "SELECT row_number() OVER (), '18446744073709551615'::bigint unsigned",
            "1|18446744073709551615",
        ),
        (
            "SELECT arrow_cast(arrow_cast('0123456789abcdef', 'Binary'), 'FixedSizeBinary(16)')",
            "\\x30313233343536373839616263646566",
        ),
        (
            "SELECT TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 00:00:00.25'",
            "2024-01-01 00:00:00|2024-01-01 00:00:00.25",
        ),
        (
            "SELECT make_array('a b', NULL, 'null', '')",
            "{\"a b\",NULL,\"null\",\"\"}",
        ),
        ("SELECT 255::utinyint, 'x'::name, '{}'::jsonb", "255|x|{}"),
    ] {
        assert_eq!(simple(&client, sql).await.expect(sql), [expected], "{sql}");
    }
    server.stop().await;
}

#[tokio::test]
async fn values_have_the_binary_format_of_postgres() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    let row = client
        .query_one(
            "SELECT row_number() OVER () AS n, NULL::interval AS i, 12345.678::decimal(38, 3) AS d, \
             make_array(1.5::decimal(38, 1), NULL) AS l, -1.5::decimal(60, 1) AS w, 'NaN'::double AS f",
            &[],
        )
        .await
        .expect("a row");
    let types: Vec<&Type> = row.columns().iter().map(tokio_postgres::Column::type_).collect();
    let expected = [
        Type::INT8,
        Type::INTERVAL,
        Type::NUMERIC,
        Type::NUMERIC_ARRAY,
        Type::NUMERIC,
        Type::FLOAT8,
    ];
    assert_eq!(types, expected.iter().collect::<Vec<_>>());
    assert_eq!(row.get::<_, i64>(0), 1);
    assert!(row.get::<_, Option<Bytes>>(1).is_none());
    assert_eq!(
        row.get::<_, Bytes>(2).0,
        [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]
    );
    let list = row.get::<_, Vec<Option<Bytes>>>(3);
    assert_eq!(list.len(), 2);
    assert!(list[1].is_none());
    assert_eq!(row.get::<_, Bytes>(4).0, [0, 2, 0, 0, 64, 0, 0, 1, 0, 1, 19, 136]);
    assert!(row.get::<_, f64>(5).is_nan());
    let wide = client
        .query_one("SELECT '18446744073709551615'::bigint unsigned", &[])
        .await;
    assert_eq!(state(wide).0, "22003");
    server.stop().await;
}

#[tokio::test]
async fn failed_transactions_refuse_statements_until_their_end() {
    let server = start(config()).await;
    let client = postgres(&server).await;
    simple(&client, "CREATE TABLE t (a INT)").await.expect("a table");
    for end in ["ROLLBACK", "COMMIT"] {
        simple(&client, "BEGIN").await.expect("begun");
        assert_eq!(state(simple(&client, "SELECT absent FROM t").await).0, "42703");
        assert_eq!(
            state(simple(&client, "INSERT INTO t VALUES (1)").await).0,
            "25P02"
        );
        assert_eq!(state(client.query("SELECT 1", &[]).await).0, "25P02");
        assert_eq!(state(client.query("SHOW datestyle", &[]).await).0, "25P02");
        simple(&client, end).await.expect("ended");
        assert_eq!(
            simple(&client, "SELECT count(*) FROM t").await.expect("rows"),
            ["0"]
        );
    }
    simple(&client, "BEGIN; SAVEPOINT s").await.expect("begun");
    assert_eq!(state(simple(&client, "SELECT absent FROM t").await).0, "42703");
    simple(&client, "ROLLBACK TO SAVEPOINT s").await.expect("resumed");
    assert_eq!(simple(&client, "SELECT 1").await.expect("rows"), ["1"]);
    assert_eq!(state(simple(&client, "SELECT absent FROM t").await).0, "42703");
    assert_eq!(state(simple(&client, "SELECT 1").await).0, "25P02");
    simple(&client, "ROLLBACK; SELECT 1").await.expect("ended");
    // Outside a transaction, an error ends with its statement.
    assert_eq!(state(simple(&client, "SELECT absent FROM t").await).0, "42703");
    assert_eq!(simple(&client, "SELECT 1").await.expect("rows"), ["1"]);
    simple(&client, "SET datestyle TO iso").await.expect("set");
    assert_eq!(
        simple(&client, "SHOW datestyle").await.expect("rows"),
        ["ISO, MDY"]
    );
    server.stop().await;
}

/// Messages of a connection without a driver.
struct Messages(tokio::net::TcpStream);

impl Messages {
    async fn send(&mut self, kind: u8, body: &[u8]) {
        use tokio::io::AsyncWriteExt;
        let length = u32::try_from(body.len() + 4).expect("a length");
        let message = [&[kind], length.to_be_bytes().as_slice(), body].concat();
        self.0.write_all(&message).await.expect("sent");
    }

    /// The kinds of the messages up to ReadyForQuery.
    async fn kinds(&mut self) -> String {
        use tokio::io::AsyncReadExt;
        let mut kinds = String::new();
        while !kinds.ends_with('Z') {
            let kind = self.0.read_u8().await.expect("a message");
            let length = self.0.read_u32().await.expect("a length");
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).await.expect("a message");
            kinds.push(char::from(kind));
        }
        kinds
    }
}

#[tokio::test]
async fn statements_without_rows_have_no_description() {
    use tokio::io::AsyncWriteExt;
    let server = start(config()).await;
    let stream = tokio::net::TcpStream::connect(server.postgres().expect("an address")).await;
    let mut messages = Messages(stream.expect("a connection"));
    let startup = b"\0\x03\0\0user\0ann\0database\0galatea\0\0";
    let length = u32::try_from(startup.len() + 4).expect("a length");
    let startup = [length.to_be_bytes().as_slice(), startup].concat();
    messages.0.write_all(&startup).await.expect("sent");
    messages.kinds().await;
    messages.send(b'Q', b"CREATE TABLE t (a INT)\0").await;
    assert_eq!(messages.kinds().await, "CZ");
    // A call of a function is refused, and the connection remains usable.
    messages.send(b'F', &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    assert_eq!(messages.kinds().await, "EZ");
    for (sql, expected) in [
        ("INSERT INTO t VALUES ($1)\0", "1tnZ"),
        ("CREATE TABLE u (a INT)\0", "1tnZ"),
        ("SELECT a FROM t WHERE a = $1\0", "1tTZ"),
    ] {
        messages
            .send(b'P', &[b"\0", sql.as_bytes(), b"\0\0"].concat())
            .await;
        messages.send(b'D', b"S\0").await;
        messages.send(b'S', b"").await;
        assert_eq!(messages.kinds().await, expected, "{sql}");
    }
    server.stop().await;
}
