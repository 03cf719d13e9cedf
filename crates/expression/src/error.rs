//! Errors that rows raise, in kernels and on the CPU: the fault and its expression.
//!
//! Kernels raise them by number (`kernel_error.rs`), operators of the CPU by [`Fallible`](super::Fallible).
//! Callers find the error by [`RowError::of`], whichever device raised it and however DataFusion wrapped it.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use std::error::Error;
use std::fmt;

/// The kind of failure in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Division or remainder by zero.
    DivisionByZero,
    /// A result that exceeds its type.
    Overflow {
        /// The type.
        data_type: DataType,
        /// Whether `galatea.overflow = 'wrap'` returns the low bits instead.
        wraps: bool,
    },
    /// A cast of a value that does not fit the target type, or of a string that is not a valid value of it.
    Cast {
        /// The target type.
        data_type: DataType,
        /// Arrow's message, which quotes the value. `None` for kernels, which do not return values.
        message: Option<String>,
    },
    /// Another error of DataFusion's own evaluation, of a dictionary value or of a returned row.
    Evaluation {
        /// DataFusion's message.
        message: String,
    },
    /// The device code of a function has no result for a value. DataFusion's function returns a result or
    /// raises its own error.
    Function,
}

/// An error that a row raised: the fault and its expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowError {
    /// The fault.
    pub fault: Fault,
    /// The expression as written in the plan.
    pub expression: String,
}

impl RowError {
    /// The error of a result of `+`, `-`, `*` or `sum` that exceeds its type.
    pub fn overflow(expression: impl fmt::Display, data_type: &DataType) -> Self {
        Self {
            fault: Fault::of_arithmetic(data_type),
            expression: expression.to_string(),
        }
    }

    /// Finds the [`RowError`] among the causes of an error.
    #[must_use]
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        let mut cause: &(dyn Error + 'static) = error;
        loop {
            if let Some(raised) = cause.downcast_ref() {
                return Some(raised);
            }
            cause = cause.source()?;
        }
    }

    /// The setting or expression that avoids the error.
    fn hint(&self) -> Option<&'static str> {
        match &self.fault {
            Fault::DivisionByZero => Some("NULLIF(divisor, 0) makes the result NULL"),
            Fault::Overflow { wraps: true, .. } => {
                Some("cast to a wider type, or SET galatea.overflow = 'wrap'")
            }
            Fault::Overflow { data_type, .. } if data_type.is_integer() => Some("cast to a wider type"),
            Fault::Overflow {
                data_type: DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..),
                ..
            } => Some("cast to more digits: DECIMAL(76, s)"),
            Fault::Cast { .. } => Some("TRY_CAST makes the result NULL"),
            _ => None,
        }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expression = &self.expression;
        match &self.fault {
            Fault::DivisionByZero => write!(f, "division by zero in {expression}"),
            Fault::Overflow { data_type, .. } => {
                write!(f, "overflow in {expression}: the result does not fit {data_type}")
            }
            Fault::Cast {
                message: Some(message),
                ..
            }
            | Fault::Evaluation { message } => write!(f, "{message}, in {expression}"),
            Fault::Cast { data_type, .. } => write!(f, "a value does not fit {data_type}, in {expression}"),
            Fault::Function => write!(f, "no result on the device, in {expression}"),
        }?;
        match self.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Error for RowError {}

impl From<RowError> for DataFusionError {
    fn from(error: RowError) -> Self {
        Self::External(Box::new(error))
    }
}

impl Fault {
    /// A result of `+`, `-`, `*` or `sum` exceeds its type.
    #[must_use]
    pub fn of_arithmetic(data_type: &DataType) -> Self {
        Self::Overflow {
            data_type: data_type.clone(),
            wraps: data_type.is_integer(),
        }
    }

    /// A result of another operation exceeds its type.
    pub(crate) fn of_operation(data_type: &DataType) -> Self {
        Self::Overflow {
            data_type: data_type.clone(),
            wraps: false,
        }
    }

    /// The fault of an error of Arrow's kernels. `casts`: the expression is a cast to `data_type`; `adds`: it
    /// is `+`, `-` or `*`. `None` for other errors.
    pub(crate) fn of_arrow(
        error: &DataFusionError,
        data_type: &DataType,
        casts: bool,
        adds: bool,
    ) -> Option<Self> {
        let mut cause: &(dyn Error + 'static) = error;
        let error = loop {
            match cause.downcast_ref::<ArrowError>() {
                Some(error) if error.source().is_none() => break error,
                _ => cause = cause.source()?,
            }
        };
        match error {
            ArrowError::CastError(message)
            | ArrowError::InvalidArgumentError(message)
            | ArrowError::ArithmeticOverflow(message)
                if casts =>
            {
                let message = Some(message.clone());
                let data_type = data_type.clone();
                Some(Self::Cast { data_type, message })
            }
            ArrowError::DivideByZero => Some(Self::DivisionByZero),
            ArrowError::ArithmeticOverflow(_) if adds => Some(Self::of_arithmetic(data_type)),
            ArrowError::ArithmeticOverflow(_) => Some(Self::of_operation(data_type)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn row_error_is_found_in_wrapped_errors() {
        let error = RowError::overflow("a + b", &DataType::Int64);
        let wrapped = DataFusionError::from(error.clone()).context("in a join");
        let arrow = ArrowError::ExternalError(Box::new(wrapped));
        let wrapped = DataFusionError::Shared(Arc::new(DataFusionError::ArrowError(Box::new(arrow), None)));
        assert_eq!(RowError::of(&wrapped), Some(&error));
        assert_eq!(RowError::of(&DataFusionError::Execution("a + b".into())), None);
        assert_eq!(
            error.to_string(),
            "overflow in a + b: the result does not fit Int64\nhint: cast to a wider type, or SET galatea.overflow = 'wrap'"
        );
    }
}
