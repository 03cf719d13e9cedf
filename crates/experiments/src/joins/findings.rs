//! stub
use super::row::Row;
/// Findings.
#[must_use]
pub fn findings(_rows: &[Row]) -> Vec<String> {
    Vec::new()
}
