//! The version of the server and the schemas of its catalog.

/// The version that clients see. Drivers choose their catalog queries by it.
pub(super) const SERVER_VERSION: &str = "16.6";

/// The schema of the catalog.
pub(super) const PG_CATALOG: &str = "pg_catalog";

/// The schema of the views of the SQL standard.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";
