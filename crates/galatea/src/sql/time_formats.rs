//! The formats of `strftime` and `strptime`, and the template patterns of PostgreSQL's `to_char`,
//! `to_timestamp` and `to_date`.
//!
//! Functions of DataFusion read the same letters, but `%f` counts nanoseconds, and a few others are spelled
//! differently:
//!
//! | DuckDB | written | read |
//! | --- | --- | --- |
//! | `%f`, `%g`, `%n`: microseconds, milliseconds, nanoseconds | `%6f`, `%3f`, `%9f` | the same; `%.f` for `.%f` |
//! | `%c`, `%x`, `%X`: date and time, date, time | `%Y-%m-%d %H:%M:%S`, `%Y-%m-%d`, `%H:%M:%S` | the same |
//!
//! A constant format without `%` consists of template patterns: `YYYY-MM-DD HH24:MI:SS` is
//! `%Y-%m-%d %H:%M:%S`.

use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

const WRITTEN: &str = "to_char($1, $2)";
const READ: &str = "to_timestamp($1, $2)";

const READ_DATE: &str = "to_date($1, $2)";

/// The expressions of the functions.
pub(super) const EXPRESSIONS: [&str; 3] = [WRITTEN, READ, READ_DATE];

/// Template patterns and their formats; a pattern without a format has no equivalent. A pattern precedes
/// those that it begins with.
const PATTERNS: &[(&str, Option<&str>)] = &[
    ("HH24", Some("%H")),
    ("HH12", Some("%I")),
    ("HH", Some("%I")),
    ("MI", Some("%M")),
    ("SSSSS", None),
    ("SSSS", None),
    ("SS", Some("%S")),
    ("MS", Some("%3f")),
    ("US", Some("%6f")),
    ("FF3", Some("%3f")),
    ("FF6", Some("%6f")),
    ("FF", None),
    ("A.M.", None),
    ("P.M.", None),
    ("B.C.", None),
    ("A.D.", None),
    ("AM", Some("%p")),
    ("PM", Some("%p")),
    ("BC", None),
    ("AD", None),
    ("Y,YYY", None),
    ("YYYY", Some("%Y")),
    ("YYY", None),
    ("YY", Some("%y")),
    ("IYYY", Some("%G")),
    ("IYY", None),
    ("IY", Some("%g")),
    ("IDDD", None),
    ("ID", Some("%u")),
    ("IW", Some("%V")),
    ("MONTH", Some("%B")),
    ("MON", Some("%b")),
    ("MM", Some("%m")),
    ("DDD", Some("%j")),
    ("DD", Some("%d")),
    ("DAY", Some("%A")),
    ("DY", Some("%a")),
    ("WW", None),
    ("CC", None),
    ("TZH", None),
    ("TZM", None),
    ("TZ", Some("%Z")),
    ("OF", None),
    ("RM", None),
    ("Q", Some("%q")),
    ("D", None),
    ("J", None),
    ("W", None),
    ("Y", None),
];

/// The functions with template patterns, and whether they read strings.
fn with_patterns(function: &str) -> Option<(&'static str, bool)> {
    match function {
        "to_char" => Some((WRITTEN, false)),
        "to_timestamp" => Some((READ, true)),
        "to_date" => Some((READ_DATE, true)),
        _ => None,
    }
}

/// The expression that replaces a call with template patterns, and the translated format; `None` if the
/// format is not a literal, or has no patterns.
pub(super) fn of_patterns(function: &str, format: &Expr) -> Option<(&'static str, String)> {
    let (expression, is_read) = with_patterns(function)?;
    let Expr::Value(format) = format else { return None };
    let format = format.value.clone().into_string()?;
    let translated = in_letters(&format, is_read).ok()?;
    (translated != format).then_some((expression, translated))
}

/// The first template pattern of a call that has no equivalent.
pub(super) fn unsupported(function: &str, call: &Function) -> Option<String> {
    let (_, is_read) = with_patterns(function)?;
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let [
        _,
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(format))),
    ] = list.args.as_slice()
    else {
        return None;
    };
    in_letters(&format.value.clone().into_string()?, is_read).err()
}

/// A format of template patterns in letters after `%`. Formats that have such letters stay as they are.
///
/// # Errors
/// The pattern that has no equivalent.
fn in_letters(format: &str, is_read: bool) -> Result<String, String> {
    // Formats of durations.
    let is_duration = ["pretty", "iso8601"].contains(&&*format.to_ascii_lowercase());
    if format.contains('%') || is_duration {
        return Ok(format.to_owned());
    }
    let mut translated = String::new();
    let mut rest = format;
    while let Some(character) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            translated.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let upper = rest.to_ascii_uppercase();
        let fills = !upper.starts_with("FM");
        let start = if fills { 0 } else { 2 };
        let known = PATTERNS
            .iter()
            .find(|(pattern, _)| upper[start..].starts_with(pattern));
        let Some((pattern, letters)) = known else {
            translated.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        };
        let spelled = &rest[..start + pattern.len()];
        let is_name = ["MONTH", "MON", "DAY", "DY"].contains(pattern);
        // PostgreSQL fills long names with blanks, and writes names in the case of the pattern.
        let is_long = ["MONTH", "DAY"].contains(pattern);
        let is_capitalised = spelled[start + 1..]
            .chars()
            .all(|letter| letter.is_ascii_lowercase())
            && spelled[start..].starts_with(|letter: char| letter.is_ascii_uppercase());
        let is_lost = !is_read && is_name && (!is_capitalised || is_long && fills);
        let letters = letters.filter(|_| !is_lost).ok_or_else(|| spelled.to_owned())?;
        match (*pattern, fills) {
            // A fraction of any number of digits, which has its own point.
            ("MS" | "US" | "FF3" | "FF6", _) if is_read && translated.ends_with('.') => {
                translated.pop();
                translated.push_str("%.f");
            }
            ("AM" | "PM", _) if !is_read && spelled.ends_with('m') => translated.push_str("%P"),
            ("MM" | "DD" | "DDD" | "HH24" | "HH12" | "HH" | "MI" | "SS", false) => {
                translated.extend(["%-", &letters[1..]]);
            }
            _ => translated.push_str(letters),
        }
        rest = &rest[spelled.len()..];
    }
    Ok(translated)
}

/// The expression that replaces `strftime` or `strptime`, and the translated format; none if the format is
/// not a literal.
pub(super) fn rewritten(function: &str, format: &Expr) -> Option<(&'static str, String)> {
    let is_read = match function {
        "strftime" => false,
        "strptime" => true,
        _ => return None,
    };
    let Expr::Value(format) = format else { return None };
    let format = translated(&format.value.clone().into_string()?, is_read);
    Some((if is_read { READ } else { WRITTEN }, format))
}

fn translated(format: &str, is_read: bool) -> String {
    let mut translated = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            translated.push(character);
            continue;
        }
        let Some(letter) = characters.next() else {
            translated.push('%');
            break;
        };
        match letter {
            // A fraction of any number of digits, which has its own point.
            'f' | 'g' | 'n' if is_read && translated.ends_with('.') => {
                translated.pop();
                translated.push_str("%.f");
            }
            'f' => translated.push_str("%6f"),
            'g' => translated.push_str("%3f"),
            'n' => translated.push_str("%9f"),
            'c' => translated.push_str("%Y-%m-%d %H:%M:%S"),
            'x' => translated.push_str("%Y-%m-%d"),
            'X' => translated.push_str("%H:%M:%S"),
            letter => translated.extend(['%', letter]),
        }
    }
    translated
}
