//! `pg_catalog` of a session.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::catalog::information_schema::InformationSchemaProvider;
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
use parking_lot::Mutex;

use super::catalog_functions;
use super::catalog_names::{INFORMATION_SCHEMA, PG_CATALOG, SERVER_VERSION};
use super::catalog_schemas::{InformationSchema, PgCatalog};
use super::catalog_tables::Sources;
use super::commands::Parameters;
use super::cursors::Cursors;
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::tables::CATALOG;

/// Adds the catalog to a session. It describes these parameters and cursors.
pub(super) fn install(
    ctx: &SessionContext,
    user: &str,
    parameters: &Arc<Mutex<Parameters>>,
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
    let (Some(catalog), Some(tables)) = (
        ctx.catalog(CATALOG),
        ctx.catalog(CATALOG)
            .and_then(|catalog| catalog.schema(PG_CATALOG)),
    ) else {
        return Err(Failure::new(
            FailureKind::Query(ErrorKind::Internal),
            "internal error: the session has no pg_catalog",
        ));
    };
    let sources = Sources {
        user: user.to_string(),
        catalogs: Arc::clone(ctx.state_ref().read().catalog_list()),
        tables,
        parameters: Arc::clone(parameters),
        cursors: Arc::clone(cursors),
    };
    let pg_catalog = PgCatalog {
        sources: sources.clone(),
    };
    catalog.register_schema(PG_CATALOG, Arc::new(pg_catalog))?;
    {
        // DataFusion's schema takes precedence over a registered one while it is enabled.
        let state = ctx.state_ref();
        let mut state = state.write();
        let information = InformationSchemaProvider::new(Arc::clone(state.catalog_list()))
            .with_table_functions(state.table_functions().clone());
        let information = InformationSchema {
            tables: Arc::new(information),
            sources: sources.clone(),
        };
        catalog.register_schema(INFORMATION_SCHEMA, Arc::new(information))?;
        state.config_mut().options_mut().catalog.information_schema = false;
    }
    catalog_functions::install(ctx, &sources);
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

/// Removes the catalog. It refers to the list of catalogs that contains it, so the session would never be
/// freed.
pub(super) fn remove(ctx: &SessionContext) {
    if let Some(catalog) = ctx.catalog(CATALOG) {
        for schema in [PG_CATALOG, INFORMATION_SCHEMA] {
            let _ = catalog.deregister_schema(schema, true);
        }
    }
}
