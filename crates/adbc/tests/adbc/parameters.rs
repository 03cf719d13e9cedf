//! Prepared statements and bound batches.

use adbc_core::Statement;
use adbc_core::error::Status;
use arrow::array::{
    Float64Array, Int32Array, Int64Array, NullArray, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray,
};
use arrow::datatypes::DataType;

use crate::support::{batch, collect, column, connection, lines, rows, statement, update};

#[test]
fn query_runs_once_per_row() {
    let mut connection = connection();
    let mut statement = statement(
        &mut connection,
        "SELECT v, ? AS name FROM (VALUES (1), (2)) AS t(v) WHERE v <= ? ORDER BY v",
    );
    let values = batch(vec![
        ("x", column(StringArray::from(vec![Some("a"), None, Some("c")]))),
        ("y", column(Int64Array::from(vec![2, 1, 0]))),
    ]);
    statement.bind(values).expect("bound");
    let reader = statement.execute().expect("a reader");
    assert_eq!(reader.schema().field(1).data_type(), &DataType::Utf8);
    assert_eq!(lines(&collect(reader)), ["1|a", "2|a", "1|"]);
}

#[test]
fn positions_may_repeat() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT $2 - $1 - $1 AS d");
    let values = batch(vec![
        ("", column(Int64Array::from(vec![1]))),
        (" ", column(Int64Array::from(vec![44]))),
    ]);
    statement.bind(values).expect("bound");
    assert_eq!(lines(&collect(statement.execute().expect("a reader"))), ["42"]);
}

#[test]
fn names_are_those_of_columns() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT $high - $low AS d");
    let values = || {
        batch(vec![
            ("low", column(Int64Array::from(vec![1, 2]))),
            ("high", column(Int64Array::from(vec![43, 2]))),
        ])
    };
    statement.bind(values()).expect("bound");
    assert_eq!(
        lines(&collect(statement.execute().expect("a reader"))),
        ["42", "0"]
    );
    statement
        .bind(values().project(&[0]).expect("a column"))
        .expect("bound");
    let error = statement.execute().err().expect("a missing value");
    assert_eq!(error.status, Status::InvalidArguments);
    assert!(
        error.message.contains("no value for the placeholder $high"),
        "{error}"
    );
}

#[test]
fn null_of_any_type_is_bound() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT ? IS NULL AS a, coalesce(?, 7) AS b");
    let values = batch(vec![
        ("a", column(NullArray::new(2))),
        ("b", column(Int64Array::from(vec![None, Some(1)]))),
    ]);
    statement.bind(values).expect("bound");
    assert_eq!(
        lines(&collect(statement.execute().expect("a reader"))),
        ["true|7", "true|1"]
    );
}

#[test]
fn updates_sum_their_rows() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t (a BIGINT, b VARCHAR)");
    let mut statement = statement(&mut connection, "INSERT INTO t VALUES (?, ?)");
    let values = |numbers: Vec<i32>| {
        let texts: Vec<String> = numbers.iter().map(|number| format!("n{number}")).collect();
        batch(vec![
            ("a", column(Int32Array::from(numbers))),
            ("b", column(StringArray::from(texts))),
        ])
    };
    let batches = vec![values(vec![1, 2]), values(vec![]), values(vec![3])];
    let schema = batches[0].schema();
    let stream = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    statement.bind_stream(Box::new(stream)).expect("bound");
    assert_eq!(statement.execute_update().expect("inserted"), Some(3));
    assert_eq!(
        rows(&mut connection, "SELECT a, b FROM t ORDER BY a"),
        ["1|n1", "2|n2", "3|n3"]
    );
}

#[test]
fn insert_takes_names_and_any_order() {
    let mut connection = connection();
    update(
        &mut connection,
        "CREATE TABLE t (a SMALLINT, b VARCHAR, c DOUBLE DEFAULT 0.5)",
    );
    let values = || {
        batch(vec![
            ("x", column(StringArray::from(vec!["p", "q"]))),
            ("y", column(Int64Array::from(vec![Some(5), None]))),
        ])
    };
    for sql in [
        "INSERT INTO t (b, a) VALUES ($x, $y)",
        "INSERT INTO t (a, b) VALUES ($2, $1)",
        // These are not rows of placeholders alone.
        "INSERT INTO t (a, b) VALUES ($2, $1 || '!')",
        "INSERT INTO t (a, b) SELECT $2, $1",
    ] {
        let mut statement = statement(&mut connection, sql);
        statement.bind(values()).expect("bound");
        assert_eq!(statement.execute_update().expect(sql), Some(2), "{sql}");
    }
    assert_eq!(
        rows(
            &mut connection,
            "SELECT b, sum(a), count(*), sum(c) FROM t GROUP BY b ORDER BY b"
        ),
        ["p|15|3|1.5", "p!|5|1|0.5", "q||3|1.5", "q!||1|0.5"]
    );
    // A value that does not fit its column.
    let mut statement = statement(&mut connection, "INSERT INTO t (b, a) VALUES (?, ?)");
    let values = batch(vec![
        ("x", column(StringArray::from(vec!["p", "q"]))),
        ("y", column(Int64Array::from(vec![1, 70_000]))),
    ]);
    statement.bind(values).expect("bound");
    let error = statement.execute_update().expect_err("too large");
    assert!(error.message.contains("70000"), "{error}");
    assert_eq!(rows(&mut connection, "SELECT count(*) FROM t"), ["8"]);
}

#[test]
fn many_rows_are_one_insert_into_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.db");
    let mut connection = crate::support::connection_of(&path);
    update(&mut connection, "CREATE TABLE t (a BIGINT)");
    let files = || std::fs::read_dir(path.join("data")).expect("a folder").count();
    let before = files();
    let mut statement = statement(&mut connection, "INSERT INTO t VALUES (?)");
    let numbers: Vec<i64> = (1..=1000).collect();
    statement
        .bind(batch(vec![("a", column(Int64Array::from(numbers)))]))
        .expect("bound");
    assert_eq!(statement.execute_update().expect("inserted"), Some(1000));
    assert_eq!(files(), before + 1);
    assert_eq!(
        rows(&mut connection, "SELECT count(*), sum(a) FROM t"),
        ["1000|500500"]
    );
}

#[test]
fn no_rows_run_nothing() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t (a BIGINT)");
    let empty = || batch(vec![("a", column(Int64Array::from(Vec::<i64>::new())))]);
    let mut insert = statement(&mut connection, "INSERT INTO t VALUES (?)");
    insert.bind(empty()).expect("bound");
    assert_eq!(insert.execute_update().expect("nothing"), Some(0));
    let mut query = statement(&mut connection, "SELECT ? + 1 AS b");
    query.bind(empty()).expect("bound");
    let reader = query.execute().expect("a reader");
    assert_eq!(reader.schema().field(0).name(), "b");
    assert_eq!(reader.schema().field(0).data_type(), &DataType::Int64);
    assert_eq!(collect(reader).len(), 0);
    assert_eq!(rows(&mut connection, "SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn parameters_of_a_prepared_statement_have_types() {
    let mut connection = connection();
    update(&mut connection, "CREATE TABLE t (a BIGINT, b DOUBLE)");
    let mut statement = statement(
        &mut connection,
        "SELECT * FROM t WHERE a = ? AND b < ? AND ? IS NULL",
    );
    let error = statement.get_parameter_schema().expect_err("not prepared");
    assert_eq!(error.status, Status::InvalidState);
    statement.prepare().expect("prepared");
    let schema = statement.get_parameter_schema().expect("a schema");
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type().clone()))
        .collect();
    assert_eq!(
        fields,
        [
            ("", DataType::Int64),
            ("", DataType::Float64),
            ("", DataType::Null)
        ]
    );
    statement
        .set_sql_query("SELECT $size + CAST($more AS SMALLINT) + $size")
        .expect("a query");
    statement.prepare().expect("prepared");
    let schema = statement.get_parameter_schema().expect("a schema");
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["size", "more"]);
    assert_eq!(schema.field(1).data_type(), &DataType::Int16);
}

#[test]
fn prepared_statement_runs_several_times() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT ? * 2 AS a");
    statement.prepare().expect("prepared");
    for (value, twice) in [(1.5, "3.0"), (21.0, "42.0")] {
        let values: RecordBatch = batch(vec![("x", column(Float64Array::from(vec![value])))]);
        statement.bind(values).expect("bound");
        assert_eq!(lines(&collect(statement.execute().expect("a reader"))), [twice]);
    }
    // The values are those of one execution.
    let error = statement.execute().err().expect("no values");
    assert_eq!(error.status, Status::InvalidArguments);
    assert!(
        error.message.contains("the statement has 1 placeholder"),
        "{error}"
    );
}

#[test]
fn other_numbers_of_values_are_errors() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT ?, ?");
    statement
        .bind(batch(vec![("x", column(Int64Array::from(vec![1])))]))
        .expect("bound");
    let error = statement.execute().err().expect("a missing value");
    assert_eq!(error.status, Status::InvalidArguments);
    assert!(
        error
            .message
            .contains("the statement has 2 placeholders, the list 1 value"),
        "{error}"
    );
}

#[test]
fn error_in_a_later_row_ends_the_result() {
    let mut connection = connection();
    let mut statement = statement(&mut connection, "SELECT 10 / ? AS a");
    statement
        .bind(batch(vec![("x", column(Int64Array::from(vec![5, 0, 2])))]))
        .expect("bound");
    let mut reader = statement.execute().expect("the first row");
    assert_eq!(reader.next().expect("a batch").expect("a row").num_rows(), 1);
    let error = reader.next().expect("an error").expect_err("a division by zero");
    assert!(error.to_string().contains("division by zero"), "{error}");
    assert!(error.to_string().contains("22012"), "{error}");
    assert!(reader.next().is_none());
}
