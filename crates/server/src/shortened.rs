//! Strings with a maximum number of bytes.

/// The first `most` bytes of a string at most, whole characters; and whether it was shortened.
pub(crate) fn shortened(text: &str, most: usize) -> (String, bool) {
    let end = text.floor_char_boundary(most);
    (text[..end].to_string(), end < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_shortened_at_characters() {
        assert_eq!(shortened("aä", 2), ("a".to_string(), true));
        assert_eq!(shortened("aä", 3), ("aä".to_string(), false));
        assert_eq!(shortened("", 0), (String::new(), false));
    }
}
