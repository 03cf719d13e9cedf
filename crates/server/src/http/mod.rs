//! The HTTP listener: the page with its feed, `/healthz` and `/metrics`.
//!
//! ```text
//! serve      connections                   route     paths
//! viewer     who reads: roles, tokens      logins    cookies
//! snapshot   the state of the server       sampler   events, while somebody listens
//! rates      bandwidths                    respond   responses and errors
//! trace      one statement as a trace      page/     the files of the page
//! ```
//!
//! Everything below `/api` needs a viewer (`viewer.rs`). The other paths contain no statements.

mod logins;
mod rates;
mod respond;
mod route;
mod sampler;
mod serve;
mod snapshot;
mod trace;
mod viewer;

pub(crate) use serve::serve;
