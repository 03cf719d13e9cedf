//! Regular expressions as automata: table-driven scans of a string, byte by byte, in a kernel.
//!
//! `regex-automata` builds a deterministic automaton over UTF-8, with the syntax and semantics of the crate
//! `regex`, which DataFusion's operators use. Its states are renumbered, so that one comparison classifies a
//! state: 0 is the dead state, and all states from a certain number on mean that a match ended before the
//! last byte. Bytes that no state distinguishes form a class.
//!
//! ```text
//! u32 classes, u32 first match, u32 offset of the transitions, u32 0
//! u16 [258]                start state, by the previous byte; 256: none
//! u8  [256]                class of a byte
//! u8  [states]             whether a match ends at the end of the string
//! u16 [states][classes]    next state
//! ```
//!
//! Patterns without an automaton of bounded size stay on the CPU: Unicode word boundaries, large repetitions.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::{start, syntax};
use regex_automata::{Anchored, MatchKind};

use galatea_base::policy::policy;
use galatea_base::reason::Reason;

policy! {
    /// Policy for the size of automata.
    pub struct AutomatonPolicy {
        /// Maximum bytes of a table. The tables of some automata stay in the first-level cache.
        table_bytes: usize = 512 << 10,
        /// Maximum bytes of memory to build one.
        making_bytes: usize = 16 << 20,
    }
}

const POLICY: AutomatonPolicy = AutomatonPolicy::DEFAULT;

/// Start states by previous byte, one more for no previous byte, and one for alignment.
const STARTS: usize = 258;

/// A regular expression and the table of its automaton.
#[derive(Clone)]
pub struct Automaton {
    pattern: String,
    /// Whether it never matches the empty string.
    takes_bytes: bool,
    table: Arc<[u8]>,
}

impl Automaton {
    /// The regular expression.
    pub(crate) fn pattern(&self) -> &str {
        &self.pattern
    }
}

impl PartialEq for Automaton {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for Automaton {}

impl Hash for Automaton {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pattern.hash(state);
    }
}

impl fmt::Debug for Automaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.pattern)
    }
}

impl Automaton {
    /// The automaton of a pattern in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// [`Reason::Function`] of invalid patterns and of patterns without an automaton of bounded size.
    pub fn new(pattern: &str) -> Result<Self, Reason> {
        let refuse = |detail: String| Reason::Function {
            name: format!("regular expression '{pattern}'"),
            detail,
        };
        let parsed = syntax::parse(pattern).map_err(|error| refuse(error.to_string()))?;
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .match_kind(MatchKind::LeftmostFirst)
            .accelerate(false)
            // The transitions of `regex-automata` take twice the bytes and are padded.
            .dfa_size_limit(Some(4 * POLICY.table_bytes))
            .determinize_size_limit(Some(POLICY.making_bytes));
        let made = dense::Builder::new().configure(config).build(pattern);
        let dfa = made.map_err(|error| {
            // The error's source contains the exceeded limit; the error itself only that a limit is exceeded.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            refuse(format!(
                "no automaton: {}",
                cause.unwrap_or_else(|| error.to_string())
            ))
        })?;
        let table = table(&dfa).map_err(refuse)?;
        Ok(Self {
            pattern: pattern.to_owned(),
            takes_bytes: parsed.properties().minimum_len().is_some_and(|least| least > 0),
            table: table.into(),
        })
    }

    /// The automaton of an ILIKE pattern.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_like(pattern: &str) -> Result<Self, Reason> {
        let mut regex = String::from("(?is)^");
        let mut characters = pattern.chars();
        let literal = |regex: &mut String, character: char| {
            // All punctuation may be escaped except these, which would become word boundaries.
            if character.is_ascii_punctuation() && !['<', '>'].contains(&character) {
                regex.push('\\');
            }
            regex.push(character);
        };
        while let Some(character) = characters.next() {
            match character {
                '%' => regex.push_str(".*"),
                '_' => regex.push('.'),
                '\\' => literal(&mut regex, characters.next().unwrap_or('\\')),
                other => literal(&mut regex, other),
            }
        }
        // A pattern that ends with anything needs no end anchor.
        match regex.strip_suffix(".*") {
            Some(open) => Self::new(open),
            None => Self::new(&format!("{regex}$")),
        }
    }

    /// Whether each match has at least one byte.
    pub(crate) fn takes_bytes(&self) -> bool {
        self.takes_bytes
    }

    /// The table.
    pub fn table(&self) -> Arc<[u8]> {
        Arc::clone(&self.table)
    }
}

/// The table of an automaton, or the reason why it cannot be built.
fn table(dfa: &dense::DFA<Vec<u32>>) -> Result<Vec<u8>, String> {
    let classes = dfa.byte_classes();
    let mut of_class: Vec<u8> = Vec::new();
    for byte in 0..=u8::MAX {
        if usize::from(classes.get(byte)) == of_class.len() {
            of_class.push(byte);
        }
    }
    let start_of = |before: Option<u8>| {
        let config = start::Config::new().anchored(Anchored::No).look_behind(before);
        dfa.start_state(&config).map_err(|error| error.to_string())
    };
    let starts = (0..=u8::MAX).map(Some).chain([None]);
    let starts = starts.map(start_of).collect::<Result<Vec<StateID>, String>>()?;
    // All reachable states, in the order of discovery.
    let mut found: Vec<StateID> = Vec::new();
    let mut known: HashMap<StateID, usize> = HashMap::new();
    let mut note = |state: StateID, found: &mut Vec<StateID>| {
        if !dfa.is_dead_state(state) && !known.contains_key(&state) {
            known.insert(state, found.len());
            found.push(state);
        }
    };
    starts.iter().for_each(|state| note(*state, &mut found));
    let mut at = 0;
    while let Some(state) = found.get(at).copied() {
        for byte in &of_class {
            note(dfa.next_state(state, *byte), &mut found);
        }
        at += 1;
    }
    let (open, matches): (Vec<StateID>, Vec<StateID>) =
        found.into_iter().partition(|state| !dfa.is_match_state(*state));
    let first_match = 1 + open.len();
    let states: Vec<StateID> = open.into_iter().chain(matches).collect();
    let numbers: HashMap<StateID, u16> = (states.iter().zip(1..))
        .map(|(state, number)| (*state, number))
        .collect();
    let count = 1 + states.len();
    let bytes = 2 * count * of_class.len();
    if count > usize::from(u16::MAX) || bytes > POLICY.table_bytes {
        return Err(format!(
            "an automaton of {bytes} bytes, limit {}",
            POLICY.table_bytes
        ));
    }
    let number = |state: StateID| numbers.get(&state).copied().unwrap_or(0);
    let header = 16 + 2 * STARTS + 256;
    let transitions = (header + count).next_multiple_of(2);
    let mut table = Vec::with_capacity(transitions + bytes);
    for word in [of_class.len(), first_match, transitions, 0] {
        table.extend((word as u32).to_le_bytes());
    }
    for start in starts.iter().map(|state| number(*state)).chain([0]) {
        table.extend(start.to_le_bytes());
    }
    table.extend((0..=u8::MAX).map(|byte| classes.get(byte)));
    table.push(0);
    let ends = |state: &StateID| u8::from(dfa.is_match_state(dfa.next_eoi_state(*state)));
    table.extend(states.iter().map(ends));
    table.resize(transitions, 0);
    // The dead state leads to itself.
    table.resize(transitions + 2 * of_class.len(), 0);
    for state in &states {
        for byte in &of_class {
            table.extend(number(dfa.next_state(*state, *byte)).to_le_bytes());
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_without_bounded_automaton_are_refused() {
        for pattern in [r"\bword\b", r"(\w{1,40}){1,40}", "(", r"(?u:\pL{500})"] {
            let refused = Automaton::new(pattern).expect_err(pattern).to_string();
            assert!(refused.contains(pattern), "{refused}");
        }
        assert!(Automaton::new(r"(?-u:\b)word").is_ok(), "words of ASCII");
    }

    #[test]
    fn patterns_that_match_empty_strings_are_detected() {
        let takes_bytes = |pattern| Automaton::new(pattern).map(|made| made.takes_bytes()).ok();
        assert_eq!(takes_bytes("a+"), Some(true));
        assert_eq!(takes_bytes("a*"), Some(false));
        assert_eq!(takes_bytes("^|b"), Some(false));
    }
}
