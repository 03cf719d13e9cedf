//! Errors of rows: overflow is an error, and an operand raises its errors only for rows that need its value.
//!
//! DataFusion's arithmetic on integers wraps on overflow, its sums wrap, decimals exceed the digits of their
//! type, and the right operand of AND and OR is evaluated for rows that the left one has decided. Device code
//! checks and guards ([`galatea_expression`]); with the rules here the CPU's operators do the same:
//!
//! - [`CheckSums`] (analyzer) replaces `sum` by one that adds up in 128 or 256 bits and fails when the result
//!   is out of range for its type.
//! - [`CheckConstants`] (optimizer, before each simplification) prevents the folding of constants that
//!   overflow: their error is raised when a row needs them.
//! - [`CheckArithmetic`] (physical, before placement) marks `+`, `-` and `*` as checked, for
//!   [`lower`](galatea_expression::lower), and extends casts of strings to common notations.
//! - [`GuardOperands`] (physical, after placement) guards the operands of AND, OR and FILTER, and counts the
//!   digits of decimals; [`GuardConjuncts`] (before sorts are planned) guards the conditions of filters,
//!   which other rules split before.
//! - [`ComputeOperands`] (logical) adds projections that compute operands of sorts and window functions which
//!   the physical rules cannot change, [`CheckUpdates`] checks the arithmetic of UPDATE and DELETE, and
//!   [`KeepFiltered`] keeps arguments behind their FILTER.
//! - [`NameErrors`] (before sorts are planned) adds the failing operation to each error, a [`RowError`], as
//!   kernels do.
//! - [`GrowStack`] (before sorts are planned, and again as the last rule) evaluates deep expressions on a
//!   stack that is large enough.
//!
//! Overflow wraps with `galatea.overflow = 'wrap'`. Guards do not depend on a setting.

mod constants;
mod decimal;
mod deep;
mod filtered;
mod guard;
mod names;
mod node;
mod operands;
mod overflow;
mod rules;
mod shown;
mod sum;
mod sum_state;
mod updates;

pub use constants::CheckConstants;
pub(crate) use constants::is_constant;
pub use filtered::KeepFiltered;
pub(crate) use guard::may_raise;
pub(crate) use names::{input_schema, names_kept};
pub(crate) use node::{Rewrite, all, rewritten};
pub use operands::ComputeOperands;
pub(crate) use overflow::checked;
pub(crate) use rules::guarded;
pub use rules::{CheckArithmetic, GrowStack, GuardConjuncts, GuardOperands, NameErrors};
pub(crate) use shown::{CommonExpressions, call_of_column};
pub use sum::CheckSums;
pub(crate) use sum::is_checked_sum;
pub use updates::CheckUpdates;

pub use galatea_expression::{Fault, RowError};
