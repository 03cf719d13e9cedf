//! The named arguments of a call.

use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use galatea_kmeans::{Execution, Init, KMeans, OnStop, Scores, Sums};

use super::Function;

const NAMES: &str = "k, max_iter, tol, init, n_init, seed, features, on_interrupt, execution, scores, sums";

/// The parameters of a call.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) kmeans: KMeans,
    /// Feature columns; all by default.
    pub(super) features: Option<Vec<String>>,
}

impl Settings {
    pub(super) fn parse(
        function: Function,
        named: Vec<(Ident, SqlExpr)>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let of = function.name();
        let (mut kmeans, mut features, mut clusters) = (KMeans::new(1), None, None);
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in named {
            let name = name.value.to_ascii_lowercase();
            if seen.contains(&name) {
                return plan_err!("{of}: {name} is given twice");
            }
            let written = value.to_string();
            let Expr::Literal(value, _) = context.sql_to_expr(value, &DFSchema::empty())? else {
                return plan_err!("{of}: {name} is {written}: it must be a constant");
            };
            let bad =
                |expected: &str| plan_datafusion_err!("{of}: {name} is {written}: it must be {expected}");
            match name.as_str() {
                "k" => {
                    let k = whole(&value).filter(|k| *k > 0);
                    clusters = Some(k.ok_or_else(|| bad("a whole number from 1"))?);
                }
                "max_iter" => {
                    let most = whole(&value).and_then(|most| u32::try_from(most).ok());
                    kmeans.max_iter = most.ok_or_else(|| bad("a whole number from 0"))?;
                }
                "n_init" => {
                    let starts = whole(&value).and_then(|starts| u32::try_from(starts).ok());
                    let starts = starts.filter(|starts| *starts > 0);
                    kmeans.n_init = starts.ok_or_else(|| bad("a whole number from 1"))?;
                }
                "seed" => kmeans.seed = whole(&value).ok_or_else(|| bad("a whole number from 0"))?,
                "tol" => {
                    let tol = number(&value).filter(|tol| *tol >= 0.0 && tol.is_finite());
                    kmeans.tol = tol.ok_or_else(|| bad("a number from 0"))?;
                }
                "init" => {
                    let init = text(&value).and_then(|init| match init.to_ascii_lowercase().as_str() {
                        "k-means++" => Some(Init::PlusPlus),
                        "random" => Some(Init::Random),
                        "first" => Some(Init::First),
                        _ => None,
                    });
                    kmeans.init = init.ok_or_else(|| bad("'k-means++', 'random' or 'first'"))?;
                }
                "on_interrupt" => {
                    let on_stop = text(&value).and_then(|what| match what.to_ascii_lowercase().as_str() {
                        "discard" => Some(OnStop::Discard),
                        "keep" => Some(OnStop::Keep),
                        _ => None,
                    });
                    kmeans.on_stop = on_stop.ok_or_else(|| bad("'discard' or 'keep'"))?;
                }
                "execution" => {
                    let named = |one: &Execution| is(&value, one.name());
                    let execution = Execution::ALL.into_iter().find(named);
                    kmeans.execution =
                        execution.ok_or_else(|| bad(&list(Execution::ALL.map(Execution::name))))?;
                }
                "scores" if is(&value, "auto") => kmeans.scores = None,
                "scores" => {
                    let scores = Scores::ALL.into_iter().find(|one| is(&value, one.name()));
                    let names = || bad(&format!("'auto', {}", list(Scores::ALL.map(Scores::name))));
                    kmeans.scores = Some(scores.ok_or_else(names)?);
                }
                "sums" if is(&value, "auto") => kmeans.sums = None,
                "sums" => {
                    let sums = Sums::ALL.into_iter().find(|one| is(&value, one.name()));
                    let names = || bad(&format!("'auto', {}", list(Sums::ALL.map(Sums::name))));
                    kmeans.sums = Some(sums.ok_or_else(names)?);
                }
                "features" => {
                    let names = text(&value).map(|names| names.split(',').map(|name| name.trim().to_owned()));
                    let names: Vec<String> = names.into_iter().flatten().collect();
                    if names.is_empty() || names.iter().any(String::is_empty) {
                        return Err(bad("names of columns, 'x, y'"));
                    }
                    features = Some(names);
                }
                _ => return plan_err!("{of} has no setting {name}\nhint: settings are {NAMES}"),
            }
            seen.push(name);
        }
        let Some(k) = clusters else {
            return plan_err!("{of} needs the number of clusters\nhint: {of}((SELECT x, y FROM t), k => 8)");
        };
        kmeans.clusters = usize::try_from(k).unwrap_or(usize::MAX);
        Ok(Self { kmeans, features })
    }
}

fn whole(value: &ScalarValue) -> Option<u64> {
    match value {
        ScalarValue::Int64(Some(value)) => u64::try_from(*value).ok(),
        ScalarValue::UInt64(Some(value)) => Some(*value),
        _ => None,
    }
}

fn number(value: &ScalarValue) -> Option<f64> {
    match value.cast_to(&arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(number)) if value.data_type().is_numeric() => number,
        _ => None,
    }
}

/// Whether a value equals a name.
fn is(value: &ScalarValue, name: &str) -> bool {
    text(value).is_some_and(|text| text.eq_ignore_ascii_case(name))
}

/// A list of names for a message.
fn list<const N: usize>(names: [&str; N]) -> String {
    let quoted = names.map(|name| format!("'{name}'"));
    match quoted.as_slice() {
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
        [] => String::new(),
    }
}

fn text(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}
