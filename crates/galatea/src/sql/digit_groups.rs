//! Numbers with `_` between their digits: `1_000`.
//!
//! The tokenizer of some dialects ends a number before `_`, so that the rest would be the name of a column.

use super::tokens::Tokens;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The tokens with such numbers as one token each.
pub(super) fn joined(tokens: Tokens) -> Tokens {
    let mut joined = Tokens::with_capacity(tokens.len());
    // Whether the last token is a number that continues: `1_000` may be followed by `.5`.
    let mut continues = false;
    for token in tokens {
        let last = joined.last_mut().map(|last| &mut last.token);
        continues = match (last, &token.token) {
            (Some(Token::Number(number, is_long)), Token::Word(word))
                if !*is_long && word.quote_style.is_none() && is_rest(&word.value) =>
            {
                number.extend(word.value.chars().filter(|character| *character != '_'));
                !number.contains(['.', 'e', 'E'])
            }
            (Some(Token::Number(number, _)), Token::Number(fraction, _))
                if continues && fraction.starts_with('.') =>
            {
                number.push_str(fraction);
                true
            }
            (Some(Token::Number(number, _)), Token::Period) if continues => {
                number.push('.');
                false
            }
            _ => {
                joined.push(token);
                false
            }
        };
    }
    joined
}

/// Whether a word is groups of digits, each after `_`; the last one may have an exponent.
fn is_rest(word: &str) -> bool {
    let (digits, exponent) = word
        .split_once(['e', 'E'])
        .map_or((word, None), |(digits, exponent)| (digits, Some(exponent)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = digits.split('_');
    groups.next() == Some("") && groups.all(is_number) && digits.len() > 1 && exponent.is_none_or(is_number)
}
