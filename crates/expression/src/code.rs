//! C++ source under construction.

use std::fmt::{Arguments, Write};

/// Appends a formatted line to a [`Code`].
#[macro_export]
macro_rules! line {
    ($code:expr, $($text:tt)*) => {
        $code.line(format_args!($($text)*))
    };
}
pub use crate::line;

/// C++ statements, each line indented by its nesting.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Code {
    text: String,
}

impl Code {
    /// Appends a line; `line!` formats one.
    pub fn line(&mut self, line: Arguments<'_>) {
        self.part(line);
        self.text.push('\n');
    }

    /// Appends a part of a line.
    pub fn part(&mut self, part: Arguments<'_>) {
        self.text.write_fmt(part).expect("text takes whatever is written");
    }

    /// Appends complete lines unchanged.
    pub fn lines(&mut self, lines: &str) {
        self.text.push_str(lines);
        if !lines.is_empty() && !lines.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Appends other statements, indented by `depth` levels of four blanks. Preprocessor directives stay
    /// unindented.
    pub fn nest(&mut self, depth: usize, inner: &Self) {
        for line in inner.text.lines() {
            if !line.starts_with('#') && !line.is_empty() {
                self.text.extend(std::iter::repeat_n("    ", depth));
            }
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Number of lines.
    pub fn length(&self) -> usize {
        self.text.lines().count()
    }

    /// Removes and returns all statements.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The statements as a string.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_code_is_indented_except_directives() {
        let mut inner = Code::default();
        inner.lines("#pragma unroll");
        line!(inner, "for (int i = 0; i < {}; ++i) {{", 4);
        inner.lines("    f(i);\n}\n");
        let mut outer = Code::default();
        outer.nest(2, &inner);
        assert_eq!(
            outer.as_str(),
            "#pragma unroll\n        for (int i = 0; i < 4; ++i) {\n            f(i);\n        }\n"
        );
        assert_eq!(outer.length(), 4);
    }
}
