//! Findings as text: a published result, the facts measured here, and whether they agree.

/// A published result of a figure, and whether the measured facts confirm it.
pub(crate) fn verdict(figure: &str, published: &str, facts: &str, holds: bool) -> String {
    match holds {
        true => format!("{figure}: {published}; here {facts}: holds"),
        false => format!("{figure}: {published}: does not hold, because {facts}"),
    }
}

/// The line for a published result if its rows are missing.
pub(crate) fn missing(figure: &str, published: &str, rows: &str) -> String {
    verdict(figure, published, &format!("{rows} was not measured"), false)
}

/// A published result with its facts, and whether they confirm it; or the line for `rows` that are missing.
pub(crate) fn found(figure: &str, published: &str, facts: Option<(String, bool)>, rows: &str) -> String {
    match facts {
        Some((facts, holds)) => verdict(figure, published, &facts, holds),
        None => missing(figure, published, rows),
    }
}

/// Whether a value is within a tenth of a published range.
pub(crate) fn about(value: f64, (least, most): (f64, f64)) -> bool {
    value >= 0.9 * least && value <= 1.1 * most
}

/// Loss of a value compared with another one, in percent.
pub(crate) fn loss(value: f64, than: f64) -> f64 {
    100.0 * (1.0 - value / than)
}
