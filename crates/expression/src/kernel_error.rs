//! Row errors as raised by kernels.
//!
//! Generated code calls `galatea_raise(args.error, number)`, which keeps the first nonzero number. A number
//! is a [`Signal`], a request of the kernel to the host, or an index into
//! [`Parameters::errors`](super::Parameters::errors): a fault and the place in the pipeline that raised it.
//! Indices are positions in the generated code, so that kernels of equal shapes are equal. A place is an
//! expression of the pipeline with its [`Origin`]: DataFusion's expression, as written in the plan.

use std::fmt;

use super::error::{Fault, RowError};
use super::fallible::{Show, bare};
use super::ir::Expr;
use super::origin::Origin;

/// The place where a kernel raises an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// An expression of the pipeline.
    Expression(Expr),
    /// The name of a part of an expression that DataFusion evaluates, or of an aggregate call.
    Named(String),
}

/// An error that a kernel may raise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelError {
    /// The fault.
    pub fault: Fault,
    /// The place.
    pub place: Place,
}

/// A row error as raised by a kernel. The plan is needed to name its expression.
#[derive(Debug, Clone)]
pub enum Raised {
    /// An error in an expression of the plan.
    In(Fault, Origin),
    /// An error in an expression with a name.
    Named(RowError),
}

impl Raised {
    /// The fault.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        match self {
            Self::In(fault, _) => fault,
            Self::Named(error) => &error.fault,
        }
    }
}

impl Raised {
    /// The error for users. `show` returns the form of an expression that errors show, if it differs.
    #[must_use]
    pub fn into_row_error(self, show: &Show<'_>) -> RowError {
        match self {
            Self::In(fault, origin) => {
                let expression = bare(origin.expression());
                RowError {
                    fault,
                    expression: Origin::new(&show(&expression).unwrap_or(expression)).to_string(),
                }
            }
            Self::Named(error) => error,
        }
    }

    /// Replaces the column of an aggregate by its call: `call` maps the name of the column to the call.
    #[must_use]
    pub fn of_call(self, call: impl FnOnce(&str) -> Option<String>) -> Self {
        match self {
            Self::Named(error) => Self::Named(RowError {
                expression: call(&error.expression).unwrap_or(error.expression),
                fault: error.fault,
            }),
            other => other,
        }
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().into_row_error(&|_| None).fmt(f)
    }
}

impl KernelError {
    /// The error as raised by the pipeline with these expressions. They equal the expressions that the kernel
    /// was compiled from, but may have other origins, since another query may have compiled the kernel.
    #[must_use]
    pub fn raised(&self, expressions: &[&Expr]) -> Raised {
        let fault = self.fault.clone();
        let named = |expression| {
            Raised::Named(RowError {
                fault: self.fault.clone(),
                expression,
            })
        };
        match &self.place {
            Place::Named(name) => named(name.clone()),
            Place::Expression(own) => {
                let of_query = expressions.iter().find_map(|whole| whole.part_equal_to(own));
                match of_query.unwrap_or(own).origin() {
                    Some(origin) => Raised::In(fault, origin.clone()),
                    None => named(own.to_string()),
                }
            }
        }
    }
}

/// A request of a kernel to the host. The kernel raises it as a number, as it raises errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The table of interned strings is full.
    StringsFull,
    /// The table of the keys of a build side is full.
    KeysFull,
}

/// The number of the first error; lesser numbers are signals.
const FIRST_ERROR: u32 = 0x100;

/// The meaning of a number that a kernel raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// A request to the host.
    Signal(Signal),
    /// Index into [`Parameters::errors`](super::Parameters::errors).
    Error(usize),
}

impl Signal {
    /// The number that the kernel raises; never 0.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::StringsFull => 1,
            Self::KeysFull => 2,
        }
    }
}

impl Number {
    /// The number of an error.
    pub(crate) fn of_error(index: usize) -> u32 {
        FIRST_ERROR + index as u32
    }

    /// The meaning of a number; `None` for 0 (no error) and unknown numbers.
    #[must_use]
    pub fn meaning(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Signal(Signal::StringsFull)),
            2 => Some(Self::Signal(Signal::KeysFull)),
            error if error >= FIRST_ERROR => Some(Self::Error((error - FIRST_ERROR) as usize)),
            _ => None,
        }
    }

    /// The error with this number, in a kernel with these errors.
    #[must_use]
    pub fn error(self, errors: &[KernelError]) -> Option<&KernelError> {
        match self {
            Self::Error(index) => errors.get(index),
            Self::Signal(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_error_numbers_round_trip() {
        for full in [Signal::StringsFull, Signal::KeysFull] {
            assert_eq!(Number::meaning(full.number()), Some(Number::Signal(full)));
        }
        for index in [0, 7] {
            assert_eq!(
                Number::meaning(Number::of_error(index)),
                Some(Number::Error(index))
            );
        }
        assert_eq!(Number::meaning(0), None);
        assert_eq!(Number::meaning(0xff), None);
    }
}
