//! Compares the thesis' results with measured rows.

use super::experiments::Row;

/// The findings.
#[must_use]
pub fn findings(_rows: &[Row]) -> Vec<String> {
    Vec::new()
}
