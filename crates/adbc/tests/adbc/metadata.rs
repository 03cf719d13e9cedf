//! Properties of the driver, and descriptions of tables.

use std::collections::HashSet;

use adbc_core::Connection;
use adbc_core::error::Status;
use adbc_core::options::{InfoCode, ObjectDepth};
use adbc_core::schemas::{GET_INFO_SCHEMA, GET_OBJECTS_SCHEMA};
use adbc_driver_galatea::GalateaConnection;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type};

use crate::support::{collect, connection, lines, update};

/// The only batch of a reader.
fn only(reader: impl RecordBatchReader) -> RecordBatch {
    let mut batches = collect(reader);
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

#[test]
fn info_names_the_engine_and_its_versions() {
    let connection = connection();
    let batch = only(connection.get_info(None).expect("a reader"));
    assert_eq!(batch.schema(), *GET_INFO_SCHEMA);
    let codes = batch.column(0).as_primitive::<UInt32Type>();
    assert_eq!(codes.values().to_vec(), [0, 1, 2, 3, 4, 5, 6, 100, 101, 102, 103]);
    let values = batch.column(1).as_union();
    assert_eq!(values.value(0).as_string::<i32>().value(0), "Galatea");
    assert_eq!(
        values.value(1).as_string::<i32>().value(0),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(values.value(2).as_string::<i32>().value(0), arrow::ARROW_VERSION);
    assert!(values.value(3).as_boolean().value(0));
    assert!(!values.value(4).as_boolean().value(0));
    assert!(values.value(5).is_null(0));
    assert_eq!(values.value(10).as_primitive::<Int64Type>().value(0), 1_001_000);
}

#[test]
fn info_has_the_requested_codes_only() {
    let connection = connection();
    let codes = HashSet::from([InfoCode::DriverName, InfoCode::from(12_345)]);
    let batch = only(connection.get_info(Some(codes)).expect("a reader"));
    assert_eq!(
        batch.column(0).as_primitive::<UInt32Type>().values().to_vec(),
        [100]
    );
}

/// The objects as paths, with the types of tables and columns.
fn objects(
    connection: &GalateaConnection,
    depth: ObjectDepth,
    [catalog, schema, table, column]: [Option<&str>; 4],
    types: Option<Vec<&str>>,
) -> Vec<String> {
    let reader = connection.get_objects(depth, catalog, schema, table, types, column);
    let batch = only(reader.expect("a reader"));
    assert_eq!(batch.schema(), *GET_OBJECTS_SCHEMA);
    let mut paths = Vec::new();
    let each = |list: &ArrayRef, row: usize| {
        let list = list.as_list::<i32>();
        list.is_valid(row).then(|| list.value(row))
    };
    for row in 0..batch.num_rows() {
        let catalog = batch.column(0).as_string::<i32>().value(row).to_owned();
        let Some(schemas) = each(batch.column(1), row) else {
            paths.push(catalog);
            continue;
        };
        let schemas = schemas.as_struct();
        for row in 0..schemas.len() {
            let schema = format!("{catalog}.{}", schemas.column(0).as_string::<i32>().value(row));
            let Some(tables) = each(schemas.column(1), row) else {
                paths.push(schema);
                continue;
            };
            let tables = tables.as_struct();
            for row in 0..tables.len() {
                let text = |column: usize| tables.column(column).as_string::<i32>().value(row).to_owned();
                let table = format!("{schema}.{} {}", text(0), text(1));
                let Some(columns) = each(tables.column(2), row) else {
                    assert!(tables.column(3).is_null(row));
                    paths.push(table);
                    continue;
                };
                assert_eq!(each(tables.column(3), row).expect("constraints").len(), 0);
                let columns = columns.as_struct();
                let of = |name: &str| columns.column_by_name(name).expect("a column").clone();
                let columns: Vec<String> = (0..columns.len())
                    .map(|row| {
                        format!(
                            "{} {} {} {}",
                            of("ordinal_position").as_primitive::<Int32Type>().value(row),
                            of("column_name").as_string::<i32>().value(row),
                            of("xdbc_type_name").as_string::<i32>().value(row),
                            of("xdbc_is_nullable").as_string::<i32>().value(row),
                        )
                    })
                    .collect();
                paths.push(format!("{table}: {}", columns.join(", ")));
            }
        }
    }
    paths
}

fn with_tables() -> GalateaConnection {
    let mut connection = connection();
    update(
        &mut connection,
        "CREATE TABLE orders (id BIGINT NOT NULL, total DECIMAL(10, 2), tags VARCHAR[])",
    );
    update(&mut connection, "CREATE TABLE \"Other_1\" (a DOUBLE)");
    update(&mut connection, "CREATE VIEW v AS SELECT id FROM orders");
    update(&mut connection, "CREATE SCHEMA s");
    update(&mut connection, "CREATE TABLE s.orders (b BOOLEAN)");
    connection
}

const ALL: [Option<&str>; 4] = [None; 4];

#[test]
fn objects_have_each_depth() {
    let connection = with_tables();
    let at = |depth| objects(&connection, depth, ALL, None);
    assert_eq!(at(ObjectDepth::Catalogs), ["datafusion"]);
    assert_eq!(at(ObjectDepth::Schemas), ["datafusion.public", "datafusion.s"]);
    assert_eq!(
        at(ObjectDepth::Tables),
        [
            "datafusion.public.Other_1 TABLE",
            "datafusion.public.orders TABLE",
            "datafusion.public.v VIEW",
            "datafusion.s.orders TABLE",
        ]
    );
    let all = [
        "datafusion.public.Other_1 TABLE: 1 a DOUBLE YES",
        "datafusion.public.orders TABLE: 1 id BIGINT NO, 2 total DECIMAL(10, 2) YES, 3 tags VARCHAR[] YES",
        "datafusion.public.v VIEW: 1 id BIGINT NO",
        "datafusion.s.orders TABLE: 1 b BOOLEAN YES",
    ];
    assert_eq!(at(ObjectDepth::All), all);
    assert_eq!(at(ObjectDepth::Columns), all);
}

#[test]
fn objects_are_filtered_by_patterns() {
    let connection = with_tables();
    let found = |filter: [Option<&str>; 4]| objects(&connection, ObjectDepth::All, filter, None);
    assert_eq!(
        found([None, None, Some("ord%"), Some("%d")]),
        [
            "datafusion.public.orders TABLE: 1 id BIGINT NO",
            "datafusion.s.orders TABLE: ",
        ]
    );
    assert_eq!(
        found([None, Some("_"), None, None]),
        ["datafusion.s.orders TABLE: 1 b BOOLEAN YES"]
    );
    assert_eq!(
        found([None, None, Some("Other\\_1"), None]),
        ["datafusion.public.Other_1 TABLE: 1 a DOUBLE YES"]
    );
    assert_eq!(found([None, None, Some("other%"), None]), Vec::<String>::new());
    assert_eq!(found([Some(""), None, None, None]), Vec::<String>::new());
    let views = objects(&connection, ObjectDepth::Tables, ALL, Some(vec!["VIEW"]));
    assert_eq!(views, ["datafusion.public.v VIEW"]);
}

#[test]
fn broken_view_is_listed_without_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut connection = crate::support::connection_of(&folder.path().join("my.db"));
    update(&mut connection, "CREATE TABLE t AS SELECT 1 AS a");
    update(&mut connection, "CREATE VIEW v AS SELECT a FROM t");
    update(&mut connection, "DROP TABLE t");
    assert_eq!(
        objects(&connection, ObjectDepth::All, ALL, None),
        ["datafusion.public.v VIEW: "]
    );
}

#[test]
fn table_has_a_schema() {
    let connection = with_tables();
    let of = |schema, table| connection.get_table_schema(None, schema, table);
    let schema = of(None, "orders").expect("a schema");
    let types: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    assert_eq!(types[..2], [DataType::Int64, DataType::Decimal128(10, 2)]);
    assert!(!schema.field(0).is_nullable());
    assert_eq!(of(Some("s"), "orders").expect("a schema").field(0).name(), "b");
    assert_eq!(of(None, "Other_1").expect("a schema").fields().len(), 1);
    assert_eq!(
        of(None, "other_1").expect_err("no table").status,
        Status::NotFound
    );
    assert_eq!(
        of(Some("absent"), "orders").expect_err("no schema").status,
        Status::NotFound
    );
    let error = connection.get_table_schema(Some("absent"), None, "orders");
    assert_eq!(error.expect_err("no catalog").status, Status::NotFound);
    // A file is no table.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    std::fs::write(&file, "a\n1\n").expect("a file");
    let error = of(None, file.to_str().expect("a path")).expect_err("no table");
    assert_eq!(error.status, Status::NotFound);
}

#[test]
fn tables_have_types() {
    let connection = connection();
    let types = only(connection.get_table_types().expect("a reader"));
    assert_eq!(lines(&[types]), ["TABLE", "VIEW", "LOCAL TEMPORARY"]);
    let error = connection.get_statistics(None, None, None, true).err();
    assert_eq!(error.expect("no statistics").status, Status::NotImplemented);
    assert_eq!(
        connection
            .get_statistic_names()
            .err()
            .expect("no statistics")
            .status,
        Status::NotImplemented
    );
    assert_eq!(
        connection
            .read_partition([1u8])
            .err()
            .expect("no partitions")
            .status,
        Status::NotImplemented
    );
}
