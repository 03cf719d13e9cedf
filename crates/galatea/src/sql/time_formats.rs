//! The formats of `strftime` and `strptime`.
//!
//! Functions of DataFusion read the same letters, but `%f` counts nanoseconds, and a few others are spelled
//! differently:
//!
//! | DuckDB | written | read |
//! | --- | --- | --- |
//! | `%f`, `%g`, `%n`: microseconds, milliseconds, nanoseconds | `%6f`, `%3f`, `%9f` | the same; `%.f` for `.%f` |
//! | `%c`, `%x`, `%X`: date and time, date, time | `%Y-%m-%d %H:%M:%S`, `%Y-%m-%d`, `%H:%M:%S` | the same |

use datafusion::sql::sqlparser::ast::Expr;

const WRITTEN: &str = "to_char($1, $2)";
const READ: &str = "to_timestamp($1, $2)";

/// The expressions of the functions.
pub(super) const EXPRESSIONS: [&str; 2] = [WRITTEN, READ];

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
