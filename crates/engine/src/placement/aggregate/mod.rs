//! Aggregates: their calls, and plans of several pipelines for those that one pipeline cannot compute.
//!
//! | module | plan |
//! | --- | --- |
//! | [`call`] | a call as an accumulator of one pipeline |
//! | [`determined`] | group keys that other keys determine, looked up by the groups |
//! | [`distinct`] | an aggregate with DISTINCT, in two steps |
//! | [`steps`] | the aggregates of both steps, and the results that they are merged to |
//! | [`grouping_sets`] | GROUPING SETS, ROLLUP and CUBE, as a union of aggregates; coarser sets over finer ones |
//! | [`classes`] | calls that several plans over the same input compute, joined by the keys |
//! | [`deviations`] | variance and related functions of floats, from the mean of each group |

pub(super) mod call;
pub(super) mod classes;
pub(super) mod determined;
pub(super) mod deviations;
pub(super) mod distinct;
pub(super) mod grouping_sets;
pub(super) mod steps;
