//! Arguments of `galatea serve`, `galatea connect` and `galatea top`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::QueryArguments;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServeArguments {
    /// A helper for the configuration, instead of a server.
    #[command(subcommand)]
    pub(crate) part: Option<PartServe>,
    /// Configuration file (docs/src/guide/server.md). Other arguments take precedence.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of Flight SQL. Without any address: 127.0.0.1:31337.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) flight: Option<SocketAddr>,
    /// Address of the Postgres protocol, such as 127.0.0.1:5432.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) postgres: Option<SocketAddr>,
    /// Address of the page, its feed, /healthz and /metrics, such as 127.0.0.1:9090.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// Folders of tables: the file sales.parquet and the folder sales are the table sales.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// Write the statements to the log.
    #[arg(long)]
    pub(crate) log_statements: bool,
    /// Listen on other addresses than loopback without users or TLS.
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PartServe {
    /// Read a password from standard input, and print its verifier for users.NAME.password.
    HashPassword,
    /// Print a new token for clients, and its hash for tokens.NAME.sha256.
    NewToken,
}

/// The login of a client.
#[derive(Debug, Args)]
pub(crate) struct LoginArguments {
    /// User who logs in.
    #[arg(short, long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// File with the password of the user; - reads a line of standard input.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with a token, instead of a user and a password.
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectArguments {
    /// Server: HOST or HOST:PORT of Flight SQL.
    #[arg(value_name = "HOST")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) login: LoginArguments,
    /// Use TLS, and trust the certificates in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) query: QueryArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Server: HOST or HOST:PORT of its page.
    #[arg(value_name = "HOST", default_value = "127.0.0.1:9090")]
    pub(crate) server: String,
    /// Print the state once, without colours, and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: print the document of the feed (docs/src/reference/feed.md).
    #[arg(long, requires = "once")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) login: LoginArguments,
}
