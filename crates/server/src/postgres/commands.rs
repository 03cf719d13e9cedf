//! Statements that only PostgreSQL has: parameters of a connection, transactions, prepared statements.

use std::collections::{BTreeMap, HashMap};

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::tokens::word;

/// A statement that is not planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// `SET name = value`; `None` is the default value.
    Set(String, Option<String>),
    /// `SHOW name`.
    Show(String),
    /// Resets all parameters: `RESET ALL`, `DISCARD ALL`. The field is the command tag.
    ResetAll(&'static str),
    /// `DEALLOCATE name`; `None` is `ALL`.
    Deallocate(Option<String>),
    /// A statement without an effect; the field is the command tag.
    Nothing(&'static str),
}

/// Parameters with their default values. Other names are settings of the engine, or errors.
const PARAMETERS: [(&str, &str); 37] = [
    ("application_name", ""),
    ("array_nulls", "on"),
    ("backslash_quote", "safe_encoding"),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("jit", "off"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("row_security", "off"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", super::catalog_names::SERVER_VERSION),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("xmloption", "content"),
];

/// Properties of the server that clients read, and that are no parameters.
const PROPERTIES: [(&str, &str); 10] = [
    ("block_size", "8192"),
    ("data_directory_mode", "0700"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_numeric", "C"),
    ("max_connections", "2000"),
    ("max_function_args", "100"),
    ("max_index_keys", "32"),
    ("ssl", "off"),
    ("wal_level", "minimal"),
];

/// Parameters that are properties of the server.
const FIXED: [&str; 8] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "server_encoding",
    "server_version",
    "server_version_num",
    "transaction_isolation",
];

/// Parameters that are reported to the client after a change, with their names in these reports.
const REPORTED: [(&str, &str); 8] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("search_path", "search_path"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("timezone", "TimeZone"),
    ("default_transaction_read_only", "default_transaction_read_only"),
];

/// The name of a parameter in reports to the client; `None` if it is not reported.
pub(super) fn reported(name: &str) -> Option<&'static str> {
    let found = REPORTED.iter().find(|(parameter, _)| *parameter == name);
    found.map(|(_, shown)| *shown)
}

fn is_parameter(name: &str) -> bool {
    PARAMETERS.iter().any(|(parameter, _)| *parameter == name)
}

/// The parameters of a connection.
#[derive(Debug, Default)]
pub(super) struct Parameters(HashMap<String, String>);

impl Parameters {
    /// The value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let default = || PARAMETERS.iter().find(|(parameter, _)| *parameter == name);
        self.0
            .get(name)
            .map(String::as_str)
            .or_else(|| default().map(|(_, value)| *value))
    }

    /// All parameters and properties of the server, in order.
    pub(super) fn all(&self) -> BTreeMap<String, String> {
        let names = PARAMETERS.iter().chain(&PROPERTIES).map(|(name, _)| *name);
        names
            .filter_map(|name| Some((name.to_string(), self.setting(name)?)))
            .collect()
    }

    /// The value of a parameter or of a property of the server.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let property = || PROPERTIES.iter().find(|(property, _)| *property == name);
        let value = self.get(name).or_else(|| property().map(|(_, value)| *value));
        value.map(str::to_string)
    }

    /// Sets a parameter; `None` is its default. Returns the new value.
    ///
    /// # Errors
    /// The parameter cannot be changed, or does not accept the value.
    pub(super) fn set(&mut self, name: &str, value: Option<String>) -> Result<String, String> {
        if FIXED.contains(&name)
            && value
                .as_deref()
                .is_some_and(|value| Some(value) != self.get(name))
        {
            return Err(format!("parameter \"{name}\" cannot be changed"));
        }
        match value {
            Some(mut value) => {
                // Strings are UTF-8 for every client. SQL_ASCII is the encoding of clients without a locale.
                if name == "client_encoding"
                    && matches!(normal(&value).as_str(), "utf8" | "unicode" | "sqlascii")
                {
                    value = "UTF8".to_string();
                }
                let problem = |accepted: &str| {
                    Err(format!(
                        "invalid value for parameter \"{name}\": \"{value}\"\nhint: {accepted}"
                    ))
                };
                match name {
                    "client_encoding" if value != "UTF8" => {
                        return problem("the server sends UTF8");
                    }
                    "standard_conforming_strings" if !is_on(&value) => {
                        return problem("strings follow the standard");
                    }
                    "statement_timeout" if timeout(&value).is_none() => {
                        return problem(
                            "a number of milliseconds, or a number with the unit ms, s, min or h",
                        );
                    }
                    "datestyle" => {
                        let current = self.get(name).unwrap_or_default();
                        match date_style(&value, current) {
                            Some(style) => value = style,
                            None => return problem("dates have the style ISO"),
                        }
                    }
                    "intervalstyle" => {
                        let style = value.to_ascii_lowercase();
                        if !INTERVAL_STYLES.contains(&style.as_str()) {
                            return problem(
                                "the styles are postgres, postgres_verbose, sql_standard, iso_8601",
                            );
                        }
                        value = style;
                    }
                    _ => {}
                }
                self.0.insert(name.to_string(), value);
            }
            None => {
                self.0.remove(name);
            }
        }
        Ok(self.get(name).unwrap_or_default().to_string())
    }

    /// Resets all parameters.
    pub(super) fn reset(&mut self) {
        self.0.clear();
    }

    /// The limit of time that the client set.
    pub(super) fn statement_timeout(&self) -> Option<std::time::Duration> {
        let milliseconds = timeout(self.get("statement_timeout")?)?;
        (milliseconds > 0).then(|| std::time::Duration::from_millis(milliseconds))
    }
}

/// The styles of intervals.
const INTERVAL_STYLES: [&str; 4] = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

/// The style of dates as it is reported, such as `ISO, MDY`; `None` for other styles than ISO.
fn date_style(value: &str, current: &str) -> Option<String> {
    let mut order = current.rsplit(", ").next().unwrap_or("MDY").to_string();
    for part in value.split(',') {
        match part.trim().to_ascii_uppercase().as_str() {
            "ISO" | "DEFAULT" => {}
            "MDY" | "US" | "NONEURO" | "NONEUROPEAN" => order = "MDY".to_string(),
            "DMY" | "EURO" | "EUROPEAN" => order = "DMY".to_string(),
            "YMD" => order = "YMD".to_string(),
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}

/// Letters and digits in lower case: UTF-8 and utf8 are the same encoding.
fn normal(value: &str) -> String {
    let kept = value.chars().filter(char::is_ascii_alphanumeric);
    kept.collect::<String>().to_ascii_lowercase()
}

fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1")
}

/// Milliseconds of a timeout.
fn timeout(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let factor = match value[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let number: u64 = value[..digits].parse().ok()?;
    number.checked_mul(factor).filter(|all| *all <= i32::MAX as u64)
}

/// The tokens of a statement that is not too long to be a command.
fn tokens(statement: &str) -> Option<Vec<Token>> {
    const LONGEST: usize = 4096;
    if statement.len() > LONGEST {
        return None;
    }
    let tokens = Tokenizer::new(&GenericDialect {}, statement).tokenize().ok()?;
    let significant = tokens
        .into_iter()
        .filter(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon | Token::EOF));
    Some(significant.collect())
}

/// The value of an assignment: tokens without their quotes.
fn value(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Word(word) => text += &word.value,
            Token::SingleQuotedString(value) | Token::DoubleQuotedString(value) => text += value,
            Token::Comma => text += ", ",
            other => text += &other.to_string(),
        }
    }
    text
}

/// The command of a statement; `None` if it has to be planned.
pub(super) fn command(statement: &str) -> Option<Command> {
    let tokens = tokens(statement)?;
    let words: Vec<String> = tokens.iter().take(4).map(word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SET", "TIME", "ZONE", ..] => Some(assignment("timezone", &tokens[3..])),
        ["SET", "SESSION" | "LOCAL", "TIME", "ZONE"] => Some(assignment("timezone", &tokens[4..])),
        ["SET", "NAMES", ..] => Some(assignment("client_encoding", &tokens[2..])),
        ["SET", "TRANSACTION", ..] | ["SET", "SESSION", "CHARACTERISTICS", ..] => {
            Some(Command::Nothing("SET"))
        }
        ["SET", "SESSION" | "LOCAL", ..] => set(&tokens[2..]),
        ["SET", ..] => set(&tokens[1..]),
        ["SHOW", "TRANSACTION", "ISOLATION", "LEVEL"] => {
            Some(Command::Show("transaction_isolation".to_string()))
        }
        ["SHOW", "TIME", "ZONE"] => Some(Command::Show("timezone".to_string())),
        ["SHOW", name] => parameter(name).map(Command::Show),
        ["RESET", "ALL"] => Some(Command::ResetAll("RESET")),
        ["RESET", name] => parameter(name).map(|name| Command::Set(name, None)),
        ["DISCARD", "ALL"] => Some(Command::ResetAll("DISCARD ALL")),
        ["DISCARD", ..] => Some(Command::Nothing("DISCARD")),
        ["UNLISTEN", ..] => Some(Command::Nothing("UNLISTEN")),
        ["DEALLOCATE", "ALL"] | ["DEALLOCATE", "PREPARE", "ALL"] => Some(Command::Deallocate(None)),
        ["DEALLOCATE", "PREPARE", ..] => Some(Command::Deallocate(Some(value(&tokens[2..])))),
        ["DEALLOCATE", ..] => Some(Command::Deallocate(Some(value(&tokens[1..])))),
        _ => None,
    }
}

/// The name of a parameter in lower case, if it is one.
fn parameter(name: &str) -> Option<String> {
    Some(name.to_ascii_lowercase()).filter(|name| is_parameter(name))
}

/// `name = value` or `name TO value`, if the name is one of a parameter.
fn set(tokens: &[Token]) -> Option<Command> {
    let [name, sign, rest @ ..] = tokens else {
        return None;
    };
    let name = parameter(&value(std::slice::from_ref(name)))?;
    (*sign == Token::Eq || word(sign) == "TO").then(|| assignment(&name, rest))
}

fn assignment(name: &str, tokens: &[Token]) -> Command {
    let is_default = match tokens {
        [token] => word(token) == "DEFAULT" || (name == "timezone" && word(token) == "LOCAL"),
        _ => false,
    };
    let value = (!is_default).then(|| value(tokens));
    Command::Set(name.to_string(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_to(name: &str, value: &str) -> Option<Command> {
        Some(Command::Set(name.to_string(), Some(value.to_string())))
    }

    #[test]
    fn commands_are_recognised() {
        assert_eq!(
            command("SET extra_float_digits = 3"),
            set_to("extra_float_digits", "3")
        );
        assert_eq!(
            command("set DateStyle TO 'ISO, DMY';"),
            set_to("datestyle", "ISO, DMY")
        );
        assert_eq!(
            command("SET search_path = a, \"$user\""),
            set_to("search_path", "a, $user")
        );
        assert_eq!(
            command("SET SESSION application_name = 'a'"),
            set_to("application_name", "a")
        );
        assert_eq!(command("SET TIME ZONE 'UTC'"), set_to("timezone", "UTC"));
        assert_eq!(command("SET NAMES 'UTF8'"), set_to("client_encoding", "UTF8"));
        assert_eq!(
            command("SET jit TO DEFAULT"),
            Some(Command::Set("jit".to_string(), None))
        );
        assert_eq!(
            command("SHOW transaction isolation level"),
            Some(Command::Show("transaction_isolation".to_string()))
        );
        assert_eq!(
            command("DEALLOCATE \"a b\""),
            Some(Command::Deallocate(Some("a b".to_string())))
        );
        assert_eq!(command("DISCARD ALL"), Some(Command::ResetAll("DISCARD ALL")));
        for planned in [
            "SET galatea.device = 'cpu'",
            "SHOW TABLES",
            "SHOW galatea.device",
            "SELECT 1",
            "SET a",
            "RESET b",
        ] {
            assert_eq!(command(planned), None, "{planned}");
        }
    }

    #[test]
    fn parameters_have_defaults_and_checks() {
        let mut parameters = Parameters::default();
        assert_eq!(parameters.get("timezone"), Some("UTC"));
        assert_eq!(parameters.get("colour"), None);
        assert_eq!(
            parameters.set("timezone", Some("CET".to_string())),
            Ok("CET".to_string())
        );
        assert_eq!(parameters.set("timezone", None), Ok("UTC".to_string()));
        assert!(parameters.set("server_version", Some("9".to_string())).is_err());
        for (value, expected) in [
            ("iso", "ISO, MDY"),
            ("ISO, DMY", "ISO, DMY"),
            ("iso", "ISO, DMY"),
            ("ymd", "ISO, YMD"),
        ] {
            let set = parameters.set("datestyle", Some(value.to_string()));
            assert_eq!(set.as_deref(), Ok(expected));
        }
        assert!(parameters.set("datestyle", Some("German".to_string())).is_err());
        assert!(
            parameters
                .set("client_encoding", Some("LATIN1".to_string()))
                .is_err()
        );
        assert!(
            parameters
                .set("client_encoding", Some("UTF-8".to_string()))
                .is_ok()
        );
        assert!(
            parameters
                .set("statement_timeout", Some("soon".to_string()))
                .is_err()
        );
        assert_eq!(parameters.statement_timeout(), None);
        parameters
            .set("statement_timeout", Some("2s".to_string()))
            .unwrap();
        assert_eq!(
            parameters.statement_timeout(),
            Some(std::time::Duration::from_secs(2))
        );
        parameters.reset();
        assert_eq!(parameters.statement_timeout(), None);
    }
}
