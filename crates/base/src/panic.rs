//! Messages of panics that were caught.

use std::any::Any;

/// The message of a panic, if it has one.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, panic_any};

    #[test]
    fn messages_of_both_types_are_found() {
        let caught = |panics: fn()| catch_unwind(panics).expect_err("a panic");
        assert_eq!(message(&*caught(|| panic_any("a literal"))), Some("a literal"));
        assert_eq!(
            message(&*caught(|| panic_any(format!("number {}", 7)))),
            Some("number 7")
        );
        assert_eq!(message(&*caught(|| panic_any(7))), None);
    }
}
