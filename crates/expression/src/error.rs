//! Errors that rows raise while a kernel runs.
//!
//! Code calls `galatea_raise(args.error, code)`, which keeps the first code that is not zero; the host turns
//! it into the error that DataFusion would have returned. Arrow's texts that quote the offending value are
//! given without it: rows are evaluated in no particular order, and only the code leaves the kernel.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::parameters::Parameters;
use std::fmt::Display;

/// What went wrong in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Division or remainder by zero.
    DivideByZero,
    /// An integer or decimal result that its machine type cannot hold, where DataFusion checks.
    Overflow,
    /// A cast of a value that the target type cannot hold.
    Cast,
    /// A decimal with more digits than its precision allows.
    Precision,
    /// A date or timestamp outside the calendar.
    DateRange,
    /// Square root of a negative number.
    SquareRoot,
    /// Zero to a negative power.
    Power,
    /// A character whose lower case depends on the characters around it, which the CPU looks at.
    Letter,
    /// No room for a text that is a group key.
    TextsFull,
    /// An error of DataFusion's own evaluation over a dictionary; index into [`Parameters::errors`].
    Host(u32),
}

/// First code of [`ErrorCode::Host`].
const HOST: u32 = 0x100;

impl ErrorCode {
    /// The number that the kernel raises; never 0.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::DivideByZero => 1,
            Self::Overflow => 2,
            Self::Cast => 3,
            Self::Precision => 4,
            Self::DateRange => 5,
            Self::SquareRoot => 6,
            Self::Power => 7,
            Self::Letter => 8,
            Self::TextsFull => 9,
            Self::Host(index) => HOST + index,
        }
    }

    /// The meaning of a number; `None` for 0 (no error) and unknown numbers.
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::DivideByZero),
            2 => Some(Self::Overflow),
            3 => Some(Self::Cast),
            4 => Some(Self::Precision),
            5 => Some(Self::DateRange),
            6 => Some(Self::SquareRoot),
            7 => Some(Self::Power),
            8 => Some(Self::Letter),
            9 => Some(Self::TextsFull),
            host if host >= HOST => Some(Self::Host(host - HOST)),
            _ => None,
        }
    }

    /// The error that DataFusion's evaluation returns in this case.
    #[must_use]
    pub fn to_error(self, parameters: &Parameters) -> DataFusionError {
        let arrow = match self {
            Self::DivideByZero => ArrowError::DivideByZero,
            Self::Overflow => ArrowError::ArithmeticOverflow("Overflow happened in a row".to_owned()),
            Self::Cast => {
                ArrowError::CastError("Can't cast value: out of range of the target type".to_owned())
            }
            Self::Precision => ArrowError::InvalidArgumentError(
                "decimal has more digits than its precision allows".to_owned(),
            ),
            Self::DateRange => ArrowError::ComputeError("Date arithmetic overflow".to_owned()),
            Self::SquareRoot => ArrowError::ComputeError(
                "Execution error: cannot take square root of a negative number".to_owned(),
            ),
            Self::Power => {
                ArrowError::ComputeError("zero raised to a negative power is undefined".to_owned())
            }
            Self::Letter => {
                let text = "the lower case of a letter depends on those around it".to_owned();
                return DataFusionError::Execution(text);
            }
            Self::TextsFull => {
                return DataFusionError::Execution("no room for the texts of group keys".to_owned());
            }
            Self::Host(index) => {
                let text = parameters.errors.get(index as usize).cloned().unwrap_or_default();
                return DataFusionError::Execution(text);
            }
        };
        DataFusionError::ArrowError(Box::new(arrow), None)
    }
}

/// A sum in that message; `name` may be an alias.
pub fn sum_name(name: &str) -> String {
    format!("a sum, {name}")
}

/// The message of a result that leaves its type.
pub fn overflow_text(expression: &dyn Display, data_type: &DataType) -> String {
    format!("Overflow happened in {expression}: the result does not fit {data_type}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        use ErrorCode::{
            Cast, DateRange, DivideByZero, Host, Letter, Overflow, Power, Precision, SquareRoot, TextsFull,
        };
        for code in [
            DivideByZero,
            Overflow,
            Cast,
            Precision,
            DateRange,
            SquareRoot,
            Power,
            Letter,
            TextsFull,
            Host(0),
            Host(7),
        ] {
            assert_eq!(ErrorCode::from_code(code.code()), Some(code));
        }
        assert_eq!(ErrorCode::from_code(0), None);
    }
}
