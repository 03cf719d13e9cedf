//! Values of options.

use std::time::Duration;

use adbc_core::error::Result;
use adbc_core::options::OptionValue;

use crate::failure::{invalid, not_found, unsupported};

/// An option of databases, connections and statements: whether results and schemas have string and binary
/// views (`true`, the default), or strings and binaries (`false`), which need a copy of these columns.
pub const STRING_VIEWS: &str = "adbc.galatea.string_views";

/// An option of databases, connections and statements: the limit of time of a statement in seconds, from its
/// start to its last batch; 0, the default, is no limit.
pub const TIMEOUT: &str = "adbc.galatea.timeout_seconds";

/// Options of statements that databases and connections hand down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preferences {
    pub(crate) string_views: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            string_views: true,
            timeout: None,
        }
    }
}

impl Preferences {
    /// Sets an option. Returns whether it is one of these.
    ///
    /// # Errors
    /// A wrong value.
    pub(crate) fn set(&mut self, key: &str, value: &OptionValue) -> Result<bool> {
        match key {
            STRING_VIEWS => self.string_views = truth(key, value)?,
            TIMEOUT => self.timeout = seconds(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The value of an option.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        match key {
            STRING_VIEWS => Some(self.string_views.to_string()),
            TIMEOUT => Some(self.timeout.unwrap_or_default().as_secs_f64().to_string()),
            _ => None,
        }
    }
}

/// Whether a key is the name of a setting.
pub(crate) fn is_setting(key: &str) -> bool {
    key.starts_with("galatea.") || key.starts_with("datafusion.")
}

/// A value as a string, as settings are written.
pub(crate) fn text(key: &str, value: &OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text.clone()),
        OptionValue::Int(number) => Ok(number.to_string()),
        OptionValue::Double(number) => Ok(number.to_string()),
        OptionValue::Bytes(bytes) => String::from_utf8(bytes.clone())
            .map_err(|_| invalid(format!("the value of the option {key} is not UTF-8"))),
        _ => Err(invalid(format!(
            "the option {key} cannot have a value of this type"
        ))),
    }
}

/// `true` or `false`.
pub(crate) fn truth(key: &str, value: &OptionValue) -> Result<bool> {
    match text(key, value)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(invalid(format!(
            "the option {key} is true or false, not '{other}'"
        ))),
    }
}

fn seconds(value: &OptionValue) -> Result<Option<Duration>> {
    let text = text(TIMEOUT, value)?;
    let seconds = text.trim().parse().ok().map(Duration::try_from_secs_f64);
    match seconds {
        Some(Ok(Duration::ZERO)) => Ok(None),
        Some(Ok(limit)) => Ok(Some(limit)),
        _ => Err(invalid(format!(
            "the option {TIMEOUT} is a number of seconds, not '{text}'"
        ))),
    }
}

/// The error for an option that cannot be set.
pub(crate) fn unknown(of: &str, key: &str) -> adbc_core::error::Error {
    unsupported(format!("a {of} has no option {key} that can be set"))
}

/// The error for an option without a value.
pub(crate) fn no_value(of: &str, key: &str) -> adbc_core::error::Error {
    not_found(format!("the {of} has no option {key}"))
}

/// A number that an option has.
pub(crate) fn number<N: std::str::FromStr>(key: &str, text: &str) -> Result<N> {
    text.parse().map_err(|_| {
        invalid(format!(
            "the option {key} has the value '{text}', not such a number"
        ))
    })
}
