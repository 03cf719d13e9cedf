//! Arguments of experiments that write rows.

use std::path::PathBuf;

use clap::Args;

/// Device and files of experiments that write rows.
#[derive(Debug, Args)]
pub(crate) struct RowArguments {
    /// Run a small version on the emulated device. It shows that everything works; its times mean nothing.
    #[arg(long)]
    pub(crate) emulated: bool,
    /// Write rows into this directory, one file per experiment.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Commit to record, for use outside of a git checkout.
    #[arg(long)]
    pub(crate) commit: Option<String>,
}
