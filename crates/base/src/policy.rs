//! Tuning policies: the constants of each mechanism, collected in one documented value.
//!
//! A policy holds constants that no setting overrides and that are not measured on the device (`galatea
//! calibrate` measures rates and latencies). The `policy!` macro declares it beside its mechanism.

use std::fmt::{Display, Formatter, Result};

/// Declares a policy: a struct with documented fields, each with its value, and `DEFAULT`, the value that the
/// mechanism uses.
#[macro_export]
macro_rules! policy {
    (
        $(#[doc = $about:literal])+
        $visibility:vis struct $name:ident {
            $($(#[doc = $meaning:literal])+ $field:ident: $type:ty = $value:expr,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq)]
        $visibility struct $name {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        impl $name {
            /// The value in use.
            pub const DEFAULT: Self = Self { $($field: $value,)+ };

            /// The constants of the policy, with their meaning.
            pub fn listed() -> $crate::policy::Policy {
                $crate::policy::Policy::new(
                    stringify!($name),
                    concat!($($about),+),
                    vec![$($crate::policy::Constant::new(
                        stringify!($field),
                        &Self::DEFAULT.$field,
                        concat!($($meaning),+),
                    )),+],
                )
            }
        }
    };
}
pub use crate::policy;

/// A policy, as listed to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the policy's type.
    pub name: &'static str,
    /// The decision that the policy controls.
    pub about: String,
    /// The constants of the policy.
    pub constants: Vec<Constant>,
}

/// A constant of a policy, as listed to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
    /// Meaning and unit.
    pub meaning: String,
}

impl Policy {
    /// Creates a policy of that name from the lines of its documentation.
    pub fn new(name: &'static str, about: &str, constants: Vec<Constant>) -> Self {
        Self {
            name,
            about: sentence(about),
            constants,
        }
    }
}

impl Constant {
    /// Creates a constant of that name from the lines of its documentation.
    pub fn new(name: &'static str, value: &dyn Value, meaning: &str) -> Self {
        Self {
            name,
            value: value.shown(),
            meaning: sentence(meaning),
        }
    }
}

/// A value of a constant.
pub trait Value {
    /// The value as listed: large and small floats are printed with exponents.
    fn shown(&self) -> String;
}

macro_rules! integers {
    ($($type:ty),+) => {$(impl Value for $type {
        fn shown(&self) -> String {
            self.to_string()
        }
    })+};
}
integers!(u32, u64, usize);

impl Value for f64 {
    fn shown(&self) -> String {
        match self.abs() {
            size if size >= 1e5 || (size > 0.0 && size < 1e-2) => format!("{self:e}"),
            _ => self.to_string(),
        }
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    fn shown(&self) -> String {
        let values: Vec<String> = self.iter().map(Value::shown).collect();
        values.join(", ")
    }
}

/// Joins the lines of a doc comment into one.
fn sentence(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Display for Policy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "{}: {}", self.name, self.about)?;
        let width = |of: fn(&Constant) -> usize| self.constants.iter().map(of).max().unwrap_or(0);
        let (names, values) = (width(|c| c.name.len()), width(|c| c.value.len()));
        for Constant { name, value, meaning } in &self.constants {
            writeln!(f, "  {name:names$}  {value:>values$}  {meaning}")?;
        }
        Ok(())
    }
}
