//! SQL through the whole GPU path on the emulated device, against DataFusion's CPU operators.
//!
//! Every query runs twice, on two sessions over the same data: `galatea.device = 'cpu'` and `= 'emulated'`.
//! Results must be equal as multisets of rows. Floats may differ by the rounding of sums; all other values
//! are compared exactly.

mod aggregates;
mod arrivals;
mod asof;
mod builds;
mod cancellation;
mod checks;
mod classes;
mod column_cache;
mod compare;
mod concurrent;
#[path = "../../../bench/src/random/data.rs"]
mod data;
mod database;
mod depth;
mod determined_keys;
mod dimensions;
mod duckdb_clauses;
mod engines;
mod explain;
mod extremes;
mod faults;
mod file_contents;
mod file_names;
mod file_types;
mod files;
#[path = "../../../bench/src/random/files.rs"]
mod files_of_tables;
mod front;
mod groups;
mod guards;
mod heavy_keys;
mod hive_folders;
mod host_rows;
mod hostile;
mod install;
mod join_order;
mod joins;
mod key_partitions;
mod kmeans;
mod large_groups;
mod lateral;
mod layouts;
mod limits;
mod macros;
mod many_joins;
mod memory;
mod merged_columns;
mod nested;
mod optimize;
mod over_files;
mod packed;
mod pairs;
mod parquet_contents;
mod parquet_decoding;
mod partition_counts;
mod partitions;
mod parts;
mod places;
mod plans;
mod read_functions;
mod recursion;
mod reduced_groups;
mod results;
mod rows;
mod sample;
mod scattered;
mod selection;
mod sessions;
mod shared_inputs;
mod side_strings;
mod sort;
mod sqllogic;
mod statements;
mod streams;
mod string_gather;
mod string_order;
mod swapping;
mod texts;
mod top;
mod unions;
mod windows;
mod zones;
