//! Strings without a dictionary in a run. (Strings with a dictionary are codes, which this module does not
//! handle.)
//!
//! | module | strings | device memory holds |
//! | --- | --- | --- |
//! | [`interned`] | keys of groups, of build sides and of an order; MIN and MAX | each distinct string once |
//! | [`order`] | keys of an order | the rank of each distinct string |
//! | [`late_materialised`] | columns that are returned | row numbers; the host or a gather kernel reads the bytes |
//!
//! Expressions over strings are in `crates/expression/src/lower/`, their device code in
//! `crates/kernels/cuda/galatea/`.

pub(crate) mod interned;
pub(crate) mod late_materialised;
pub(crate) mod order;
