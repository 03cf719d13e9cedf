//! Metrics of the server, beside those of the engine ([`galatea::metrics`]).
//!
//! | name | kind | unit | labels | meaning |
//! | --- | --- | --- | --- | --- |
//! | `galatea_server_queries_total` | counter | queries | `protocol`: `flight`, `postgres`; `outcome`: `done`, `failed`, `cancelled`, `limit`, `time`, `denied`, `stopping` | queries that ended |
//! | `galatea_server_query_seconds` | histogram | seconds | `protocol` | from the start of a query to its last row |
//! | `galatea_server_rows_total` | counter | rows | `protocol` | rows that clients received |
//! | `galatea_server_running_queries` | gauge | queries | | running queries |
//! | `galatea_server_sessions` | gauge | sessions | `protocol` | open sessions |
//! | `galatea_server_refused_total` | counter | requests | `reason`: `credentials`, `statement`, `message` | wrong credentials, refused statements, oversized messages |

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(crate) const QUERIES: &str = "galatea_server_queries_total";
pub(crate) const SECONDS: &str = "galatea_server_query_seconds";
pub(crate) const ROWS: &str = "galatea_server_rows_total";
pub(crate) const RUNNING: &str = "galatea_server_running_queries";
pub(crate) const SESSIONS: &str = "galatea_server_sessions";
pub(crate) const REFUSED: &str = "galatea_server_refused_total";

/// Describes the units and meanings of all metrics to the recorder of the process.
pub(crate) fn describe() {
    galatea::metrics::describe();
    describe_counter!(QUERIES, Unit::Count, "queries that ended");
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "time from the start of a query to its last row"
    );
    describe_counter!(ROWS, Unit::Count, "rows that clients received");
    describe_gauge!(RUNNING, Unit::Count, "running queries");
    describe_gauge!(SESSIONS, Unit::Count, "open sessions");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "wrong credentials, refused statements, oversized messages"
    );
}
