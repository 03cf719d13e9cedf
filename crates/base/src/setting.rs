//! Values of settings: what each accepts, and how it is shown.

use std::fmt::Display;

/// A value that a setting can hold.
///
/// Parsing is total over text and its inverse is [`Display`]: what `SHOW` prints can be `SET` again.
pub trait SettingValue: Display + Sized {
    /// What is accepted, as help shows it: `auto, cpu or gpu`.
    fn accepts() -> String;

    /// Reads a value, or says nothing: the caller's error names the setting and [`accepts`](Self::accepts).
    fn parse(text: &str) -> Option<Self>;
}

/// Writes an enum whose variants are a setting's words.
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

/// `a, b or c`.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

pub use crate::words;
