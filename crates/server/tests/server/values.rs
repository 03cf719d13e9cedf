//! Values of results.
