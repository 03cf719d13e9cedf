//! The expression compiler: from DataFusion's physical expressions to CUDA C++ for one row.
//!
//! ```text
//! PhysicalExpr ── lower ──> Expr ── Emitter(bindings) ──> statements + Value + Parameters
//!                (planning: types only)   (execution: encodings known)
//! ```
//!
//! **Planning.** [`lower`] translates a physical expression into [`Expr`], a typed tree with DataFusion's
//! semantics, or says with a [`Reason`](galatea_base::reason::Reason) why it cannot. It needs no data and no
//! device.
//!
//! **Execution.** When the encodings of the columns are known ([`ColumnBinding`]), an [`Emitter`] writes
//! straight-line statements for one row. All integer-like types are mathematical integers with an interval,
//! from which the C++ type follows: `i32` where values are small, `i128` only where they are not. Wrapping is
//! written only where DataFusion wraps and the interval says that it can happen. Literals and tables go to
//! [`Parameters`], so that queries which differ in them share a kernel.
//!
//! **Strings.** A deterministic expression over one dictionary-encoded string column, whatever its functions,
//! is evaluated by DataFusion itself over the values of the dictionary and becomes a table indexed by code
//! (or a comparison of codes). Strings that are not dictionary encoded have device functions for the common
//! predicates; [`Expr::dictionary_columns`] says which columns must be encoded.
//!
//! **Returned values.** A text that is made of several values is evaluated by DataFusion where it is returned
//! ([`ExprKind::Hosted`]), of values that the device writes; elsewhere by device code.
//!
//! **Dimensions.** A column of a table that rows look up by a foreign key is an expression over the key
//! ([`ExprKind::Lookup`]); its values are known when the [`Dimension`]'s rows are, and so are their intervals
//! and dictionaries. Rows are read from tables in device memory, or from a [`PackedDimension`] that the
//! kernel keeps in shared memory.
//!
//! **NULL.** A value is a variable and, where it can be NULL, a `bool`. Booleans are false where they are
//! NULL, which makes three-valued logic short and lets a filter test the value alone.
//!
//! **Errors.** Statements compute all branches of a CASE; only *raising* is conditional, on a guard that says
//! whether DataFusion would have evaluated the operand for this row. The right operand of AND and OR is
//! guarded by the left one: DataFusion does the same for some batches and not for others, depending on their
//! selectivity, so a query that fails there may succeed here, never the reverse.
//!
//! Floats: +, -, *, /, square root and comparisons are bit-identical (the NaN that x86-64 makes has its sign
//! set, and so has ours); functions whose device version is only nearly right are not lowered.
//!
//! Generated code belongs in a scope with `using namespace galatea;` after including
//! `galatea/arithmetic.cuh`, `galatea/decimal.cuh`, `galatea/datetime.cuh`, `galatea/strings.cuh`,
//! `galatea/automaton.cuh` and `galatea/made_text.cuh`. It reads `args.literals[i]` (u64), `args.tables[i]`
//! (`const u8*`), `args.error` (`u32*`) and, of packed dimension `d`, planes `dim{d}_{plane}`.

#![forbid(unsafe_code)]

mod automaton;
mod binding;
mod built;
pub mod code;
mod dictionary;
mod dimension;
mod display;
mod emit;
mod error;
mod fallible;
mod function;
mod group_words;
mod host_function;
mod interval;
mod ir;
mod kernel_error;
mod key_space;
mod kind;
mod letters;
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
mod text;
mod text_cast;
mod value;
mod windows;

#[cfg(test)]
mod tests;

pub use automaton::Automaton;
pub use binding::{ColumnBinding, ColumnKind, kind_for};
pub use built::{BuiltColumn, PairShape, PairWord, Spare};
pub use built::{PairSide, Part};
pub use dictionary::CodedStrings;
pub use dimension::is_key;
pub use dimension::{Dimension, MAX_INDICES, MAX_PAYLOAD};
pub use display::Named;
pub use emit::{Emitter, OrderedText};
pub use emit::{PAIR_CHUNK_BITS, integer_literal};
pub use error::{Fault, RowError};
pub use fallible::{Fallible, Show, bare, name_errors, never_fails};
pub use function::BUCKETS;
pub use function::{DatePart, Elementary, Function, SortOrder, TruncateUnit};
pub use group_words::TextForm;
pub use group_words::{DigitValue, GroupColumn, GroupForm, GroupNull, GroupWords, Product};
pub use host_function::HostFunction;
pub use interval::{Interval, domain, is_capped, result_range, widens};
pub use ir::{Expr, ExprKind, MAX_DEPTH};
pub use kernel_error::{KernelError, Number, Place, Raised, Signal};
pub use key_space::{JoinKeyPart, KeySpace, PLACES};
pub use kind::Kind;
pub use lower::levels;
pub use lower::lower;
pub use lower::{is_checked, representable};
pub use operator::{Arithmetic, Bitwise, Comparison};
pub use origin::Origin;
pub use packed::{EntryIndex, PackedDimension, PackedLayout};
pub use parameters::{LookupTable, Parameters};
pub use pending::PendingScalar;
pub use pending::Rebind;
pub use text::is_text;
pub use text_cast::TextCast;
pub use value::Value;
pub use windows::{Derived, DerivedForm, WindowShape, WindowWord};
pub use windows::{Distance, Frame, FrameBound, RangeKey, Units, WindowCall, WindowFunction};

/// The device headers that generated code includes, in order.
pub const HEADERS: [&str; 6] = [
    "galatea/arithmetic.cuh",
    "galatea/decimal.cuh",
    "galatea/datetime.cuh",
    "galatea/strings.cuh",
    "galatea/automaton.cuh",
    "galatea/made_text.cuh",
];

/// The policies of expressions.
pub fn policies() -> Vec<galatea_base::policy::Policy> {
    vec![automaton::AutomatonPolicy::listed()]
}
