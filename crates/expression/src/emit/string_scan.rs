//! Substring searches that nearly all rows of a column need: a warp scans the bytes of its rows as one
//! stream, before the rows are processed one by one (`galatea/string_scan.cuh`).

use super::{Emitter, string_of};
use crate::ColumnKind;
use crate::code::{Code, line};
use crate::function::Function;
use crate::ir::Expr;

/// The string columns that can be scanned, and the searches so far.
#[derive(Debug)]
pub(super) struct StringScans {
    /// C++ type of the offsets of each string column, by column number.
    offsets: Vec<Option<&'static str>>,
    /// Rows per thread.
    items: u32,
    /// Statements before the loop over a thread's rows.
    code: Code,
    /// Searches so far, by column and substring.
    known: Vec<(usize, Vec<u8>)>,
}

impl Emitter<'_> {
    /// Begins an expression that nearly all rows need. `offsets` contains the C++ type of the offsets of each
    /// string column that is read in row order, with `items` rows per thread.
    pub fn begin_scans(&mut self, offsets: Vec<Option<&'static str>>, items: u32) {
        self.scans = Some(StringScans {
            offsets,
            items,
            code: Code::default(),
            known: Vec::new(),
        });
    }

    /// Ends the expression. Returns the statements to insert before the loop over a thread's rows.
    pub fn end_scans(&mut self) -> Code {
        self.scans.take().map_or_else(Code::default, |scans| scans.code)
    }

    /// The condition that a string contains the substring that LIKE or a search for a constant requires, if a
    /// warp can search all its rows together.
    pub(super) fn scanned(&mut self, function: &Function, arguments: &[Expr]) -> Option<String> {
        let scans = self.scans.as_mut()?;
        let [text, constant] = arguments else { return None };
        let column = text.as_column()?;
        let offset = scans.offsets.get(column).copied().flatten()?;
        if !matches!(self.bindings[column].kind, ColumnKind::Text) {
            return None;
        }
        let constant = string_of(constant.as_literal()?)?;
        let part = match function {
            Function::Contains => constant.to_vec(),
            Function::Like => longest_part(constant),
            _ => return None,
        };
        let known = scans
            .known
            .iter()
            .position(|known| *known == (column, part.clone()));
        let number = known.unwrap_or(scans.known.len());
        if known.is_none() {
            let table = self.parameters.table(super::strings::padded(part.clone()));
            let length = self.parameters.literal(part.len() as u64);
            self.parameters.scans_strings = true;
            let items = scans.items;
            line!(
                scans.code,
                "const u32 found{number} = rows_with_part<{offset}, {items}>(o{column}, d{column}, row, end, compute_string(args.tables[{table}], args.literals[{length}]));"
            );
            scans.known.push((column, part));
        }
        Some(format!("(found{number} >> i & 1u) != 0"))
    }
}

/// The longest run of bytes that every string matching `pattern` contains.
fn longest_part(pattern: &[u8]) -> Vec<u8> {
    let (mut longest, mut part) = (Vec::new(), Vec::new());
    let mut bytes = pattern.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' | b'_' => part.clear(),
            // As in `string_like`: the next byte is literal; at the end, the backslash itself.
            b'\\' => part.push(bytes.next().unwrap_or(byte)),
            _ => part.push(byte),
        }
        if part.len() > longest.len() {
            longest.clone_from(&part);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::longest_part;

    #[test]
    fn longest_literal_run_of_a_like_pattern() {
        let part = |pattern: &str| String::from_utf8(longest_part(pattern.as_bytes())).expect("UTF-8");
        assert_eq!(part("%special%requests%"), "requests");
        assert_eq!(part("a_bc%"), "bc");
        assert_eq!(part(r"50\%\_off%x"), "50%_off");
        assert_eq!(part(r"ab\"), r"ab\");
        assert_eq!(part("%_%"), "");
        assert_eq!(part(""), "");
    }
}
