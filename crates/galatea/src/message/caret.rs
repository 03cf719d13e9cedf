//! The position of an error in a statement: its line, and a mark below it.

use std::path::PathBuf;

use datafusion::common::Location;
use datafusion::error::DataFusionError;
use unicode_width::UnicodeWidthStr;

/// The string between a parser's message and the position.
const PLACE: &str = " at Line: ";

/// Splits the message of a parser's error into the message proper and the position at its end.
pub(crate) fn place_of(message: &str) -> (&str, Option<Location>) {
    let Some((before, place)) = message.rsplit_once(PLACE) else {
        return (message, None);
    };
    let location = place.split_once(", Column: ").and_then(|(line, column)| {
        let (line, column) = (line.parse().ok()?, column.trim().parse().ok()?);
        Some(Location { line, column })
    });
    match location {
        Some(location) => (before, Some(location)),
        None => (message, None),
    }
}

/// The position that `error` reports.
pub(crate) fn location(error: &DataFusionError) -> Option<Location> {
    match error {
        DataFusionError::SQL(parser, _) => place_of(&parser.to_string()).1,
        DataFusionError::Diagnostic(diagnostic, inner) => {
            diagnostic.span.map(|span| span.start).or_else(|| location(inner))
        }
        DataFusionError::Context(_, inner) => location(inner),
        DataFusionError::Shared(inner) => location(inner),
        DataFusionError::Collection(errors) => errors.first().and_then(location),
        _ => None,
    }
}

/// Where a statement begins: its file, if it is from one, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file that contains the statement.
    pub file: Option<PathBuf>,
    /// The number of its first line, from 1.
    pub line: u64,
}

impl Default for Origin {
    fn default() -> Self {
        Self { file: None, line: 1 }
    }
}

impl Origin {
    /// The prefix of a line of the statement, which is the first line or a later one.
    fn title(&self, line: u64) -> String {
        let line = self.line + line - 1;
        match &self.file {
            Some(file) => format!("{}, line {line}: ", file.display()),
            None => format!("line {line}: "),
        }
    }
}

/// The first line of `sql` that is not a comment. Errors without a better position are reported there.
pub(crate) fn beginning(sql: &str, origin: &Origin) -> Option<String> {
    let mut lines = (1..).zip(sql.lines());
    let (number, line) = lines.find(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with("--"))?;
    Some(format!("{}{line}", origin.title(number)))
}

/// The line of `sql` at `location`, and a mark below the position: up to `end`, or below the word.
pub(crate) fn shown(sql: &str, location: Location, end: Option<Location>, origin: &Origin) -> Option<String> {
    let line = sql
        .lines()
        .nth(usize::try_from(location.line.checked_sub(1)?).ok()?)?;
    let column = usize::try_from(location.column.checked_sub(1)?).ok()?;
    let start = line
        .char_indices()
        .map(|(at, _)| at)
        .chain([line.len()])
        .nth(column)?;
    let (before, rest) = line.split_at(start);
    let marked = match end {
        Some(end) if end.line == location.line => {
            let letters = end.column.saturating_sub(location.column);
            rest.char_indices().nth(usize::try_from(letters).ok()?)
        }
        // An expression that continues in the next line is marked up to the end of this one.
        Some(_) => None,
        None => rest
            .char_indices()
            .find(|(_, letter)| !(letter.is_alphanumeric() || *letter == '_')),
    };
    let marks = rest[..marked.map_or(rest.len(), |(at, _)| at)].width().max(1);
    let title = origin.title(location.line);
    // Tabs keep their width in both lines.
    let gap: String = before
        .chars()
        .flat_map(|letter| {
            let letter_width = letter.to_string().width();
            std::iter::repeat_n(
                if letter == '\t' { '\t' } else { ' ' },
                if letter == '\t' { 1 } else { letter_width },
            )
        })
        .collect();
    Some(format!(
        "{title}{line}\n{:width$}{gap}{}",
        "",
        "^".repeat(marks),
        width = title.width()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_is_below_the_word() {
        let at = |line, column| {
            shown(
                "SELECT größe,\n  nam FROM t",
                Location { line, column },
                None,
                &Origin::default(),
            )
        };
        assert_eq!(at(2, 3).as_deref(), Some("line 2:   nam FROM t\n          ^^^"));
        assert_eq!(
            at(1, 8).as_deref(),
            Some("line 1: SELECT größe,\n               ^^^^^")
        );
        assert_eq!(
            at(1, 13).as_deref(),
            Some("line 1: SELECT größe,\n                    ^")
        );
        assert_eq!((at(3, 1), at(0, 0), at(1, 99)), (None, None, None));
        let of = |end| {
            let start = Location { line: 1, column: 8 };
            shown("SELECT a / größe,\n2", start, Some(end), &Origin::default())
        };
        let expected = "line 1: SELECT a / größe,\n               ^^^^^^^^^";
        assert_eq!(of(Location { line: 1, column: 17 }).as_deref(), Some(expected));
        assert_eq!(of(Location { line: 2, column: 2 }), Some(format!("{expected}^")));
    }

    #[test]
    fn error_locations_are_relative_to_the_file() {
        let origin = Origin {
            file: Some("l.sql".into()),
            line: 3,
        };
        let place = shown("SELECT 1,\nnam", Location { line: 2, column: 1 }, None, &origin);
        assert_eq!(place.as_deref(), Some("l.sql, line 4: nam\n               ^^^"));
        let place = beginning("-- a comment\n\nSELECT 1\nFROM t", &origin);
        assert_eq!(place.as_deref(), Some("l.sql, line 5: SELECT 1"));
    }

    #[test]
    fn error_location_is_split_from_the_message() {
        let (message, place) = place_of("Expected: an expression, found: EOF at Line: 2, Column: 7");
        assert_eq!(message, "Expected: an expression, found: EOF");
        assert_eq!(place, Some(Location { line: 2, column: 7 }));
        assert_eq!(place_of("no place at Line: x"), ("no place at Line: x", None));
    }
}
