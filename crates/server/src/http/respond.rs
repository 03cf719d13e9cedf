//! Responses: JSON, errors, files of the page, and their headers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::feed::Problem;

/// The body of a response.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Plain text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// The format of events.
pub(super) const EVENTS: &str = "text/event-stream";

const JSON: &str = "application/json";

/// Scripts, styles and requests of this server only; no frames, no forms that leave it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A response of any type of content.
pub(super) fn response(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    with_body(status, content, Full::new(body.into()).boxed())
}

/// A response with a body that may be a stream.
pub(super) fn with_body(status: StatusCode, content: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, content),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A document.
pub(super) fn json(document: &impl Serialize) -> Response<Body> {
    json_with(StatusCode::OK, document)
}

fn json_with(status: StatusCode, document: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(document) {
        Ok(body) => response(status, JSON, body),
        Err(error) => {
            tracing::error!(target: "galatea::server", %error, "a document of the feed");
            response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "internal error\n")
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    error: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            error,
            message: message.into(),
        }
    }

    /// No credentials, or wrong ones.
    pub(super) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
    }

    /// The client may not do this.
    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "denied", message)
    }

    /// No such path or statement.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The statement has ended.
    pub(super) fn ended(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "ended", message)
    }

    /// A wrong request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// The path has another method.
    pub(super) fn method(allowed: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", allowed)
    }

    /// Too many clients.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    /// The response with the reason as a document.
    pub(super) fn into_response(self) -> Response<Body> {
        let message = match self.status {
            StatusCode::METHOD_NOT_ALLOWED => format!("this path accepts {}", self.message),
            _ => self.message.clone(),
        };
        let mut response = json_with(
            self.status,
            &Problem {
                error: self.error.to_string(),
                message,
            },
        );
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                if let Ok(allowed) = HeaderValue::from_str(&self.message) {
                    headers.insert(ALLOW, allowed);
                }
            }
            _ => {}
        }
        response
    }
}
