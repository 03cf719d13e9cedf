//! `galatea top`: the state of a server in the terminal.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use galatea_server::Monitor;
use galatea_server::feed::Snapshot;

use crate::arguments::{SessionArguments, TopArguments};
use crate::errors::CliError;
use crate::signals;
use crate::top_view::{Screen, view};

/// The pause before a lost connection is opened again.
const RECONNECT: Duration = Duration::from_secs(1);

/// The columns of output that is not a terminal.
const COLUMNS: usize = 160;

/// Another screen of the terminal without a cursor, until it is dropped.
struct Terminal;

impl Terminal {
    fn open() -> Self {
        Self::send("\x1b[?1049h\x1b[?25l");
        Self
    }

    /// Shows lines from the top. The rest of the screen is cleared.
    fn show(lines: &[String], rows: usize) {
        let shown: String = (lines.iter().take(rows.saturating_sub(1)))
            .map(|line| format!("{line}\x1b[K\r\n"))
            .collect();
        Self::send(&format!("\x1b[H{shown}\x1b[J"));
    }

    fn send(text: &str) {
        // A closed terminal ends the program by a signal.
        let mut out = io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        Self::send("\x1b[?25h\x1b[?1049l");
    }
}

pub(crate) async fn run(_session: &SessionArguments, arguments: &TopArguments) -> Result<(), CliError> {
    let credentials = super::connect::credentials(&arguments.login)?;
    let monitor = Monitor::connect(&arguments.server, &credentials).await?;
    if arguments.once || !io::stdout().is_terminal() {
        return once(&monitor, arguments).await;
    }
    // A refusal is printed on the screen of the shell.
    let mut last = monitor.snapshot().await?;
    let _terminal = Terminal::open();
    draw(&last);
    loop {
        tokio::select! {
            () = signals::pressed() => return Ok(()),
            followed = follow(&monitor, &mut last) => followed?,
        }
    }
}

async fn once(monitor: &Monitor, arguments: &TopArguments) -> Result<(), CliError> {
    let snapshot = monitor.snapshot().await?;
    let text = match arguments.json {
        true => serde_json::to_string(&snapshot).map_err(|error| CliError::Other(error.to_string()))? + "\n",
        false => {
            let lines = view(&snapshot, Screen::plain(COLUMNS));
            lines
                .iter()
                .map(|line| format!("{}\n", line.trim_end()))
                .collect()
        }
    };
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Draws each state until the connection is lost, and opens it again.
async fn follow(monitor: &Monitor, last: &mut Snapshot) -> Result<(), CliError> {
    if let Ok(mut events) = monitor.events().await {
        while let Ok(Some(next)) = events.next().await {
            // An event has the history only if it has changed.
            let history = last.history.take();
            *last = next;
            last.history = last.history.take().or(history);
            draw(last);
        }
    }
    Terminal::send("\x1b[H\x1b[Kno connection, trying again");
    tokio::time::sleep(RECONNECT).await;
    Ok(())
}

fn draw(snapshot: &Snapshot) {
    let size = terminal_size::terminal_size_of(io::stdout());
    let (columns, rows) = size.map_or((COLUMNS, 50), |(columns, rows)| (columns.0.into(), rows.0.into()));
    Terminal::show(&view(snapshot, Screen::coloured(columns)), rows);
}
