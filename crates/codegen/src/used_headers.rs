//! The device headers that a kernel includes: those that declare a name which it uses.
//!
//! The compiler parses every header that is included, which takes a fifth of the time of a small kernel. A
//! header includes those that it depends on. Its declarations of namespace scope begin at the start of a
//! line.

use std::collections::HashSet;
use std::sync::OnceLock;

/// The headers that are included if they are used, in order. Headers that overload functions of another
/// header are not among them, because a function's name does not show which of the two headers is used.
const HEADERS: [&str; 7] = [
    "lookup_table",
    "aggregate",
    "hash_table",
    "arithmetic",
    "decimal",
    "datetime",
    "strings",
];

/// The names that a header declares.
#[derive(Debug)]
struct Declared {
    header: &'static str,
    /// Functions, types and constants.
    names: HashSet<&'static str>,
    /// The last parts of names that a macro composes.
    endings: Vec<&'static str>,
}

/// The headers that declare a name of `code`.
pub(super) fn used_by(code: &str) -> impl Iterator<Item = &'static str> {
    static ALL: OnceLock<Vec<Declared>> = OnceLock::new();
    let all = ALL.get_or_init(|| HEADERS.iter().map(|header| Declared::in_header(header)).collect());
    let words: HashSet<&str> = words(code).collect();
    (all.iter())
        .filter(move |declared| words.iter().any(|word| declared.has(word)))
        .map(|declared| declared.header)
}

impl Declared {
    fn in_header(header: &'static str) -> Self {
        let path = format!("galatea/{header}.cuh");
        let text = (galatea_kernels::HEADERS.iter())
            .find(|(name, _)| *name == path)
            .map_or("", |(_, text)| *text);
        let mut all = Self {
            header,
            names: HashSet::new(),
            endings: Vec::new(),
        };
        for line in text.lines() {
            all.declare(line);
        }
        all
    }

    /// Adds the names that a line of a header declares.
    fn declare(&mut self, line: &'static str) {
        if !line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return;
        }
        let calls_macro = (line.split('(').next()).is_some_and(|name| {
            (name.chars()).all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        });
        if calls_macro {
            self.endings.extend(words(line).nth(1));
            return;
        }
        // A function, a constant, or a name for another type.
        if let Some((before, _)) = line.split_once(['(', '=']) {
            self.names.extend(words(before).last());
        }
        let kinds = ["struct", "class", "enum"];
        let mut rest = words(line).skip_while(|word| !kinds.contains(word));
        self.names.extend(rest.find(|word| !kinds.contains(word)));
    }

    fn has(&self, word: &str) -> bool {
        let ends = |ending: &&str| {
            let before = word.strip_suffix(*ending);
            before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
        };
        self.names.contains(word) || self.endings.iter().any(ends)
    }
}

/// The words of `code`: identifiers, keywords and numbers.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(code: &str) -> Vec<&'static str> {
        used_by(code).collect()
    }

    #[test]
    fn headers_of_used_names_are_included() {
        assert_eq!(used("const u32 v0 = q0[i];"), Vec::<&str>::new());
        assert_eq!(used("v = table_entry<u64>(args.tables[0], 1);"), ["lookup_table"]);
        assert_eq!(used("merge_into<Merge::Sum64>(w, 1, 0);"), ["aggregate"]);
        assert_eq!(used("const i64 c0 = divide_rounded(a, b);"), ["decimal"]);
        assert_eq!(used("i32 y = date_year(d);"), ["datetime"]);
        assert_eq!(used("if (string_equal(a, b)) live = 0;"), ["strings"]);
        assert_eq!(used("hash_word(v0)"), ["hash_table"]);
    }

    #[test]
    fn names_that_macros_compose_are_found() {
        assert_eq!(used("double_sinh(v0)"), ["arithmetic"]);
        assert_eq!(used("float_multiply(v0, v1)"), ["arithmetic"]);
        assert_eq!(used("pushing(v0)"), Vec::<&str>::new());
    }

    #[test]
    fn every_header_declares_names() {
        for header in HEADERS {
            let declared = Declared::in_header(header);
            assert!(!declared.names.is_empty(), "{header}");
        }
    }
}
