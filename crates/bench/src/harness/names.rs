//! Experiments by name.

/// The name of an experiment in `names`; empty if it is missing there.
pub(crate) fn name_of<E: PartialEq>(names: &[(&'static str, E)], experiment: &E) -> &'static str {
    let found = names.iter().find(|(_, named)| named == experiment);
    found.map_or("", |(name, _)| *name)
}

/// The experiment of a name.
///
/// # Errors
/// The valid names, if the name is unknown.
pub(crate) fn by_name<E: Copy>(names: &[(&'static str, E)], text: &str) -> Result<E, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, experiment)| *experiment).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("experiments are {}", names.join(", "))
    })
}
