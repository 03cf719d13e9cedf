//! The reason that a remote file is no table. DataFusion's factory returns no table for any failure.

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use object_store::{Error, ObjectStoreExt};

use crate::file_paths::{EXTENSIONS, has_pattern, reads_like_a_file};

/// The reason that a remote file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFileError {
    /// The server has no such file.
    #[error("no such file: '{url}'{}", http(url))]
    Missing {
        /// The address in the query.
        url: String,
    },
    /// The server refuses access.
    #[error(
        "no access to '{url}': {cause}\nhint: credentials of s3:// and gs:// are those of the environment, or options of CREATE EXTERNAL TABLE"
    )]
    Denied {
        /// The address in the query.
        url: String,
        /// The answer of the server.
        cause: String,
    },
    /// The server cannot be reached, or its answer has no meaning.
    #[error("cannot read '{url}': {cause}")]
    Failed {
        /// The address in the query.
        url: String,
        /// The error of the store.
        cause: String,
    },
    /// The name of the file does not show its format.
    #[error("unknown file format: '{url}'\nhint: formats are {}; for another ending use CREATE EXTERNAL TABLE ... STORED AS", EXTENSIONS.join(", "))]
    Format {
        /// The address in the query.
        url: String,
    },
}

/// The status of HTTP servers for a missing file.
fn http(url: &str) -> &'static str {
    match url.starts_with("http") {
        true => " (HTTP status 404, not found)",
        false => "",
    }
}

impl From<RemoteFileError> for DataFusionError {
    fn from(error: RemoteFileError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Requests the size of a file that is no table, and returns the reason as an error. Folders and patterns are
/// not checked.
///
/// # Errors
/// [`RemoteFileError`].
pub(crate) async fn check(url: &str, state: &SessionState) -> Result<()> {
    let Ok(parsed) = ListingTableUrl::parse(url) else {
        return Ok(());
    };
    if parsed.is_collection() || has_pattern(url) {
        return Ok(());
    }
    let Ok(store) = state.runtime_env().object_store(&parsed) else {
        return Ok(());
    };
    let url = url.to_owned();
    let error = match store.head(parsed.prefix()).await {
        Ok(_) if is_known(&url) => return Ok(()),
        Ok(_) => RemoteFileError::Format { url },
        Err(Error::NotFound { .. }) => RemoteFileError::Missing { url },
        Err(Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. }) => {
            RemoteFileError::Denied {
                url,
                cause: source.to_string(),
            }
        }
        Err(cause) => RemoteFileError::Failed {
            url,
            cause: cause.to_string(),
        },
    };
    Err(error.into())
}

/// Whether the last part of the address has the extension of a format.
fn is_known(url: &str) -> bool {
    url.rsplit('/').next().is_some_and(reads_like_a_file)
}
