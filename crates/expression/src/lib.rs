//! The expression compiler: from DataFusion's physical expressions to CUDA C++ for one row.
//!
//! ```text
//! PhysicalExpr ── lower ──> Expr ── Emitter(bindings) ──> statements + Value + Parameters
//!                (planning: types only)   (execution: with encodings)
//! ```
//!
//! **Planning.** [`lower`] translates a physical expression into [`Expr`], a typed tree with DataFusion's
//! semantics, or returns the [`Reason`](galatea_base::reason::Reason) why it cannot. It needs no data and no
//! device.
//!
//! **Execution.** Given the encodings of the columns ([`ColumnBinding`]), an [`Emitter`] writes straight-line
//! statements for one row. All integer-like types are mathematical integers with an interval, which
//! determines the C++ type: `i32` for small values, `i128` only for large ones. Wrapping is generated only if
//! DataFusion wraps and the interval permits an overflow. Literals and tables are stored in [`Parameters`],
//! so that queries that differ in them share a kernel.
//!
//! **Strings.** A deterministic expression over one dictionary-encoded string column, whatever its functions,
//! is evaluated by DataFusion itself over the values of the dictionary and becomes a table indexed by code
//! (or a comparison of codes). For strings that are not dictionary encoded, the common predicates have device
//! functions; [`Expr::dictionary_columns`] returns the columns that must be encoded.
//!
//! **Returned values.** When a string computed from several values is returned ([`ExprKind::Hosted`]),
//! DataFusion evaluates it from values that the device writes; elsewhere it is computed by device code.
//!
//! **Build sides.** A column of a table that rows look up by a foreign key is an expression over the key
//! ([`ExprKind::Lookup`]). Its values, intervals and dictionaries are available once the rows of the
//! [`LookupSide`] are. Rows are read from tables in device memory, or from a [`PackedLookupSide`] that the
//! kernel keeps in shared memory.
//!
//! **NULL.** A value is a variable and, if it can be NULL, a `bool`. Booleans are false if they are NULL,
//! which simplifies three-valued logic and lets a filter test the value alone.
//!
//! **Errors.** Statements compute all branches of a CASE. Only *raising* is conditional, on a guard that is
//! true if DataFusion would have evaluated the operand for this row. The right operand of AND and OR is
//! guarded by the left one: DataFusion does the same for some batches and not for others, depending on their
//! selectivity, so a query that fails there may succeed here, never the reverse.
//!
//! Floats: +, -, *, /, square root and comparisons are bit-identical (the NaN that x86-64 produces has its
//! sign set, and so has ours). Functions with only approximate device versions are not lowered.
//!
//! Generated code must be placed in a scope with `using namespace galatea;`, after including
//! `galatea/lookup_table.cuh`, `galatea/arithmetic.cuh`, `galatea/decimal.cuh`, `galatea/datetime.cuh`,
//! `galatea/strings.cuh`, `galatea/automaton.cuh` and `galatea/computed_string.cuh`. It reads
//! `args.literals[i]` (u64), `args.tables[i]` (`const u8*`), `args.error` (`u32*`) and, for packed build side
//! `d`, planes `dim{d}_{plane}`.

#![forbid(unsafe_code)]

mod automaton;
mod binding;
mod built;
pub mod code;
mod dictionary;
mod display;
mod emit;
mod error;
mod fallible;
mod function;
mod function_names;
mod group_words;
mod host_function;
mod interval;
mod ir;
mod kernel_error;
mod key_space;
mod kind;
mod letters;
mod lookup_side;
mod lower;
mod made;
pub mod one_nan;
mod operator;
mod origin;
mod packed;
mod parameters;
mod pending;
mod returned;
mod sql;
mod string;
mod string_cast;
pub mod timestamp_units;
mod value;
mod windows;

#[cfg(test)]
mod tests;

pub use automaton::Automaton;
pub use binding::{ColumnBinding, ColumnKind, kind_for};
pub use built::{BuiltColumn, PairShape, PairWord, Spare};
pub use built::{PairSide, Part};
pub use dictionary::CodedStrings;
pub use display::Named;
pub use emit::{Emitter, OrderedString};
pub use emit::{PAIR_CHUNK_BITS, integer_literal};
pub use error::{Fault, RowError};
pub use fallible::{Fallible, Show, bare, name_errors, never_fails};
pub use function::BUCKETS;
pub use function::{DatePart, Elementary, Function, SortOrder, TruncateUnit};
pub use group_words::StringForm;
pub use group_words::{DigitValue, GroupColumn, GroupForm, GroupNull, GroupWords, Product};
pub use host_function::HostFunction;
pub use interval::{Interval, domain, is_capped, result_range, widens};
pub use ir::{Expr, ExprKind, MAX_DEPTH};
pub use kernel_error::{KernelError, Number, Place, Raised, Signal};
pub use key_space::{BuildPart, JoinKeyPart, KeySpace, PLACES};
pub use kind::Kind;
pub use lookup_side::is_key;
pub use lookup_side::{LookupSide, MAX_INDICES, MAX_PAYLOAD};
pub use lower::levels;
pub use lower::lower;
pub use lower::{is_checked, representable};
pub use operator::{Arithmetic, Bitwise, Comparison};
pub use origin::Origin;
pub use packed::{EntryIndex, PackedLayout, PackedLookupSide};
pub use parameters::{LookupTable, Parameters};
pub use pending::PendingScalar;
pub use pending::Rebind;
pub use sql::interval_text;
pub use string::is_string;
pub use string_cast::StringCast;
pub use value::Value;
pub use windows::{Derived, DerivedForm, WindowShape, WindowWord};
pub use windows::{Distance, Frame, FrameBound, RangeKey, Units, WindowCall, WindowFunction};

/// The device headers that generated code includes, in order.
pub const HEADERS: [&str; 7] = [
    "galatea/lookup_table.cuh",
    "galatea/arithmetic.cuh",
    "galatea/decimal.cuh",
    "galatea/datetime.cuh",
    "galatea/strings.cuh",
    "galatea/automaton.cuh",
    "galatea/computed_string.cuh",
];

/// The policies of the expression compiler.
pub fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![automaton::AutomatonPolicy::listed()]
}
