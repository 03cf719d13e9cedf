//! Values of settings: the accepted words of each, and how values are shown.

use std::fmt::Display;

/// A value that a setting can hold.
///
/// Parsing accepts any string and returns `None` for invalid ones. It is the inverse of [`Display`]: a value
/// that `SHOW` prints can be `SET` again.
pub trait SettingValue: Display + Sized {
    /// The accepted values as help shows them: `auto, cpu or gpu`.
    fn accepts() -> String;

    /// Parses a value. Returns `None` without an error: the caller's error names the setting and
    /// [`accepts`](Self::accepts).
    fn parse(text: &str) -> Option<Self>;
}

/// Declares an enum that a setting accepts by the names of its variants.
#[macro_export]
macro_rules! words {
    ($(#[doc = $help:literal])+ $name:ident { $( $(#[doc = $variant_help:literal])+ $variant:ident = $word:literal, )+ }) => {
        $(#[doc = $help])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[doc = $variant_help])+ $variant, )+ }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $( Self::$variant => $word, )+ })
            }
        }

        impl $crate::setting::SettingValue for $name {
            fn accepts() -> String {
                $crate::setting::one_of(&[$( $word ),+])
            }

            fn parse(text: &str) -> Option<Self> {
                $( if text.eq_ignore_ascii_case($word) { return Some(Self::$variant); } )+
                None
            }
        }
    };
}

/// Formats the words as `a, b or c`.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

pub use crate::words;
