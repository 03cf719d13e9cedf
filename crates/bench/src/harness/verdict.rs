//! Verdicts of findings on published results.

/// Measured facts, and whether they confirm a published result; `None` without rows.
pub(crate) type Facts = Option<(bool, String)>;

/// A verdict with the measured facts, or that no row has them.
pub(crate) fn verdict(facts: Facts) -> String {
    match facts {
        Some((true, facts)) => format!("holds: {facts}"),
        Some((false, facts)) => format!("does not hold, because {facts}"),
        None => "does not hold, because its rows were not measured".to_string(),
    }
}

/// The minimum and maximum of some values; `None` without any.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (least, most) = range.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    })
}
