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
