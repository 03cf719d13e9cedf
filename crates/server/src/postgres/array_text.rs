//! Arrays in the text format: `{1,NULL,"a b"}`.

/// The elements of an array of one dimension, `None` for NULL. Returns `None` for arrays of arrays and for
/// strings that are no array.
pub(super) fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut elements = Vec::new();
    let mut letters = inner.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let mut value = String::new();
        if letters.next_if_eq(&'"').is_some() {
            loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => value.push(letters.next()?),
                    letter => value.push(letter),
                }
            }
            while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
            elements.push(Some(value));
        } else {
            let mut escaped = false;
            while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                match letter {
                    '\\' => {
                        escaped = true;
                        value.push(letters.next()?);
                    }
                    '{' | '}' | '"' => return None,
                    letter => value.push(letter),
                }
            }
            let value = value.trim_end();
            if value.is_empty() {
                return None;
            }
            let is_null = !escaped && value.eq_ignore_ascii_case("null");
            elements.push((!is_null).then(|| value.to_string()));
        }
        match letters.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_separated() {
        let some = |value: &str| Some(value.to_string());
        assert_eq!(elements("{}"), Some(Vec::new()));
        assert_eq!(
            elements("{1, NULL,\"NULL\",\"a,\\\"b\" , c d}"),
            Some(vec![some("1"), None, some("NULL"), some("a,\"b"), some("c d")])
        );
        for wrong in ["", "1", "{1", "{1,}", "{{1},{2}}", "{\"a}", "{\"a\"b}"] {
            assert_eq!(elements(wrong), None, "{wrong}");
        }
    }
}
