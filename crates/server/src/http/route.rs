//! The paths of the listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::logins::Logins;
use super::respond::{Body, EVENTS, Refusal, TEXT, json, response, with_body};
use super::sampler::Sampler;
use super::trace::trace;
use super::viewer::{self, Viewer};
use crate::activity::{Past, Statement};
use crate::failure::{ErrorKind, Failure, FailureKind};
use crate::feed::{Cancelled, StatementDetail};
use crate::recorder;
use crate::state::{Shared, Ticket};

/// The maximum size of the body of a request, in bytes.
const REQUEST: usize = 8 << 10;

/// The maximum time until the body has arrived.
const TIME: Duration = Duration::from_secs(10);

/// A proxy on this machine sets this header if its client uses TLS.
const FORWARDED_PROTOCOL: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The files of the page.
const FILES: [(&str, &str, &str); 5] = [
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("page/style.css"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_str!("page/app.js"),
    ),
    (
        "/draw.js",
        "text/javascript; charset=utf-8",
        include_str!("page/draw.js"),
    ),
];

/// The state of the listener.
#[derive(Debug)]
pub(super) struct Web {
    pub(super) shared: Arc<Shared>,
    logins: Logins,
    sampler: Arc<Sampler>,
}

/// A statement that a path names.
enum Found {
    Running(Arc<Ticket>),
    Ended(Arc<Past>),
}

/// The body of a login.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Credentials {
    Token { token: String },
    Password { user: String, password: String },
}

impl Web {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            logins: Logins::default(),
            sampler: Sampler::new(&shared),
            shared,
        }
    }

    /// The response to a request of `peer`. `streams` is set if it has no end.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        streams: &AtomicBool,
    ) -> Result<Response<Body>, Infallible> {
        let response = self.route(request, peer, streams).await;
        Ok(response.unwrap_or_else(Refusal::into_response))
    }

    async fn route(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        streams: &AtomicBool,
    ) -> Result<Response<Body>, Refusal> {
        let path = request.uri().path().to_string();
        if let Some(rest) = path.strip_prefix("/api/") {
            return self.api(rest, request, peer, streams).await;
        }
        let only_get = || match *request.method() {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(Refusal::method("GET")),
        };
        let (status, content, body) = match path.as_str() {
            "/healthz" if self.shared.is_stopping() => {
                (StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n".to_string())
            }
            "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_string()),
            "/metrics" => match recorder::render() {
                Some(metrics) => (
                    StatusCode::OK,
                    "text/plain; version=0.0.4; charset=utf-8",
                    metrics,
                ),
                None => {
                    let message = "the process has another recorder of metrics\n";
                    (StatusCode::SERVICE_UNAVAILABLE, TEXT, message.to_string())
                }
            },
            path => {
                let file = FILES.iter().find(|(name, ..)| *name == path);
                let (_, content, text) = file.ok_or_else(|| {
                    Refusal::not_found("paths are /, /api/snapshot, /api/events, /healthz and /metrics")
                })?;
                only_get()?;
                return Ok(response(StatusCode::OK, content, *text));
            }
        };
        only_get()?;
        Ok(response(status, content, body))
    }

    async fn api(
        &self,
        path: &str,
        request: Request<Incoming>,
        peer: SocketAddr,
        streams: &AtomicBool,
    ) -> Result<Response<Body>, Refusal> {
        let parts: Vec<&str> = path.split('/').collect();
        let allowed = match parts.as_slice() {
            ["login" | "logout"] | ["statements", _, "cancel"] => Method::POST,
            ["snapshot" | "events"] | ["statements", _] | ["statements", _, "trace"] => Method::GET,
            _ => return Err(Refusal::not_found(format!("no path /api/{path}"))),
        };
        if request.method() != allowed {
            return Err(Refusal::method(if allowed == Method::GET {
                "GET"
            } else {
                "POST"
            }));
        }
        if allowed == Method::POST {
            viewer::check_origin(request.headers())?;
        }
        if parts == ["login"] {
            return self.login(request, peer).await;
        }
        let viewer = viewer::viewer(&self.shared, &self.logins, peer, request.headers()).await?;
        match parts.as_slice() {
            ["logout"] => Ok(self.logout(request.headers())),
            ["snapshot"] => Ok(json(&self.sampler.now().document(&self.shared, &viewer, true))),
            ["events"] => {
                let events = self.sampler.events(viewer)?;
                streams.store(true, Ordering::Relaxed);
                Ok(with_body(StatusCode::OK, EVENTS, StreamBody::new(events).boxed()))
            }
            ["statements", id] => Ok(json(&self.detail(id, &viewer)?)),
            ["statements", id, "trace"] => Ok(json(&trace(&self.detail(id, &viewer)?))),
            ["statements", id, "cancel"] => self.cancel(id, &viewer),
            _ => Err(Refusal::not_found(format!("no path /api/{path}"))),
        }
    }

    /// The statement of this number, if the viewer may read it.
    fn find(&self, id: &str, viewer: &Viewer) -> Result<Found, Refusal> {
        let number: u64 = id.parse().map_err(|_| {
            Refusal::invalid(format!(
                "'{}' is not the number of a statement",
                id.escape_default()
            ))
        })?;
        let absent = || {
            Refusal::not_found(format!(
                "statement {number} does not run, and is not in the history"
            ))
        };
        if let Some(ticket) = self.shared.ticket(number)
            && let Some(statement) = &ticket.statement
            && !statement.has_ended()
        {
            let reads = viewer.reads(&statement.account);
            return reads
                .then(|| Found::Running(Arc::clone(&ticket)))
                .ok_or_else(absent);
        }
        let past = self.shared.history.get(number).ok_or_else(absent)?;
        match viewer.reads(&past.account) {
            true => Ok(Found::Ended(past)),
            false => Err(absent()),
        }
    }

    fn detail(&self, id: &str, viewer: &Viewer) -> Result<StatementDetail, Refusal> {
        let ticket = match self.find(id, viewer)? {
            Found::Running(ticket) => ticket,
            Found::Ended(past) => return Ok(past.detail.clone()),
        };
        let running = ticket.statement.as_ref().map(Statement::detail);
        // It may have ended meanwhile, and then its plan is in the history only.
        match (self.shared.history.get(ticket.number), running) {
            (Some(past), _) => Ok(past.detail.clone()),
            (None, Some(detail)) => Ok(detail),
            (None, None) => Err(Refusal::not_found(format!("statement {id} has no record"))),
        }
    }

    fn cancel(&self, id: &str, viewer: &Viewer) -> Result<Response<Body>, Refusal> {
        match self.find(id, viewer)? {
            Found::Running(ticket) => {
                let by = &viewer.account.name;
                tracing::info!(target: "galatea::server", user = by, statement = ticket.number, "cancelled on the page");
                let message = format!("the query was cancelled on the page of the server by {by}");
                ticket.stop(Failure::new(FailureKind::Query(ErrorKind::Cancelled), message));
                Ok(json(&Cancelled { id: ticket.number }))
            }
            Found::Ended(past) => Err(Refusal::ended(format!(
                "statement {} has ended: {}",
                past.detail.summary.id, past.detail.summary.outcome
            ))),
        }
    }

    /// Sets the cookie of a browser.
    async fn login(&self, request: Request<Incoming>, peer: SocketAddr) -> Result<Response<Body>, Refusal> {
        viewer::check_peer(&self.shared, peer)?;
        if self.shared.local().is_some() {
            return Err(Refusal::invalid("this server has no users"));
        }
        let is_encrypted =
            (request.headers().get(FORWARDED_PROTOCOL)).is_some_and(|protocol| protocol == "https");
        let body = timeout(TIME, Limited::new(request.into_body(), REQUEST).collect()).await;
        let body = body.map_err(|_| Refusal::invalid("the body did not arrive in time"))?;
        let body = body.map_err(|_| Refusal::invalid(format!("the body has at most {REQUEST} bytes")))?;
        let credentials = serde_json::from_slice(&body.to_bytes())
            .map_err(|_| Refusal::invalid("expected {\"token\": ..} or {\"user\": .., \"password\": ..}"))?;
        let account = match credentials {
            Credentials::Token { token } => match self.shared.with_token(token.trim()) {
                Some(account) => Ok(account),
                None => Err(self.shared.refuse_credentials("token").await),
            },
            Credentials::Password { user, password } => self.shared.authenticate(&user, &password).await,
        };
        let account = account.map_err(|_| Refusal::unauthenticated("wrong credentials"))?;
        let cookie =
            (self.logins.add(&account, is_encrypted)).map_err(|error| Refusal::busy(error.to_string()))?;
        Ok(with_cookie(json(&json!({ "user": account.name })), &cookie))
    }

    fn logout(&self, headers: &HeaderMap) -> Response<Body> {
        let cookie = self.logins.end(viewer::cookie_of(headers).unwrap_or_default());
        with_cookie(json(&json!({})), &cookie)
    }
}

fn with_cookie(mut response: Response<Body>, cookie: &str) -> Response<Body> {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
