//! `pg_catalog` of a session.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_pg_catalog::setup_pg_catalog;

use super::catalog_sql::PG_CATALOG;
use super::cursor_table::CatalogWithCursors;
use super::cursors::Cursors;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::tables::CATALOG;

/// The version that clients see. Drivers choose their catalog queries by it.
pub(super) const SERVER_VERSION: &str = "16.6";

/// Adds the catalog to a session. It describes these cursors.
pub(super) fn install(
    ctx: &SessionContext,
    user: &str,
    cursors: &Arc<Cursors>,
) -> std::result::Result<(), Failure> {
    let state = ctx.state();
    let types = SessionStateBuilder::new_from_existing(state)
        .type_planner()
        .take();
    setup_pg_catalog(ctx, CATALOG, EmptyContextProvider).map_err(|error| {
        Failure::new(
            FailureKind::Query(ErrorKind::Internal),
            format!("internal error: no pg_catalog: {error}"),
        )
    })?;
    let state = SessionStateBuilder::new_from_existing(ctx.state());
    *ctx.state_ref().write() = state.with_type_planner(Arc::new(TypeNames(types))).build();
    if let Some(catalog) = ctx.catalog(CATALOG)
        && let Some(tables) = catalog.schema(PG_CATALOG)
    {
        let with_cursors = CatalogWithCursors {
            catalog: tables,
            cursors: Arc::clone(cursors),
        };
        catalog.register_schema(PG_CATALOG, Arc::new(with_cursors))?;
    }
    let version = format!(
        "PostgreSQL {SERVER_VERSION} (Galatea {})",
        env!("CARGO_PKG_VERSION")
    );
    for (name, value) in [
        ("version", version),
        ("current_user", user.to_string()),
        ("session_user", user.to_string()),
        ("user", user.to_string()),
        ("current_catalog", CATALOG.to_string()),
    ] {
        let value = ColumnarValue::Scalar(ScalarValue::Utf8(Some(value)));
        let function = Arc::new(move |_: &[ColumnarValue]| Ok(value.clone()));
        ctx.register_udf(create_udf(
            name,
            Vec::new(),
            DataType::Utf8,
            Volatility::Stable,
            function,
        ));
    }
    ctx.register_udf(create_udf(
        "to_regtype",
        vec![DataType::Utf8],
        DataType::Int32,
        Volatility::Stable,
        Arc::new(to_regtype),
    ));
    Ok(())
}

/// The names of types of PostgreSQL, and those of the session.
#[derive(Debug)]
struct TypeNames(Option<Arc<dyn TypePlanner>>);

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, name: &ast::DataType) -> Result<Option<FieldRef>> {
        if let Some(field) = PgOidTypePlanner.plan_type_field(name)? {
            return Ok(Some(field));
        }
        if let Some(types) = &self.0
            && let Some(field) = types.plan_type_field(name)?
        {
            return Ok(Some(field));
        }
        let string = match name {
            ast::DataType::Uuid | ast::DataType::JSON | ast::DataType::JSONB => true,
            ast::DataType::Custom(name, _) => {
                let name = name.0.last().and_then(|part| part.as_ident());
                let name = name.map(|name| name.value.to_ascii_lowercase());
                matches!(
                    name.as_deref(),
                    Some("name" | "char" | "bpchar" | "xml" | "citext")
                )
            }
            _ => false,
        };
        Ok(string.then(|| Arc::new(Field::new("", DataType::Utf8, true))))
    }
}

/// Names of types with their object identifiers. Drivers look up types by name.
const TYPES: [(&str, i32); 24] = [
    ("bool", 16),
    ("boolean", 16),
    ("bytea", 17),
    ("bigint", 20),
    ("int8", 20),
    ("int2", 21),
    ("smallint", 21),
    ("int", 23),
    ("int4", 23),
    ("integer", 23),
    ("text", 25),
    ("oid", 26),
    ("float4", 700),
    ("real", 700),
    ("double precision", 701),
    ("float8", 701),
    ("varchar", 1043),
    ("date", 1082),
    ("time", 1083),
    ("timestamp", 1114),
    ("timestamptz", 1184),
    ("interval", 1186),
    ("decimal", 1700),
    ("numeric", 1700),
];

/// The object identifier of a type; NULL for an unknown name.
fn to_regtype(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let names = arrays.first().map(|names| names.as_string::<i32>().iter());
    let found = names.into_iter().flatten().map(|name| {
        let name = name?.to_ascii_lowercase();
        TYPES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, oid)| *oid)
    });
    Ok(ColumnarValue::Array(Arc::new(found.collect::<Int32Array>())))
}

/// Removes the catalog. It refers to the list of catalogs that contains it, so the session would never be
/// freed.
pub(super) fn remove(ctx: &SessionContext) {
    if let Some(catalog) = ctx.catalog(CATALOG) {
        let _ = catalog.deregister_schema(PG_CATALOG, true);
    }
}
