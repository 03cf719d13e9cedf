//! Tables of `pg_catalog` that datafusion-pg-catalog does not have.

/// Their names.
pub(super) const NAMES: [&str; 1] = ["pg_cursors"];
