//! Replacements of parts of a statement.

use std::collections::BTreeMap;

/// Replacements of parts of a statement, by byte offsets.
pub(super) struct Edits<'a> {
    text: &'a str,
    edits: BTreeMap<usize, (usize, String)>,
}

impl<'a> Edits<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            edits: BTreeMap::new(),
        }
    }

    pub(super) fn replace(&mut self, begin: usize, end: usize, by: impl Into<String>) {
        self.edits.insert(begin, (end, by.into()));
    }

    /// The statement after the replacements; `None` without replacements.
    pub(super) fn applied(self) -> Option<String> {
        if self.edits.is_empty() {
            return None;
        }
        let mut result = String::with_capacity(self.text.len());
        let mut done = 0;
        for (begin, (end, by)) in self.edits {
            if begin < done {
                continue;
            }
            result += &self.text[done..begin];
            result += &by;
            done = end;
        }
        result += &self.text[done..];
        Some(result)
    }
}
