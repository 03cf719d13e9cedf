//! Parts that are looked for in nearly every text of a column: a warp goes through the bytes of its rows as
//! one stream, before any of them is looked at (`galatea/text_scan.cuh`).

use super::{Emitter, text_of};
use crate::ColumnKind;
use crate::code::{Code, line};
use crate::function::Function;
use crate::ir::Expr;

/// Where texts may be gone through, and what is looked for in them so far.
#[derive(Debug)]
pub(super) struct TextScans {
    /// C++ type of the offsets of a text column, by its number.
    offsets: Vec<Option<&'static str>>,
    /// Rows of a thread.
    items: u32,
    /// Statements before the loop over a thread's rows.
    code: Code,
    /// Searches so far, by column and part.
    known: Vec<(usize, Vec<u8>)>,
}

impl Emitter<'_> {
    /// Begins an expression that nearly all rows need: `offsets` says of each column that is read in the
    /// order of its rows, `items` to a thread, what type its offsets have, if it is one of texts.
    pub fn begin_scans(&mut self, offsets: Vec<Option<&'static str>>, items: u32) {
        self.scans = Some(TextScans {
            offsets,
            items,
            code: Code::default(),
            known: Vec::new(),
        });
    }

    /// Ends it: the statements that have to come before the loop over a thread's rows.
    pub fn end_scans(&mut self) -> Code {
        self.scans.take().map_or_else(Code::default, |scans| scans.code)
    }

    /// A condition, if there is one that a warp finds out for its rows together: whether the text has the
    /// part that LIKE or a search for a constant wants at least.
    pub(super) fn scanned(&mut self, function: &Function, arguments: &[Expr]) -> Option<String> {
        let scans = self.scans.as_mut()?;
        let [text, constant] = arguments else { return None };
        let column = text.as_column()?;
        let offset = scans.offsets.get(column).copied().flatten()?;
        if !matches!(self.bindings[column].kind, ColumnKind::Text) {
            return None;
        }
        let constant = text_of(constant.as_literal()?)?;
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
            self.parameters.scans_texts = true;
            let items = scans.items;
            line!(
                scans.code,
                "const u32 found{number} = rows_with_part<{offset}, {items}>(o{column}, d{column}, row, end, make_text(args.tables[{table}], args.literals[{length}]));"
            );
            scans.known.push((column, part));
        }
        Some(format!("(found{number} >> i & 1u) != 0"))
    }
}

/// The longest run of bytes that each text like `pattern` has.
fn longest_part(pattern: &[u8]) -> Vec<u8> {
    let (mut longest, mut part) = (Vec::new(), Vec::new());
    let mut bytes = pattern.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' | b'_' => part.clear(),
            // As `text_like`: the next byte as it is, itself at the end.
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
    fn every_text_like_a_pattern_has_its_longest_part() {
        let part = |pattern: &str| String::from_utf8(longest_part(pattern.as_bytes())).expect("UTF-8");
        assert_eq!(part("%special%requests%"), "requests");
        assert_eq!(part("a_bc%"), "bc");
        assert_eq!(part(r"50\%\_off%x"), "50%_off");
        assert_eq!(part(r"ab\"), r"ab\");
        assert_eq!(part("%_%"), "");
        assert_eq!(part(""), "");
    }
}
