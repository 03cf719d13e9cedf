//! The statements and files of the command line, in the order of the arguments.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// A part of the work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    /// An argument without a flag: statements, or the name of a file.
    Input(String),
    /// Statements of `-c`.
    Statements(String),
    /// A file of `-f`.
    File(PathBuf),
}

/// All parts of the work, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllWork(pub(crate) Vec<Work>);

/// The parts of each kind.
#[derive(Debug, Clone, Args)]
struct Kinds {
    /// SQL statements to run, files whose rows are shown, or .sql files to run.
    #[arg(value_name = "SQL|FILE")]
    inputs: Vec<String>,
    /// Run these statements and exit. Repeatable. Statements and files run in the order of the arguments.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Run the statements of these files and exit.
    #[arg(short, long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
}

impl AllWork {
    fn of(kinds: Kinds, positions: [Vec<usize>; 3]) -> Self {
        let [inputs, commands, files] = positions;
        let inputs = inputs.into_iter().zip(kinds.inputs.into_iter().map(Work::Input));
        let commands = (commands.into_iter()).zip(kinds.commands.into_iter().map(Work::Statements));
        let files = files.into_iter().zip(kinds.files.into_iter().map(Work::File));
        let mut all: Vec<(usize, Work)> = inputs.chain(commands).chain(files).collect();
        all.sort_by_key(|(position, _)| *position);
        Self(all.into_iter().map(|(_, work)| work).collect())
    }
}

/// The positions of the arguments of each kind.
fn positions(matches: &ArgMatches) -> [Vec<usize>; 3] {
    ["inputs", "commands", "files"].map(|kind| matches.indices_of(kind).into_iter().flatten().collect())
}

impl FromArgMatches for AllWork {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self::of(Kinds::from_arg_matches(matches)?, positions(matches)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        let positions = positions(matches);
        Ok(Self::of(Kinds::from_arg_matches_mut(matches)?, positions))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AllWork {
    fn augment_args(command: Command) -> Command {
        Kinds::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Kinds::augment_args_for_update(command)
    }
}
