//! Commands of DuckDB and SQLite, which begin with a dot, as commands with a backslash.

/// The command without its backslash that a line with a dot means; `None` if no command has this name.
///
/// A statement never begins with a dot, so unknown names are refused by the name as written.
pub(crate) fn command_of(line: &str) -> Option<String> {
    let line = line.trim().strip_prefix('.')?;
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    let with = |command: &str| match argument {
        "" => command.to_owned(),
        argument => format!("{command} {argument}"),
    };
    Some(match (name, argument) {
        ("tables", "") => "dt".to_owned(),
        ("schema" | "columns", _) => with("d"),
        ("quit" | "exit", "") => "q".to_owned(),
        ("help", "") => "?".to_owned(),
        ("read", _) => with("i"),
        ("output", "stdout") => "o".to_owned(),
        ("output", _) => with("o"),
        ("timer", _) => with("timing"),
        ("mode", "") => "pset".to_owned(),
        ("mode", "line") => "pset format expanded".to_owned(),
        ("mode", "duckbox" | "box" | "column") => "pset format table".to_owned(),
        ("mode", "jsonlines") => "pset format ndjson".to_owned(),
        ("mode", "tabs") => "pset format tsv".to_owned(),
        ("mode", mode) => format!("pset format {mode}"),
        ("maxrows", _) => with("pset maxrows"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_commands_are_backslash_commands() {
        for (line, command) in [
            (".tables", Some("dt")),
            (".schema orders", Some("d orders")),
            (".schema", Some("d")),
            (".exit", Some("q")),
            (".read a b.sql", Some("i a b.sql")),
            (".timer on", Some("timing on")),
            (".mode csv", Some("pset format csv")),
            (".mode line", Some("pset format expanded")),
            (".output", Some("o")),
            (".output x.csv", Some("o x.csv")),
            (".maxrows 10", Some("pset maxrows 10")),
            (".import a b", None),
            (".tables x", None),
            ("tables", None),
        ] {
            assert_eq!(command_of(line).as_deref(), command, "{line}");
        }
    }
}
