//! Strings with specifications of arguments, read into pieces.

use std::iter::Peekable;
use std::str::Chars;

use super::spec::{Align, Spec, Style};

/// A part of a string.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// The index of an argument, from 0, and its specification.
    Argument(usize, Spec),
}

/// The pieces of a string.
pub(super) fn pieces(text: &str, style: Style) -> Result<Vec<Piece>, String> {
    let mut read = Reader {
        rest: text.chars().peekable(),
        pieces: Vec::new(),
        text: String::new(),
        next: 0,
        has_numbers: false,
    };
    while let Some(letter) = read.rest.next() {
        match (style, letter) {
            (Style::Braces, '{') => read.brace()?,
            (Style::Braces, '}') => match read.rest.next() {
                Some('}') => read.text.push('}'),
                _ => return Err("it has a } without {; write }} for the character".to_owned()),
            },
            (Style::Percents, '%') => read.percent()?,
            (_, letter) => read.text.push(letter),
        }
    }
    read.end_text();
    Ok(read.pieces)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    pieces: Vec<Piece>,
    /// The literal characters after the last argument.
    text: String,
    /// The index of the next argument without a number.
    next: usize,
    has_numbers: bool,
}

impl Reader<'_> {
    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }

    fn argument(&mut self, number: Option<usize>, spec: Spec) -> Result<(), String> {
        self.end_text();
        let index = match number {
            Some(number) => {
                self.has_numbers = true;
                number
            }
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        if self.has_numbers && self.next > 0 {
            return Err("it has arguments with a number and without one".to_owned());
        }
        self.pieces.push(Piece::Argument(index, spec));
        Ok(())
    }

    fn take(&mut self, letter: char) -> bool {
        self.rest.next_if_eq(&letter).is_some()
    }

    fn take_any(&mut self, letters: &str) -> Option<char> {
        self.rest.next_if(|letter| letters.contains(*letter))
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        match digits.is_empty() {
            true => Ok(None),
            // Widths of a million characters and more are mistakes.
            false if digits.len() > 6 => Err(format!("the number {digits} is too large")),
            false => Ok(digits.parse().ok()),
        }
    }

    fn precision(&mut self) -> Result<Option<usize>, String> {
        match self.take('.') {
            true => Ok(Some(self.number()?.unwrap_or(0))),
            false => Ok(None),
        }
    }

    /// Reads an argument behind `{`.
    fn brace(&mut self) -> Result<(), String> {
        if self.take('{') {
            self.text.push('{');
            return Ok(());
        }
        let number = self.number()?;
        let mut spec = Spec::default();
        if self.take(':') {
            self.braces_spec(&mut spec)?;
        }
        match self.rest.next() {
            Some('}') => self.argument(number, spec),
            Some(letter) => Err(format!("an argument has {letter} where it should end with }}")),
            None => Err("an argument has no end".to_owned()),
        }
    }

    fn braces_spec(&mut self, spec: &mut Spec) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        if let (Some(fill), Some(align)) = (ahead.next(), ahead.next().and_then(Align::of))
            && fill != '}'
        {
            (spec.fill, spec.align) = (fill, Some(align));
            self.rest = ahead;
        } else if let Some(align) = self.rest.peek().copied().and_then(Align::of) {
            spec.align = Some(align);
            self.rest.next();
        }
        spec.sign = self.take_any("+- ");
        spec.is_alternate = self.take('#');
        spec.has_zeros = self.take('0');
        spec.width = self.number()?.unwrap_or(0);
        self.separator(spec)?;
        spec.precision = self.precision()?;
        spec.kind = self.rest.next_if(char::is_ascii_alphabetic);
        Ok(())
    }

    /// The character between groups of three digits: `,`, or any behind `t`.
    fn separator(&mut self, spec: &mut Spec) -> Result<(), String> {
        if self.take(',') {
            spec.separator = Some(',');
        } else if self.take('t') {
            let letter = self.rest.next().ok_or("an argument has no end")?;
            spec.separator = Some(letter);
        }
        Ok(())
    }

    /// Reads an argument behind `%`.
    fn percent(&mut self) -> Result<(), String> {
        if self.take('%') {
            self.text.push('%');
            return Ok(());
        }
        let mut spec = Spec::default();
        let mut ahead = self.rest.clone();
        let mut number = None;
        if ahead.next().is_some_and(|digit| ('1'..='9').contains(&digit)) {
            let before = self.rest.clone();
            let read = self.number()?;
            match self.take('$') {
                true => number = read.map(|number| number - 1),
                false => self.rest = before,
            }
        }
        while let Some(flag) = self.take_any("-+ #0,") {
            match flag {
                '-' => spec.align = Some(Align::Left),
                '#' => spec.is_alternate = true,
                '0' => spec.has_zeros = true,
                ',' => spec.separator = Some(','),
                sign if spec.sign != Some('+') => spec.sign = Some(sign),
                _ => {}
            }
        }
        spec.width = self.number()?.unwrap_or(0);
        spec.precision = self.precision()?;
        while self.take_any("hlLqjzt").is_some() {}
        match self.rest.next() {
            Some(kind) => {
                spec.kind = Some(kind);
                spec.align = spec.align.or(Some(Align::Right));
                self.argument(number, spec)
            }
            None => Err("a % has no letter behind it; write %% for the character".to_owned()),
        }
    }
}
