//! Messages of the engine on standard error: warnings by default, more with `RUST_LOG=galatea=debug`.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The filter if `RUST_LOG` is not set.
const DEFAULT: &str = "galatea=warn";

/// The filter of a server if `RUST_LOG` is not set.
const SERVER: &str = "galatea=info";

/// Starts to show messages. Those of a server have a time, and one line each.
pub(crate) fn start(is_server: bool) {
    let default = if is_server { SERVER } else { DEFAULT };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let messages = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match is_server {
        true => messages.event_format(Logged).init(),
        false => messages.event_format(Plain).init(),
    }
}

/// Formats a message as fields: `2026-11-28T12:00:00.000Z info query user=ann seconds=0.01`. Strings with
/// other characters than those of words are quoted, so that a client cannot forge a line.
struct Logged;

impl<S, N> FormatEvent<S, N> for Logged
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Fields::default();
        event.record(&mut line);
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        writeln!(out, "{now} {level} {}{}", line.message, line.fields)
    }
}

/// The parts of a message of a server.
#[derive(Default)]
struct Fields {
    message: String,
    fields: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:/+".contains(c);
        match value.chars().all(is_word) && !value.is_empty() {
            true => self.fields += &format!(" {}={value}", field.name()),
            false => self.fields += &format!(" {}={value:?}", field.name()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields += &format!(" {}={value:.6}", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.record_str(field, &format!("{value:?}")),
        }
    }
}

/// Formats a message like an error: `warning: a table was not read (file: x.parquet)`.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Line::default();
        event.record(&mut line);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(out, "{level}: {}", line.message)?;
        if !line.fields.is_empty() {
            write!(out, " ({})", line.fields.join(", "))?;
        }
        writeln!(out)
    }
}

/// The parts of a message.
#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<String>,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push(format!("{name}: {value:?}")),
        }
    }
}
