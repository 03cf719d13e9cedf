//! The specification of an argument, and the strings of values by it.

/// The notation of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// `{}`, as in `format`.
    Braces,
    /// `%d`, as in `printf`.
    Percents,
}

/// A value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
}

/// The side of a field with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    Center,
    /// The field is filled between the sign and the digits.
    Numeric,
}

impl Align {
    pub(super) fn of(letter: char) -> Option<Self> {
        match letter {
            '<' => Some(Self::Left),
            '>' => Some(Self::Right),
            '^' => Some(Self::Center),
            '=' => Some(Self::Numeric),
            _ => None,
        }
    }
}

/// The specification of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spec {
    pub(super) fill: char,
    pub(super) align: Option<Align>,
    /// `+` or a space before numbers that are not negative.
    pub(super) sign: Option<char>,
    /// Whether `#` is written.
    pub(super) is_alternate: bool,
    /// Whether zeros fill the field.
    pub(super) has_zeros: bool,
    /// The least number of characters.
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
    /// The character between groups of three digits.
    pub(super) separator: Option<char>,
    /// The letter of the notation.
    pub(super) kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            fill: ' ',
            align: None,
            sign: None,
            is_alternate: false,
            has_zeros: false,
            width: 0,
            precision: None,
            separator: None,
            kind: None,
        }
    }
}

/// The error of a letter that has no meaning for a value.
fn wrong(kind: char, of: &str) -> String {
    format!("the letter {kind} is not a notation of {of}")
}

impl Spec {
    /// The string of a value.
    pub(super) fn written(&self, value: &Value, style: Style) -> Result<String, String> {
        match value {
            Value::Text(text) => self.text(text),
            Value::Bool(value) => match self.kind {
                None | Some('s') => self.text(if *value { "true" } else { "false" }),
                _ => self.integer(i128::from(*value), style),
            },
            Value::Int(value) => match (self.kind, style) {
                (Some('c'), Style::Percents) => {
                    let letter = u32::try_from(*value).ok().and_then(char::from_u32);
                    let letter = letter.ok_or_else(|| format!("{value} is not the number of a character"))?;
                    Ok(self.padded("", &letter.to_string(), Align::Right))
                }
                _ => self.integer(*value, style),
            },
            Value::Float(value) => self.float(*value),
        }
    }

    fn text(&self, text: &str) -> Result<String, String> {
        if let Some(kind) = self.kind.filter(|kind| *kind != 's') {
            return Err(wrong(kind, "strings"));
        }
        let cut = text.char_indices().nth(self.precision.unwrap_or(usize::MAX));
        let text = cut.map_or(text, |(end, _)| &text[..end]);
        Ok(self.padded("", text, Align::Left))
    }

    fn integer(&self, value: i128, style: Style) -> Result<String, String> {
        if self.precision.is_some() && style == Style::Braces {
            return Err("an integer has no precision".to_owned());
        }
        let is_negative = value < 0;
        let number = value.unsigned_abs();
        // The digits of printf are those of the number of 64 bits.
        let bits = match (style, is_negative) {
            #[expect(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "the bits are shown"
            )]
            (Style::Percents, true) => u128::from(value as u64),
            _ => number,
        };
        let (digits, prefix, is_signed) = match self.kind {
            None | Some('d' | 'i' | 'u' | 'n') => (number.to_string(), "", true),
            Some('x') => (format!("{bits:x}"), "0x", style == Style::Braces),
            Some('X') => (format!("{bits:X}"), "0X", style == Style::Braces),
            Some('o') => (format!("{bits:o}"), "0", style == Style::Braces),
            Some('b') if style == Style::Braces => (format!("{bits:b}"), "0b", true),
            Some('B') if style == Style::Braces => (format!("{bits:b}"), "0B", true),
            Some(kind) => return Err(wrong(kind, "integers")),
        };
        let digits = match self.precision {
            Some(least) => format!("{digits:0>least$}"),
            None => digits,
        };
        let mut sign = self.sign_of(is_negative && is_signed);
        if self.is_alternate {
            sign.push_str(prefix);
        }
        Ok(self.padded(&sign, &self.grouped(&digits), Align::Right))
    }

    fn float(&self, value: f64) -> Result<String, String> {
        let is_upper = self.kind.is_some_and(|kind| kind.is_ascii_uppercase());
        let sign = self.sign_of(value.is_sign_negative() && !value.is_nan());
        let number = value.abs();
        let digits = match self.kind.map(|kind| kind.to_ascii_lowercase()) {
            _ if !value.is_finite() => (if value.is_nan() { "nan" } else { "inf" }).to_owned(),
            None if self.precision.is_none() => shortest(number),
            None | Some('g') => general(number, self.precision.unwrap_or(6), self.is_alternate),
            Some('f') => format!("{number:.*}", self.precision.unwrap_or(6)),
            Some('e') => exponent(number, self.precision.unwrap_or(6)),
            Some(_) => return Err(wrong(self.kind.unwrap_or('?'), "floats")),
        };
        let digits = if is_upper { digits.to_uppercase() } else { digits };
        Ok(self.padded(&sign, &self.grouped(&digits), Align::Right))
    }

    fn sign_of(&self, is_negative: bool) -> String {
        match (is_negative, self.sign) {
            (true, _) => "-".to_owned(),
            (false, Some(sign @ ('+' | ' '))) => sign.to_string(),
            _ => String::new(),
        }
    }

    /// The digits with the separator between groups of three before the point.
    fn grouped(&self, digits: &str) -> String {
        let Some(separator) = self.separator else {
            return digits.to_owned();
        };
        let end = digits
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(digits.len());
        let mut grouped = String::new();
        for (at, digit) in digits[..end].char_indices() {
            if at > 0 && (end - at).is_multiple_of(3) {
                grouped.push(separator);
            }
            grouped.push(digit);
        }
        grouped + &digits[end..]
    }

    /// The value in its field.
    fn padded(&self, sign: &str, text: &str, side: Align) -> String {
        let length = sign.chars().count() + text.chars().count();
        let missing = self.width.saturating_sub(length);
        let is_number = side == Align::Right;
        let is_left = self.align == Some(Align::Left);
        if self.has_zeros && is_number && !is_left && text != "nan" && text != "inf" {
            return format!("{sign}{}{text}", "0".repeat(missing));
        }
        let fill = |count: usize| self.fill.to_string().repeat(count);
        match self.align.unwrap_or(side) {
            Align::Left => format!("{sign}{text}{}", fill(missing)),
            Align::Right => format!("{}{sign}{text}", fill(missing)),
            Align::Center => {
                let before = missing / 2;
                format!("{}{sign}{text}{}", fill(before), fill(missing - before))
            }
            Align::Numeric => format!("{sign}{}{text}", fill(missing)),
        }
    }
}

/// The digits and the exponent of a number in scientific notation.
fn scientific(text: &str) -> (&str, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

/// A number with an exponent of two digits at least: `1.5e+04`.
fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn exponent(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = scientific(&text);
    with_exponent(digits, exponent)
}

/// The fewest digits that are the number, with an exponent if it is very small or large.
fn shortest(number: f64) -> String {
    let text = format!("{number:e}");
    let (digits, exponent) = scientific(&text);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        return with_exponent(digits, exponent);
    }
    let text = format!("{number}");
    match text.contains('.') {
        true => text,
        false => text + ".0",
    }
}

/// A number with `precision` significant digits, without trailing zeros unless `has_zeros`.
fn general(number: f64, precision: usize, has_zeros: bool) -> String {
    let precision = precision.max(1);
    let text = format!("{number:.*e}", precision - 1);
    let (digits, power) = scientific(&text);
    let least = i32::try_from(precision).unwrap_or(i32::MAX);
    let without_zeros = |digits: &str| match has_zeros || !digits.contains('.') {
        true => digits.to_owned(),
        false => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
    };
    if power < -4 || power >= least {
        return with_exponent(&without_zeros(digits), power);
    }
    let places = usize::try_from(least - 1 - power).unwrap_or(0);
    without_zeros(&format!("{number:.places$}"))
}
