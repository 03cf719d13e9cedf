//! Run-time inputs of an expression besides its columns: literals and lookup tables.
//!
//! Literals are kernel parameters, not part of the source, so that queries that differ only in them share one
//! compiled kernel. The pipeline copies `literals` to `args.literals`, uploads each table, and stores the
//! table's address in `args.tables` as `const u8*`.

use super::automaton::Automaton;
use super::built::Part;
use super::kernel_error::KernelError;
use std::sync::Arc;

/// A table that the kernel reads through a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupTable {
    /// Contents, little endian; elements are aligned to their size relative to the start, which must be
    /// aligned to 16 bytes.
    Host(Arc<[u8]>),
    /// The interned strings of this run that are keys or accumulators.
    Interned,
    /// A part of a build side that was built on the device.
    Built {
        /// Number of the build side.
        build_side: usize,
        /// The part of the build side.
        part: Part,
    },
}

/// Literals and tables, by their indices in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Literal `i` is `args.literals[i]`: integers sign-extended, `i128` in two words (low first), floats by
    /// their bits.
    pub literals: Vec<u64>,
    /// Table `i` is `args.tables[i]`.
    pub tables: Vec<LookupTable>,
    /// The errors that rows may raise, in the order of the generated code.
    pub errors: Vec<KernelError>,
    /// Whether the sort key omits bits of the order.
    pub cuts_order: bool,
    /// Whether the sort key contains only the first bytes of a string.
    pub cuts_strings: bool,
    /// Whether regular expressions are used.
    pub has_automata: bool,
    /// Whether strings are computed from other strings or from numbers.
    pub computes_strings: bool,
    /// Whether strings are interned.
    pub finds_strings: bool,
    /// Whether substrings are searched in the bytes of whole warps.
    pub scans_strings: bool,
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

    /// Like [`Self::table`], for a table in any memory.
    pub fn lookup_table(&mut self, table: LookupTable) -> usize {
        if let Some(index) = self.tables.iter().position(|known| *known == table) {
            return index;
        }
        self.tables.push(table);
        self.tables.len() - 1
    }

    /// The index of the table of interned strings, if it is used.
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

    /// Total bytes of the tables that are uploaded.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let bytes = |table: &LookupTable| match table {
            LookupTable::Host(bytes) => bytes.len(),
            LookupTable::Interned | LookupTable::Built { .. } => 0,
        };
        self.tables.iter().map(bytes).sum()
    }
}
