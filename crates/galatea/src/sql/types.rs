//! Names of types that DuckDB has and DataFusion does not: those of unsigned integers, of strings, of bytes,
//! and of timestamps by unit.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;

/// The names, each with its type.
const NAMES: &[(&[&str], DataType)] = &[
    (&["UTINYINT", "UINT8"], DataType::UInt8),
    (&["USMALLINT", "UINT16"], DataType::UInt16),
    (&["UINTEGER", "UINT32"], DataType::UInt32),
    (&["UBIGINT", "UINT64"], DataType::UInt64),
    (&["INT1"], DataType::Int8),
    (&["SHORT", "INT16"], DataType::Int16),
    (&["SIGNED", "INT32"], DataType::Int32),
    (&["LONG", "INT64"], DataType::Int64),
    // 38 digits, of the 39 of 128 bits.
    (&["HUGEINT", "INT128"], DataType::Decimal128(38, 0)),
    (&["LOGICAL"], DataType::Boolean),
    (&["BPCHAR", "JSON"], DataType::Utf8View),
    (&["BLOB", "BINARY", "VARBINARY"], DataType::Binary),
    (
        &["DATETIME", "TIMESTAMP_NS"],
        DataType::Timestamp(TimeUnit::Nanosecond, None),
    ),
    (
        &["TIMESTAMP_US"],
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ),
    (
        &["TIMESTAMP_MS"],
        DataType::Timestamp(TimeUnit::Millisecond, None),
    ),
    (&["TIMESTAMP_S"], DataType::Timestamp(TimeUnit::Second, None)),
];

/// Plans types by their names, after the planner of the session.
#[derive(Debug)]
pub(crate) struct TypeNames {
    /// The planner of the session before.
    session: Option<Arc<dyn TypePlanner>>,
}

impl TypeNames {
    /// Adds the names to those of a session.
    pub(crate) fn after(session: Option<Arc<dyn TypePlanner>>) -> Self {
        Self { session }
    }
}

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        if let Some(session) = &self.session
            && let Some(field) = session.plan_type_field(sql_type)?
        {
            return Ok(Some(field));
        }
        // A length, as in VARBINARY(10), has no effect.
        let name = sql_type.to_string().to_uppercase();
        let name = name.split('(').next().unwrap_or_default().trim();
        let listed = NAMES.iter().find(|(names, _)| names.contains(&name));
        Ok(listed.map(|(_, data_type)| Arc::new(Field::new("", data_type.clone(), true))))
    }
}
