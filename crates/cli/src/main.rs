//! `galatea`: SQL over files, on the GPU if one is available.
//!
//! ```text
//! arguments/  the command line, as clap parses it
//! commands/   one file per subcommand, including the prompt
//! session     the session that all of them share
//! shell       runs SQL and commands: from arguments, files, standard input, the prompt
//! script      splits input into statements and backslash commands
//! statements  one statement: plan, run, print, footer
//! plan        from a statement to a plan
//! remote      one statement of galatea connect: run by a server, printed here
//! remote_copy  COPY TO STDOUT of galatea connect
//! destination whether COPY can create its files
//! backslash   the commands of the prompt, with the help of \h (statement_help); dot: those of DuckDB
//! output/     formats, tables fitted to the terminal, the pager
//! progress    bars
//! errors      error messages, with a mark in the statement (caret) and a hint
//! log         warnings of the engine
//! top_view    the lines of galatea top
//! interrupt   Ctrl-C cancels, a second press ends the process (signals)
//! ```
//!
//! Exit codes: 0 success, 1 an error, 2 wrong arguments, 130 cancelled by Ctrl-C.
#![forbid(unsafe_code)]

mod arguments;
mod backslash;
mod commands;
mod completion;
mod destination;
mod dot;
mod errors;
mod file_columns;
mod interrupt;
mod log;
mod output;
mod plan;
mod progress;
mod remote;
mod remote_copy;
mod script;
mod session;
mod shell;
mod signals;
mod statement_help;
mod statements;
mod top_view;
mod version;

use std::io::Write;
use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;

use arguments::{Arguments, Command};
use errors::CliError;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let arguments = Arguments::parse();
    if arguments.version {
        let _ = std::io::stdout().write_all(version::text().as_bytes());
        return;
    }
    log::start(matches!(arguments.command, Some(Command::Serve(_))));
    let code = match start(arguments) {
        Ok(()) => 0,
        Err(error) => {
            errors::report(&error);
            error.exit_code()
        }
    };
    galatea_device::exit_at_once(code)
}

fn start(arguments: Arguments) -> Result<(), CliError> {
    if let Some(path) = &arguments.session.data_path {
        #[expect(
            clippy::disallowed_methods,
            reason = "before any thread starts, and what --data-path is for"
        )]
        std::env::set_current_dir(path).map_err(|cause| CliError::DataPath {
            path: path.clone(),
            cause,
        })?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| CliError::Other(format!("cannot start threads: {cause}")))?;
    let result = runtime.block_on(commands::run(arguments));
    // A thread may still generate data. The process does not wait for it.
    runtime.shutdown_timeout(Duration::from_millis(200));
    interrupt::settle();
    result
}
