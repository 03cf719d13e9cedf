//! The places of a token sequence where a query may begin.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The context of the tokens at one level of parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A query may begin.
    Begin,
    /// After EXPLAIN or DESCRIBE: options, then a query.
    Explain,
    /// After WITH: its queries are in parentheses, then the query that uses them follows.
    With,
    /// After INSERT: the table and its columns, then a query.
    Insert,
    /// After CREATE or PREPARE: a query follows AS.
    Create,
    /// Inside a query, or not in any query.
    Inside,
}

/// Words that begin a query in another way than FROM.
const BEGINS: [Keyword; 9] = [
    Keyword::SELECT,
    Keyword::VALUES,
    Keyword::TABLE,
    Keyword::DELETE,
    Keyword::UPDATE,
    Keyword::SHOW,
    Keyword::MERGE,
    Keyword::SET,
    Keyword::DEFAULT,
];

impl Place {
    /// The context after a word.
    #[expect(clippy::match_same_arms, reason = "the first pattern that matches counts")]
    fn after(self, word: Keyword) -> Self {
        match (self, word) {
            (Self::Create, Keyword::AS) => Self::Begin,
            // CREATE MACRO name(...) AS TABLE query.
            (Self::Begin, Keyword::TABLE) => Self::Begin,
            (Self::Create, _) => Self::Create,
            (_, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => Self::Begin,
            (Self::Begin, Keyword::ALL | Keyword::DISTINCT | Keyword::BY | Keyword::NAME) => Self::Begin,
            (Self::Begin, Keyword::EXPLAIN | Keyword::DESCRIBE | Keyword::DESC) => Self::Explain,
            (Self::Begin | Self::Explain, Keyword::WITH) => Self::With,
            (Self::Begin | Self::Explain | Self::With, Keyword::INSERT) => Self::Insert,
            (Self::Begin | Self::Explain, Keyword::CREATE | Keyword::PREPARE) => Self::Create,
            (Self::Explain | Self::With | Self::Insert, word) if !BEGINS.contains(&word) => self,
            _ => Self::Inside,
        }
    }

    /// The context after a token that is not a word.
    fn after_other(self) -> Self {
        match self {
            Self::Begin => Self::Inside,
            other => other,
        }
    }
}

/// The keyword of a token; `None` for other tokens and quoted names.
pub(super) fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Follows a token sequence.
#[derive(Debug)]
pub(super) struct Places {
    /// The context at this level of parentheses.
    place: Place,
    /// The contexts of the enclosing levels.
    outer: Vec<Place>,
    previous: Option<Keyword>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            place: Place::Begin,
            outer: Vec::new(),
            previous: None,
        }
    }

    /// Whether a query may begin with the next token.
    pub(super) fn begins_query(&self) -> bool {
        !matches!(self.place, Place::Inside | Place::Create)
    }

    /// Passes a token.
    pub(super) fn pass(&mut self, token: &Token) {
        match (token, keyword(token)) {
            (Token::Whitespace(_), _) => return,
            (Token::LParen, _) => {
                self.outer.push(self.place.after_other());
                let is_trim = self.previous == Some(Keyword::TRIM);
                self.place = if is_trim { Place::Inside } else { Place::Begin };
            }
            (Token::RParen, _) => self.place = self.outer.pop().unwrap_or(Place::Inside),
            (Token::SemiColon, _) => {
                self.outer.clear();
                self.place = Place::Begin;
            }
            (_, Some(Keyword::FROM)) => self.place = Place::Inside,
            (_, Some(word)) => self.place = self.place.after(word),
            (_, None) => self.place = self.place.after_other(),
        }
        self.previous = keyword(token);
    }
}
