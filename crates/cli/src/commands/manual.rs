//! `galatea completions` and `galatea man`: generated from the description of the arguments.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::errors::CliError;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "galatea", &mut text);
    let _ = io::stdout().write_all(&text);
}

/// Prints the manual page, or writes those of all commands into a directory.
pub(crate) fn man(out: Option<&Path>) -> Result<(), CliError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        |cause| CliError::Written { path, cause }
    };
    match out {
        Some(directory) => {
            fs::create_dir_all(directory).map_err(failed(directory))?;
            // The help of the command leaves these out; their pages exist.
            let shown = ["bench", "policies"]
                .into_iter()
                .fold(Arguments::command(), |command, name| {
                    command.mut_subcommand(name, |hidden| hidden.hide(false))
                });
            clap_mangen::generate_to(shown, directory).map_err(failed(directory))
        }
        None => {
            let mut text = Vec::new();
            let page = clap_mangen::Man::new(Arguments::command());
            page.render(&mut text)
                .map_err(failed(Path::new("standard output")))?;
            let _ = io::stdout().write_all(&text);
            Ok(())
        }
    }
}
