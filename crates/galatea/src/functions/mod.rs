//! Functions of DuckDB for which DataFusion has no expression, as functions of the session.
//!
//! ```text
//! strings     strip_accents, regexp_split_to_array
//! format      format, printf
//! times       age
//! spans       date_sub, time_bucket: arithmetic and date_bin where the types are known
//! mode        mode
//! json        to_json, json_object, json_array, json_valid
//! lists       list_aggregate
//! reduce      list_reduce
//! hash        hash
//! intervals   n * INTERVAL '1 day'
//! strings of s[1] and s[2:3]                                          substrings
//! ```
//!
//! The other functions of DuckDB are expressions of DataFusion's: `crate::sql`.

mod booleans;
mod format;
mod hash;
mod intervals;
mod json;
mod lists;
mod mode;
mod reduce;
mod spans;
mod strings;
mod substrings;
mod times;

pub(crate) use json::JSON_FIELD;

use std::sync::Arc;

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::registry::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion_functions_json::udfs::{
    json_as_text_udf, json_get_json_udf, json_length_udf, json_object_keys_udf,
};
use galatea_engine::corrections::MovedTimes;

/// Adds the functions to a session, except those whose names the session has.
pub(crate) fn register(state: &mut SessionState) {
    let scalar: [ScalarUDF; 13] = [
        strings::StripAccents::new().into(),
        strings::Split::new().into(),
        format::Format::of_braces().into(),
        format::Format::of_percents().into(),
        times::Age::new().into(),
        spans::DateSub::new().into(),
        spans::TimeBucket::new().into(),
        lists::Aggregate::new().into(),
        hash::Hash::new().into(),
        json::Valid::new().into(),
        json::Writer::of_values().into(),
        json::Writer::of_arrays().into(),
        json::Writer::of_objects().into(),
    ];
    let paths = [
        json_get_json_udf(),
        json_as_text_udf(),
        json_object_keys_udf(),
        json_length_udf(),
    ];
    for function in scalar.map(Arc::new).into_iter().chain(paths) {
        let known = state.scalar_functions();
        if known.contains_key(function.name()) {
            continue;
        }
        let name = function.name().to_owned();
        if let Err(error) = state.register_udf(function) {
            tracing::warn!(function = name, %error, "the function is not available in this session");
        }
    }
    if !state.higher_order_functions().contains_key(reduce::NAME)
        && let Err(error) = state.register_higher_order_function(Arc::new(reduce::Reduce::new().into()))
    {
        tracing::warn!(%error, "list_reduce is not available in this session");
    }
    if !state.aggregate_functions().contains_key(mode::NAME)
        && let Err(error) = state.register_udaf(Arc::new(AggregateUDF::from(mode::Mode::new())))
    {
        tracing::warn!(%error, "mode is not available in this session");
    }
}

/// The planners of expressions, with those for positions in strings and for times plus intervals before the
/// others.
pub(crate) fn with_planners(planners: &[Arc<dyn ExprPlanner>]) -> Vec<Arc<dyn ExprPlanner>> {
    let mut all: Vec<Arc<dyn ExprPlanner>> = vec![
        Arc::new(substrings::Substrings),
        Arc::new(booleans::Booleans),
        Arc::new(intervals::Multiples),
        Arc::new(MovedTimes),
    ];
    all.extend(planners.iter().cloned());
    all
}

/// The error of a call with other arguments.
fn wrong_arguments<T>(
    name: &str,
    takes: &str,
    types: &[arrow::datatypes::DataType],
    example: &str,
) -> Result<T> {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    plan_err!(
        "{name} takes {takes}, not ({})\nhint: {example}",
        types.join(", ")
    )
}
