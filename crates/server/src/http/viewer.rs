//! The viewer of a request: which role reads the feed.
//!
//! | server | a request has access |
//! | --- | --- |
//! | without users | from loopback, to a host name of loopback, and not through a proxy; as administrator |
//! | with users | with a static token, or with the cookie of a login; by the role of the account |
//!
//! HTTP is not encrypted, so requests of other machines are refused unless `insecure` is set. A web page of
//! another origin cannot read responses, and its POST requests are refused.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN};

use super::logins::{self, Logins};
use super::respond::Refusal;
use crate::feed;
use crate::state::{Account, Shared};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The viewer of a request.
#[derive(Debug, Clone)]
pub(super) struct Viewer {
    pub(super) account: Arc<Account>,
    logged_in: bool,
}

impl Viewer {
    /// The viewer of all requests to a server without users, or of a static token.
    pub(super) fn of(account: Arc<Account>) -> Self {
        Self {
            account,
            logged_in: false,
        }
    }

    /// Whether the viewer reads and cancels the statements of all users.
    pub(super) fn is_admin(&self) -> bool {
        self.account.role.admin
    }

    /// Whether the viewer may read the statements of the account.
    pub(super) fn reads(&self, account: &Arc<Account>) -> bool {
        self.is_admin() || Arc::ptr_eq(&self.account, account)
    }

    /// Whether the viewer may read the names of all columns.
    pub(super) fn reads_names(&self) -> bool {
        self.is_admin() || self.account.role.sees_all()
    }

    /// The viewer in a document.
    pub(super) fn document(&self) -> feed::Viewer {
        feed::Viewer {
            user: self.account.name.clone(),
            admin: self.is_admin(),
            logged_in: self.logged_in,
        }
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The host of `HOST:PORT`.
fn host_of(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    }
}

fn is_loopback_name(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cookie of a login.
pub(super) fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = header(headers, &COOKIE)?;
    let mut cookies = cookies
        .split(';')
        .filter_map(|cookie| cookie.trim().split_once('='));
    cookies
        .find(|(name, _)| *name == logins::COOKIE)
        .map(|(_, value)| value)
}

/// Checks that the peer of a request is this machine, or that others are allowed.
pub(super) fn check_peer(shared: &Shared, peer: SocketAddr) -> Result<(), Refusal> {
    if shared.config.insecure || peer.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Refusal::denied(format!(
        "the page is not encrypted, and {} is another machine\nhint: use an SSH tunnel, or a proxy with TLS on \
         the machine of the server; --insecure allows other machines",
        peer.ip()
    )))
}

/// Checks that a request that changes something is not sent by a web page of another origin.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (origin, header(headers, &HOST)) {
        (Some((_, origin)), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(Refusal::denied(
            "the request is from a web page of another origin",
        )),
    }
}

/// The viewer of a request.
///
/// # Errors
/// No credentials, or wrong ones; a request from elsewhere.
pub(super) async fn viewer(
    shared: &Shared,
    logins: &Logins,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Viewer, Refusal> {
    check_peer(shared, peer)?;
    if let Some(account) = shared.local() {
        check_local(shared, headers)?;
        return Ok(Viewer::of(account));
    }
    if let Some(credentials) = header(headers, &AUTHORIZATION) {
        let token = credentials
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let account = token.and_then(|(_, token)| shared.with_token(token.trim()));
        return match account {
            Some(account) => Ok(Viewer::of(account)),
            None => {
                let _ = shared.refuse_credentials("token").await;
                Err(Refusal::unauthenticated("wrong token"))
            }
        };
    }
    match cookie_of(headers).and_then(|cookie| logins.get(cookie)) {
        Some(account) => Ok(Viewer {
            account,
            logged_in: true,
        }),
        None => Err(Refusal::unauthenticated(
            "this server has users\nhint: log in on the page, or send a static token: Authorization: Bearer TOKEN",
        )),
    }
}

/// Checks a request to a server without users: a name of another machine belongs to a web page that has its
/// name resolve to this one, and a proxy forwards requests of other machines.
fn check_local(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    if shared.config.insecure {
        return Ok(());
    }
    if [FORWARDED, FORWARDED_FOR]
        .iter()
        .any(|name| headers.contains_key(name))
    {
        return Err(Refusal::denied(
            "a server without users refuses requests through a proxy\nhint: configure users",
        ));
    }
    match header(headers, &HOST) {
        Some(host) if is_loopback_name(host_of(host)) => Ok(()),
        host => Err(Refusal::denied(format!(
            "a server without users answers to localhost only, not to '{}'",
            host.unwrap_or_default()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<const N: usize>(headers: [(HeaderName, &'static str); N]) -> HeaderMap {
        let headers = headers.map(|(name, value)| (name, hyper::header::HeaderValue::from_static(value)));
        headers.into_iter().collect()
    }

    #[test]
    fn names_of_loopback_are_recognised() {
        for name in [
            "localhost",
            "LOCALHOST:9090",
            "127.0.0.1:80",
            "127.8.8.8",
            "[::1]:9090",
        ] {
            assert!(is_loopback_name(host_of(name)), "{name}");
        }
        for name in [
            "evil.example:9090",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "[::2]:1",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_loopback_name(host_of(name)), "{name}");
        }
    }

    #[test]
    fn requests_of_other_origins_are_refused() {
        let of = |origin| check_origin(&headers([(ORIGIN, origin), (HOST, "localhost:9090")]));
        assert!(of("http://localhost:9090").is_ok());
        for origin in [
            "http://localhost:9091",
            "https://evil.example",
            "null",
            "http://localhost",
        ] {
            assert!(of(origin).is_err(), "{origin}");
        }
        assert!(check_origin(&headers([(HOST, "a")])).is_ok());
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let cookies = headers([(COOKIE, "a=1; galatea=x=y ;b=2")]);
        assert_eq!(cookie_of(&cookies), Some("x=y"));
        assert_eq!(cookie_of(&headers([(COOKIE, "agalatea=1")])), None);
    }
}
