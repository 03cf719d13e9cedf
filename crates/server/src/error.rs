//! Errors of the server itself: of its configuration, its certificates and its addresses.

use std::net::SocketAddr;
use std::path::PathBuf;

use datafusion::error::DataFusionError;

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A file of the configuration cannot be read.
    #[error("cannot read '{}': {cause}", path.display())]
    File {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The configuration has a syntax error, an unknown key, or a value of the wrong type.
    #[error("the configuration is wrong: {0}")]
    Syntax(String),
    /// A key of the configuration has a value that the server does not accept.
    #[error("the configuration is wrong: {key}: {problem}")]
    Value {
        /// The key with its tables: `users.ann.password`.
        key: String,
        /// The problem, and the accepted values.
        problem: String,
    },
    /// A folder of tables is a database of Galatea, or contains one.
    #[error(
        "'{}' is a database of Galatea, and galatea serve does not open databases\n\
         hint: write its tables to a folder of files with galatea {} \"COPY t TO 'folder/t.parquet'\", and serve the folder", path.display(), path.display()
    )]
    Database {
        /// The folder of the database.
        path: PathBuf,
    },
    /// The certificate or the key of TLS cannot be used.
    #[error("cannot use the certificate and key of TLS: {0}")]
    Tls(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Clients of other machines would not be authenticated, or would send passwords without encryption.
    #[error(
        "refused to listen on {address}: {problem}\n\
         hint: configure [users] and [tls], listen on 127.0.0.1, or accept the risk with --insecure"
    )]
    Insecure {
        /// The address.
        address: SocketAddr,
        /// The reason of the refusal.
        problem: &'static str,
    },
    /// No address is configured.
    #[error("no address to listen on\nhint: --flight 127.0.0.1:31337 or --postgres 127.0.0.1:5432")]
    Nothing,
    /// A folder of tables cannot be read, or two files have the same table name.
    #[error("cannot use the folder '{}': {problem}", path.display())]
    Folder {
        /// The folder as given.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A password that cannot be hashed.
    #[error("the password cannot be used: {0}")]
    Password(&'static str),
    /// The engine cannot be created, or a table cannot be registered.
    #[error(transparent)]
    Engine(#[from] DataFusionError),
    /// A thread of the server cannot be started, or a listener failed.
    #[error("the server failed: {0}")]
    Failed(String),
}
