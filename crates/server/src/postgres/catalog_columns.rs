//! The columns of the tables of [`catalog_tables`](super::catalog_tables).

/// The kind of a column.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Int,
    Bool,
    /// Lists of strings.
    Texts,
    /// Lists of small numbers, such as those of the columns of an index.
    Numbers,
}

use Kind::{Bool, Int, Numbers, Text, Texts};

/// The name and the columns of a table.
pub(super) type Columns = &'static [(&'static str, Kind)];

/// Tables of `pg_catalog` with rows.
pub(super) const TABLES: [(&str, Columns); 5] = [
    (
        "pg_settings",
        &[
            ("name", Text),
            ("setting", Text),
            ("unit", Text),
            ("category", Text),
            ("short_desc", Text),
            ("extra_desc", Text),
            ("context", Text),
            ("vartype", Text),
            ("source", Text),
            ("min_val", Text),
            ("max_val", Text),
            ("enumvals", Text),
            ("boot_val", Text),
            ("reset_val", Text),
            ("sourcefile", Text),
            ("sourceline", Int),
            ("pending_restart", Bool),
        ],
    ),
    (
        "pg_tables",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("tableowner", Text),
            ("tablespace", Text),
            ("hasindexes", Bool),
            ("hasrules", Bool),
            ("hastriggers", Bool),
            ("rowsecurity", Bool),
        ],
    ),
    (
        "pg_views",
        &[
            ("schemaname", Text),
            ("viewname", Text),
            ("viewowner", Text),
            ("definition", Text),
        ],
    ),
    (
        "pg_roles",
        &[
            ("rolname", Text),
            ("rolsuper", Bool),
            ("rolinherit", Bool),
            ("rolcreaterole", Bool),
            ("rolcreatedb", Bool),
            ("rolcanlogin", Bool),
            ("rolreplication", Bool),
            ("rolconnlimit", Int),
            ("rolpassword", Text),
            ("rolvaliduntil", Text),
            ("rolbypassrls", Bool),
            ("rolconfig", Texts),
            ("oid", Int),
        ],
    ),
    (
        "pg_user",
        &[
            ("usename", Text),
            ("usesysid", Int),
            ("usecreatedb", Bool),
            ("usesuper", Bool),
            ("userepl", Bool),
            ("usebypassrls", Bool),
            ("passwd", Text),
            ("valuntil", Text),
            ("useconfig", Texts),
        ],
    ),
];

/// Tables of `pg_catalog` without rows: tables have no keys and no indexes.
pub(super) const EMPTY: [(&str, Columns); 14] = [
    (
        "pg_index",
        &[
            ("indexrelid", Int),
            ("indrelid", Int),
            ("indnatts", Int),
            ("indnkeyatts", Int),
            ("indisunique", Bool),
            ("indnullsnotdistinct", Bool),
            ("indisprimary", Bool),
            ("indisexclusion", Bool),
            ("indimmediate", Bool),
            ("indisclustered", Bool),
            ("indisvalid", Bool),
            ("indcheckxmin", Bool),
            ("indisready", Bool),
            ("indislive", Bool),
            ("indisreplident", Bool),
            ("indkey", Numbers),
            ("indcollation", Numbers),
            ("indclass", Numbers),
            ("indoption", Numbers),
            ("indexprs", Text),
            ("indpred", Text),
        ],
    ),
    (
        "pg_constraint",
        &[
            ("oid", Int),
            ("conname", Text),
            ("connamespace", Int),
            ("contype", Text),
            ("condeferrable", Bool),
            ("condeferred", Bool),
            ("convalidated", Bool),
            ("conrelid", Int),
            ("contypid", Int),
            ("conindid", Int),
            ("conparentid", Int),
            ("confrelid", Int),
            ("confupdtype", Text),
            ("confdeltype", Text),
            ("confmatchtype", Text),
            ("conislocal", Bool),
            ("coninhcount", Int),
            ("connoinherit", Bool),
            ("conkey", Numbers),
            ("confkey", Numbers),
            ("conpfeqop", Numbers),
            ("conppeqop", Numbers),
            ("conffeqop", Numbers),
            ("confdelsetcols", Numbers),
            ("conexclop", Numbers),
            ("conbin", Text),
        ],
    ),
    (
        "pg_indexes",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("indexname", Text),
            ("tablespace", Text),
            ("indexdef", Text),
        ],
    ),
    (
        "pg_sequences",
        &[
            ("schemaname", Text),
            ("sequencename", Text),
            ("sequenceowner", Text),
            ("data_type", Text),
            ("start_value", Int),
            ("min_value", Int),
            ("max_value", Int),
            ("increment_by", Int),
            ("cycle", Bool),
            ("cache_size", Int),
            ("last_value", Int),
        ],
    ),
    (
        "pg_rules",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("rulename", Text),
            ("definition", Text),
        ],
    ),
    (
        "pg_policies",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("policyname", Text),
            ("permissive", Text),
            ("roles", Text),
            ("cmd", Text),
            ("qual", Text),
            ("with_check", Text),
        ],
    ),
    (
        "pg_locks",
        &[
            ("locktype", Text),
            ("database", Int),
            ("relation", Int),
            ("page", Int),
            ("tuple", Int),
            ("virtualxid", Text),
            ("transactionid", Int),
            ("classid", Int),
            ("objid", Int),
            ("objsubid", Int),
            ("virtualtransaction", Text),
            ("pid", Int),
            ("mode", Text),
            ("granted", Bool),
            ("fastpath", Bool),
            ("waitstart", Text),
        ],
    ),
    (
        "pg_stat_activity",
        &[
            ("datid", Int),
            ("datname", Text),
            ("pid", Int),
            ("leader_pid", Int),
            ("usesysid", Int),
            ("usename", Text),
            ("application_name", Text),
            ("client_addr", Text),
            ("client_hostname", Text),
            ("client_port", Int),
            ("backend_start", Text),
            ("xact_start", Text),
            ("query_start", Text),
            ("state_change", Text),
            ("wait_event_type", Text),
            ("wait_event", Text),
            ("state", Text),
            ("backend_xid", Int),
            ("backend_xmin", Int),
            ("query_id", Int),
            ("query", Text),
            ("backend_type", Text),
        ],
    ),
    (
        "pg_prepared_statements",
        &[
            ("name", Text),
            ("statement", Text),
            ("prepare_time", Text),
            ("from_sql", Bool),
        ],
    ),
    (
        "pg_prepared_xacts",
        &[
            ("transaction", Int),
            ("gid", Text),
            ("prepared", Text),
            ("owner", Text),
            ("database", Text),
        ],
    ),
    (
        "pg_timezone_names",
        &[
            ("name", Text),
            ("abbrev", Text),
            ("utc_offset", Text),
            ("is_dst", Bool),
        ],
    ),
    (
        "pg_available_extensions",
        &[
            ("name", Text),
            ("default_version", Text),
            ("installed_version", Text),
            ("comment", Text),
        ],
    ),
    (
        "pg_group",
        &[("groname", Text), ("grosysid", Int), ("grolist", Text)],
    ),
    (
        "pg_stats",
        &[
            ("schemaname", Text),
            ("tablename", Text),
            ("attname", Text),
            ("inherited", Bool),
            ("null_frac", Text),
            ("avg_width", Int),
            ("n_distinct", Text),
        ],
    ),
];

/// Columns that tables of datafusion-pg-catalog lack. Their values are NULL; transactions have no numbers.
pub(super) const MORE: [(&str, &[(&str, Kind)]); 4] = [
    (
        "pg_class",
        &[("reloptions", Texts), ("relacl", Texts), ("xmin", Int)],
    ),
    ("pg_type", &[("xmin", Int)]),
    ("pg_namespace", &[("xmin", Int)]),
    ("pg_database", &[("xmin", Int)]),
];

/// The ends of the names of columns that are lists of strings, which datafusion-pg-catalog has as strings.
/// None of the server's objects has such a list.
pub(super) const LISTS: [&str; 4] = ["acl", "options", "setconfig", "extconfig"];

/// The columns of `information_schema.columns`.
pub(super) const COLUMNS: Columns = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("column_name", Text),
    ("ordinal_position", Int),
    ("column_default", Text),
    ("is_nullable", Text),
    ("data_type", Text),
    ("character_maximum_length", Int),
    ("character_octet_length", Int),
    ("numeric_precision", Int),
    ("numeric_precision_radix", Int),
    ("numeric_scale", Int),
    ("datetime_precision", Int),
    ("interval_type", Text),
    ("interval_precision", Int),
    ("character_set_catalog", Text),
    ("character_set_schema", Text),
    ("character_set_name", Text),
    ("collation_catalog", Text),
    ("collation_schema", Text),
    ("collation_name", Text),
    ("domain_catalog", Text),
    ("domain_schema", Text),
    ("domain_name", Text),
    ("udt_catalog", Text),
    ("udt_schema", Text),
    ("udt_name", Text),
    ("is_self_referencing", Text),
    ("is_identity", Text),
    ("identity_generation", Text),
    ("is_generated", Text),
    ("generation_expression", Text),
    ("is_updatable", Text),
];

/// The columns of `information_schema.views`. DataFusion reads `definition`.
pub(super) const VIEWS: Columns = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("view_definition", Text),
    ("check_option", Text),
    ("is_updatable", Text),
    ("is_insertable_into", Text),
    ("definition", Text),
];

/// Tables of `information_schema` without rows.
pub(super) const NO_CONSTRAINTS: [(&str, Columns); 9] = [
    (
        "table_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("constraint_type", Text),
            ("is_deferrable", Text),
            ("initially_deferred", Text),
            ("enforced", Text),
        ],
    ),
    (
        "key_column_usage",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("ordinal_position", Int),
            ("position_in_unique_constraint", Int),
        ],
    ),
    (
        "referential_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("unique_constraint_catalog", Text),
            ("unique_constraint_schema", Text),
            ("unique_constraint_name", Text),
            ("match_option", Text),
            ("update_rule", Text),
            ("delete_rule", Text),
        ],
    ),
    (
        "constraint_column_usage",
        &[
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("column_name", Text),
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
        ],
    ),
    (
        "check_constraints",
        &[
            ("constraint_catalog", Text),
            ("constraint_schema", Text),
            ("constraint_name", Text),
            ("check_clause", Text),
        ],
    ),
    (
        "table_privileges",
        &[
            ("grantor", Text),
            ("grantee", Text),
            ("table_catalog", Text),
            ("table_schema", Text),
            ("table_name", Text),
            ("privilege_type", Text),
            ("is_grantable", Text),
            ("with_hierarchy", Text),
        ],
    ),
    (
        "sequences",
        &[
            ("sequence_catalog", Text),
            ("sequence_schema", Text),
            ("sequence_name", Text),
            ("data_type", Text),
            ("start_value", Text),
            ("minimum_value", Text),
            ("maximum_value", Text),
            ("increment", Text),
            ("cycle_option", Text),
        ],
    ),
    (
        "triggers",
        &[
            ("trigger_catalog", Text),
            ("trigger_schema", Text),
            ("trigger_name", Text),
            ("event_manipulation", Text),
            ("event_object_catalog", Text),
            ("event_object_schema", Text),
            ("event_object_table", Text),
            ("action_statement", Text),
            ("action_orientation", Text),
            ("action_timing", Text),
        ],
    ),
    (
        "character_sets",
        &[
            ("character_set_catalog", Text),
            ("character_set_schema", Text),
            ("character_set_name", Text),
            ("character_repertoire", Text),
            ("form_of_use", Text),
            ("default_collate_catalog", Text),
            ("default_collate_schema", Text),
            ("default_collate_name", Text),
        ],
    ),
];

pub(super) const CURSORS: &str = "pg_cursors";

/// The names of the tables of `pg_catalog` that are not in datafusion-pg-catalog.
pub(super) fn pg_names() -> impl Iterator<Item = &'static str> {
    let names = TABLES.iter().chain(&EMPTY).map(|(name, _)| *name);
    names.chain([CURSORS])
}

/// Whether a table of the catalog never has a row.
pub(super) fn is_empty(name: &str) -> bool {
    let own = EMPTY.iter().chain(&NO_CONSTRAINTS).map(|(name, _)| *name);
    let others = [
        "pg_trigger",
        "pg_policy",
        "pg_inherits",
        "pg_sequence",
        "pg_statistic_ext",
        "pg_foreign_table",
        "pg_partitioned_table",
        "pg_event_trigger",
        "pg_publication",
        "pg_publication_rel",
        "pg_subscription",
        "pg_enum",
    ];
    own.chain(others).any(|empty| name.eq_ignore_ascii_case(empty))
}
