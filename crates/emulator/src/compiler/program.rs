//! Finding the kernels of a preprocessed program.

use std::fmt::Write as _;

use crate::abi::REVISION;

const GLOBAL: &str = "__galatea_global_marker__";
const BOUNDS: &str = "__galatea_bounds_marker__";

/// A program with its markers blanked out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) text: String,
    pub(crate) kernels: Vec<Kernel>,
}

/// A kernel found in the program's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// First argument of `__launch_bounds__`, as an expression.
    pub(crate) bounds: Option<String>,
}

/// Finds every `__global__` function by the markers of the shim's macros and blanks the markers out.
/// Positions in the text stay the same. A kernel that is declared and defined is found once.
pub(crate) fn scan(text: &str) -> Program {
    let mut bytes = text.as_bytes().to_vec();
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut bounds = None;
    let mut expecting = false;
    let mut last: Option<(usize, usize)> = None;
    let mut at = 0;
    while at < text.len() {
        // Outside of a kernel's head, only the markers matter.
        if !expecting && bounds.is_none() {
            match text[at..].find("__galatea_") {
                Some(found) => at += found,
                None => break,
            }
        }
        let byte = text.as_bytes()[at];
        if byte == b'#' && text[..at].ends_with('\n') {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let end = at
                + text[at..]
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(text.len() - at);
            match &text[at..end] {
                GLOBAL => {
                    bytes[at..end].fill(b' ');
                    expecting = true;
                }
                BOUNDS => {
                    let (open, close) = parentheses(text, end);
                    bounds = first_argument(&text[open..close]);
                    blank(&mut bytes[at..close]);
                    at = close;
                    continue;
                }
                "__attribute__" if expecting => {
                    at = parentheses(text, end).1;
                    continue;
                }
                _ => last = Some((at, end)),
            }
            at = end;
        } else if byte == b'(' && expecting {
            if let Some((start, end)) = last {
                let name = &text[start..end];
                if !kernels.iter().any(|kernel| kernel.name == name) {
                    kernels.push(Kernel {
                        name: name.to_owned(),
                        bounds: bounds.take(),
                    });
                }
            }
            bounds = None;
            expecting = false;
            at += 1;
        } else {
            if !expecting && matches!(byte, b';' | b'{') {
                bounds = None;
            }
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned());
    Program { text, kernels }
}

/// The range from after the next `(` to after the matching `)`.
fn parentheses(text: &str, from: usize) -> (usize, usize) {
    let mut depth = 0;
    let mut open = from;
    for (index, byte) in text.bytes().enumerate().skip(from) {
        match byte {
            b'(' => {
                if depth == 0 {
                    open = index + 1;
                }
                depth += 1;
            }
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return (open, index + 1);
                }
            }
            _ => {}
        }
    }
    (open, text.len())
}

fn first_argument(inside: &str) -> Option<String> {
    let plain: Vec<&str> = inside.lines().filter(|line| !line.starts_with('#')).collect();
    let inside = plain.join(" ");
    let inside = inside.strip_suffix(')').unwrap_or(&inside);
    let mut depth = 0;
    let end = inside
        .bytes()
        .position(|byte| {
            match byte {
                b'(' | b'<' => depth += 1,
                b')' | b'>' => depth -= 1,
                _ => {}
            }
            byte == b',' && depth == 0
        })
        .unwrap_or(inside.len());
    let argument = inside[..end].trim();
    (!argument.is_empty()).then(|| argument.to_owned())
}

/// Replaces everything but line ends and line markers by spaces.
fn blank(bytes: &mut [u8]) {
    for line in bytes.split_mut(|&byte| byte == b'\n') {
        if line.first() != Some(&b'#') {
            line.fill(b' ');
        }
    }
}

impl Program {
    /// Appends a thunk per kernel and the table of the thunks.
    pub(crate) fn append_exports(&mut self, templates: &str) {
        let text = &mut self.text;
        let _ = write!(text, "\n# 1 \"emulator/export.h\"\n{templates}\n");
        let mut entries = String::new();
        for Kernel { name, bounds } in &self.kernels {
            let bounds = bounds.as_deref().unwrap_or("0");
            let _ = writeln!(
                text,
                "static void __galatea_run_{name}(void **parameters) {{\n\
                 using call = decltype(__galatea_call_of(&{name}));\n\
                 call::run<&{name}>(parameters, __galatea_count_to<call::count>::type()); }}"
            );
            let _ = writeln!(
                entries,
                "{{\"{name}\", &__galatea_run_{name}, decltype(__galatea_call_of(&{name}))::sizes, \
                 decltype(__galatea_call_of(&{name}))::count, (unsigned)({bounds})}},"
            );
        }
        let _ = write!(
            text,
            "static const __galatea_kernel __galatea_kernels[] = {{\n{entries}{{nullptr, nullptr, nullptr, 0, 0}}}};\n\
             extern \"C\" __attribute__((visibility(\"default\"), externally_visible)) \
             const __galatea_module_table __galatea_module;\n\
             const __galatea_module_table __galatea_module = {{{REVISION}, {}, __galatea_kernels}};\n",
            self.kernels.len()
        );
    }
}
