//! What an expression needs at run time beside its columns: literals and lookup tables.
//!
//! Literals are kernel parameters, not text, so that queries that differ only in them share one compiled
//! kernel. The pipeline copies `literals` to `args.literals` and uploads each table, whose address goes to
//! `args.tables` as `const u8*`.

use super::automaton::Automaton;
use super::built::Part;
use super::kernel_error::KernelError;
use std::sync::Arc;

/// Bytes that the kernel reads through a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupTable {
    /// Contents, little endian; elements are aligned to their size relative to the start, which must be
    /// aligned to 16 bytes.
    Host(Arc<[u8]>),
    /// The texts of this run that are keys or accumulators.
    Interned,
    /// A part of a dimension that was built on the device, of whatever content.
    Built {
        /// Number of the dimension.
        dimension: usize,
        /// Which part of it.
        part: Part,
    },
}

/// Literals and tables in the order of their indices in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Literal `i` is `args.literals[i]`: integers sign extended, `i128` in two words (low first), floats by
    /// bits.
    pub literals: Vec<u64>,
    /// Table `i` is `args.tables[i]`.
    pub tables: Vec<LookupTable>,
    /// The errors that rows may raise, by the order in which the code was written.
    pub errors: Vec<KernelError>,
    /// Whether an order has more bits than its sort key.
    pub cuts_order: bool,
    /// Whether it has but the first bytes of a text.
    pub cuts_texts: bool,
    /// Whether some tables are those of regular expressions.
    pub has_automata: bool,
    /// Whether some texts are made of others, or of numbers.
    pub makes_texts: bool,
    /// Whether some texts are found by their places.
    pub finds_texts: bool,
    /// Whether parts of texts are looked for in the bytes of a warp's rows.
    pub scans_texts: bool,
}

impl Parameters {
    /// Adds a literal of one word; returns its index.
    pub fn literal(&mut self, word: u64) -> usize {
        self.literals.push(word);
        self.literals.len() - 1
    }

    /// Adds a literal of two words; returns the index of the first.
    pub(crate) fn wide_literal(&mut self, value: i128) -> usize {
        let index = self.literal(value as u64);
        self.literal((value >> 64) as u64);
        index
    }

    /// Adds a table, or finds an equal one; returns its index.
    pub fn table(&mut self, bytes: impl Into<Arc<[u8]>>) -> usize {
        self.lookup_table(LookupTable::Host(bytes.into()))
    }

    /// As [`Self::table`], wherever its content is.
    pub fn lookup_table(&mut self, table: LookupTable) -> usize {
        if let Some(index) = self.tables.iter().position(|known| *known == table) {
            return index;
        }
        self.tables.push(table);
        self.tables.len() - 1
    }

    /// The index of the table of texts that are keys or accumulators, if it is there.
    #[must_use]
    pub fn interned(&self) -> Option<usize> {
        self.tables
            .iter()
            .position(|table| *table == LookupTable::Interned)
    }

    /// Adds the table of a regular expression; returns its index.
    pub fn automaton(&mut self, automaton: &Automaton) -> usize {
        self.has_automata = true;
        self.table(automaton.table())
    }

    /// Adds an error; returns its index.
    pub(crate) fn error(&mut self, error: KernelError) -> usize {
        if let Some(index) = self.errors.iter().position(|known| *known == error) {
            return index;
        }
        self.errors.push(error);
        self.errors.len() - 1
    }

    /// Bytes of all tables that are uploaded.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let bytes = |table: &LookupTable| match table {
            LookupTable::Host(bytes) => bytes.len(),
            LookupTable::Interned | LookupTable::Built { .. } => 0,
        };
        self.tables.iter().map(bytes).sum()
    }
}
