//! Computed strings, which have no dictionary whatever the encodings of columns.

use super::function::Function;
use super::ir::{Expr, ExprKind};
use super::string::is_string;
use galatea_base::reason::Reason;

/// Maximum number of parts of a joined string. The code that iterates over it is generated for each pair of
/// parts, and compiling it for more parts takes longer than running the query on the CPU.
const MAX_JOINED: usize = 64;

impl Expr {
    /// Whether it is a computed string, which has no dictionary whatever the encodings of its columns.
    #[must_use]
    pub fn is_made(&self) -> bool {
        is_string(self.data_type())
            && match self.kind() {
                ExprKind::Call { .. } => true,
                ExprKind::Cast { input, .. } if is_string(input.data_type()) => input.is_made(),
                // A boolean becomes one of two constants.
                ExprKind::Cast { input, .. } => *input.data_type() != arrow::datatypes::DataType::Boolean,
                ExprKind::Dictionary { argument, .. } => argument.is_made(),
                ExprKind::Hosted { native, .. } => native.is_made(),
                ExprKind::Lookup { made, .. } => *made,
                ExprKind::Case { branches, otherwise } => {
                    let results = branches.iter().map(|(_, then)| then).chain(otherwise);
                    results.into_iter().any(Self::is_made)
                }
                _ => false,
            }
    }

    /// Refuses strings joined from more than `MAX_JOINED` parts.
    ///
    /// # Errors
    /// [`Reason::Limit`].
    pub fn check_joined_strings(&self) -> Result<(), Reason> {
        let parts = self.joined_parts();
        match parts <= MAX_JOINED {
            true => Ok(()),
            false => Err(Reason::Limit {
                expression: "a string".into(),
                asked: parts as u64,
                limit: MAX_JOINED as u64,
                unit: "joined parts",
            }),
        }
    }

    /// The maximum number of parts of a joined string in the expression; parts of nested strings add up.
    fn joined_parts(&self) -> usize {
        let below = self.children().into_iter().map(Self::joined_parts);
        match self.kind() {
            ExprKind::Call {
                function: Function::Join { .. } | Function::JoinBy,
                ..
            } => below.map(|parts| parts.max(1)).sum(),
            _ => below.max().unwrap_or(0),
        }
    }

    /// Whether it is a string that kernels read as bytes if its columns have no dictionary: a column, or an
    /// expression with device code over the bytes of others.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.is_made()
            || self.as_column().is_some()
            || match self.kind() {
                ExprKind::Literal(_) => true,
                ExprKind::Cast { input, .. } => is_string(input.data_type()) && input.has_bytes(),
                ExprKind::Dictionary { argument, native, .. } => {
                    argument.has_bytes() && native.as_ref().is_some_and(Self::has_bytes)
                }
                ExprKind::Hosted { native, .. } => native.has_bytes(),
                ExprKind::Case { branches, otherwise } => {
                    let mut results = branches.iter().map(|(_, then)| then).chain(otherwise);
                    results.all(Self::has_bytes)
                }
                _ => false,
            }
    }

    /// Number of strings that are computed byte by byte for a row.
    #[must_use]
    pub fn computed_strings(&self) -> usize {
        let is_other = matches!(self.kind(), ExprKind::Lookup { .. } | ExprKind::Hosted { .. });
        let own = usize::from(self.is_made() && !is_other);
        own + self
            .children()
            .into_iter()
            .map(Self::computed_strings)
            .sum::<usize>()
    }

    /// Refuses operations that are not supported on strings without a dictionary.
    ///
    /// # Errors
    /// [`Reason::Expression`] with the name of the place.
    pub fn check_made(&self) -> Result<(), Reason> {
        match self.kind() {
            ExprKind::Dictionary {
                argument,
                native,
                function,
            } if argument.is_made() => {
                return match native {
                    Some(native) => native.check_made(),
                    None => Err(Reason::Function {
                        name: function.to_string(),
                        detail: "no device version for a computed string without a dictionary".to_owned(),
                    }),
                };
            }
            ExprKind::Call { function, arguments } => {
                let made = arguments.iter().enumerate().filter(|(_, text)| text.is_made());
                if made.into_iter().any(|(number, _)| !takes_made(function, number)) {
                    return Err(Reason::without_dictionary(self));
                }
            }
            _ => {}
        }
        self.children().into_iter().try_for_each(Self::check_made)
    }
}

/// Whether a function has device code for a computed string as this argument.
pub(crate) fn takes_made(function: &Function, argument: usize) -> bool {
    match function {
        Function::StartsWith
        | Function::EndsWith
        | Function::Contains
        | Function::Position
        | Function::OctetLength
        | Function::CharacterLength
        | Function::FirstCharacter
        | Function::Substring { .. }
        | Function::Trim { .. }
        | Function::Left
        | Function::Right
        | Function::From
        | Function::Matches(_)
        | Function::Join { .. }
        | Function::JoinBy
        | Function::Upper
        | Function::Lower
        | Function::Repeat
        | Function::SortKey(_)
        | Function::SortWord { .. } => true,
        // The other arguments are read repeatedly.
        Function::Like | Function::Pad { .. } | Function::Replace => argument == 0,
        _ => false,
    }
}
