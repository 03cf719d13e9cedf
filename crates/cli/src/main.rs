//! `galatea`: SQL over files, on the GPU where there is one.
//!
//! ```text
//! arguments   what was typed, as clap reads it
//! session     the session that -c, -f and the prompt share
//! statements  one statement: run, print, footer
//! commands/   one file per subcommand
//! errors      every error as a person reads it: error, then hint
//! interrupt   Ctrl-C cancels, a second one leaves
//! ```
//!
//! Exit codes: 0 success, 1 an error, 2 wrong arguments, 130 cancelled by Ctrl-C.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod completion;
mod errors;
mod interrupt;
mod progress;
mod session;
mod statements;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;

use arguments::Arguments;
use errors::CliError;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // RUST_LOG=galatea=debug shows what happens; nothing is shown by default.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errors::report(&error);
            ExitCode::from(error.exit_code())
        }
    }
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
    // A cancelled query may still hold a thread; it must not hold the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}
