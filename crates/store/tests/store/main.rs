//! Tests of the store, in one binary, because each binary links all of DataFusion.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

mod bloom_filters;
mod cache;
mod data;
mod device_pages;
mod disk;
mod disk_files;
mod encoding;
mod files;
mod indices;
mod layout;
mod layout_in_use;
mod pages;
mod round_trip;
mod row_groups;
mod sql;
mod statistics;
mod zones;
