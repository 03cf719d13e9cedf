//! Roles, logins, and refused requests.

use galatea_server::feed::Snapshot;
use galatea_server::{Credentials, Monitor};
use tonic::Code;

use super::{Response, get, send};
use crate::support::{LONG, config, configured, fetch, flight_as, query, start, status, until, users};

#[tokio::test]
async fn wrong_requests_are_refused_with_a_document() {
    let server = start(config()).await;
    for (method, path, code, error) in [
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/api/statements/999999", 404, "not_found"),
        ("GET", "/api/statements/x", 400, "invalid"),
        ("GET", "/api/statements/-1/trace", 400, "invalid"),
        ("POST", "/api/statements/999999/cancel", 404, "not_found"),
        ("GET", "/api/statements/1/cancel", 405, "method"),
        ("POST", "/api/snapshot", 405, "method"),
        ("POST", "/", 405, "method"),
        ("POST", "/api/login", 400, "invalid"),
    ] {
        let response = send(&server, method, path, "", "").await;
        assert_eq!(
            (response.code(), response.error().as_str()),
            (code, error),
            "{method} {path}"
        );
    }
    // A server without users answers to web pages and programs of this machine only.
    for headers in [
        "Host: evil.example\r\n",
        "Host: evil.example:9090\r\n",
        "Host: localhost\r\nX-Forwarded-For: 10.0.0.1\r\n",
        "Host: localhost\r\nForwarded: for=10.0.0.1\r\n",
    ] {
        let response = get(&server, "/api/snapshot", headers).await;
        assert_eq!(
            (response.code(), response.error().as_str()),
            (403, "denied"),
            "{headers}"
        );
    }
    let foreign = send(
        &server,
        "POST",
        "/api/statements/1/cancel",
        "Origin: https://evil.example\r\n",
        "",
    )
    .await;
    assert_eq!(foreign.code(), 403);
    let own = send(
        &server,
        "POST",
        "/api/statements/1/cancel",
        "Origin: http://localhost\r\n",
        "",
    )
    .await;
    assert_eq!(own.code(), 404);
    server.stop().await;
}

#[tokio::test]
async fn roles_decide_who_reads_and_cancels() {
    let tables = "tables = ['*']";
    let text = users("tables = ['none']", &format!("{tables}\nadmin = true"));
    let server = start(configured(&text)).await;
    let (mut ann, mut bob) = (flight_as(&server, "ann").await, flight_as(&server, "bob").await);
    let of_ann = tokio::spawn(async move { status(query(&mut ann, LONG).await) });
    let of_bob = tokio::spawn(async move { status(query(&mut bob, LONG).await) });
    until("both queries run", || server.running() == 2).await;

    let none = get(&server, "/api/snapshot", "").await;
    assert_eq!((none.code(), none.error().as_str()), (401, "unauthenticated"));
    assert!(
        none.head
            .to_ascii_lowercase()
            .contains("www-authenticate: bearer"),
        "{}",
        none.head
    );
    for headers in [
        "Authorization: Bearer wrong\r\n",
        "Authorization: t0ken\r\n",
        "Cookie: galatea=wrong\r\n",
    ] {
        assert_eq!(
            get(&server, "/api/snapshot", headers).await.code(),
            401,
            "{headers}"
        );
    }
    assert_eq!(get(&server, "/api/events", "").await.code(), 401);
    // The page, health and metrics contain no statements.
    assert_eq!(get(&server, "/", "").await.code(), 200);
    assert!(
        !get(&server, "/metrics", "")
            .await
            .body
            .contains("generate_series")
    );

    let log_in = |body: &'static str| send(&server, "POST", "/api/login", "", body);
    for body in [
        "{\"user\":\"ann\",\"password\":\"secret-bob\"}",
        "{\"token\":\"\"}",
        "{\"user\":\"eve\",\"password\":\"x\"}",
    ] {
        assert_eq!(log_in(body).await.code(), 401, "{body}");
    }
    for body in ["", "{}", "[]", "{\"user\":\"ann\"}"] {
        assert_eq!(log_in(body).await.code(), 400, "{body}");
    }
    let cookie = |response: &Response| {
        let line = response
            .head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("set-cookie:"));
        let value = line.and_then(|line| line.split_once(": ")).expect("a cookie").1;
        assert!(
            value.contains("HttpOnly") && value.contains("SameSite=Strict"),
            "{value}"
        );
        format!("Cookie: {}\r\n", value.split(';').next().expect("a cookie"))
    };
    let ann_in = log_in("{\"user\":\"ann\",\"password\":\"secret-ann\"}").await;
    let bob_in = log_in("{\"user\":\"bob\",\"password\":\"secret-bob\"}").await;
    let (ann, bob) = (cookie(&ann_in), cookie(&bob_in));

    let seen: Snapshot = get(&server, "/api/snapshot", &ann).await.document();
    let names: Vec<_> = seen.running.iter().map(|running| running.user.as_str()).collect();
    assert_eq!((names, seen.hidden), (vec!["ann"], 1));
    assert!(!seen.viewer.admin && seen.viewer.logged_in);
    let all: Snapshot = get(&server, "/api/snapshot", &bob).await.document();
    assert_eq!((all.running.len(), all.hidden), (2, 0));
    // A token of the same role is another account.
    let token: Snapshot = get(&server, "/api/snapshot", "Authorization: Bearer t0ken\r\n")
        .await
        .document();
    assert_eq!(
        (token.running.len(), token.hidden, token.viewer.user.as_str()),
        (0, 2, "t")
    );

    let id = |user: &str| {
        all.running
            .iter()
            .find(|running| running.user == user)
            .expect("a statement")
            .id
    };
    let path = |user: &str| format!("/api/statements/{}/cancel", id(user));
    assert_eq!(send(&server, "POST", &path("bob"), &ann, "").await.code(), 404);
    assert_eq!(
        get(&server, &format!("/api/statements/{}", id("bob")), &ann)
            .await
            .code(),
        404
    );
    assert_eq!(server.running(), 2);
    assert_eq!(send(&server, "POST", &path("ann"), &ann, "").await.code(), 200);
    assert_eq!(of_ann.await.expect("no panic").0, Code::Cancelled);
    assert_eq!(send(&server, "POST", &path("bob"), &bob, "").await.code(), 200);
    assert!(of_bob.await.expect("no panic").1.contains("by bob"));
    until("both have ended", || server.running() == 0).await;
    let seen: Snapshot = get(&server, "/api/snapshot", &ann).await.document();
    assert!(
        seen.history
            .expect("a history")
            .iter()
            .all(|past| past.user == "ann")
    );

    let out = send(&server, "POST", "/api/logout", &ann, "").await;
    assert!(
        out.code() == 200 && out.head.contains("Max-Age=0"),
        "{}",
        out.head
    );
    assert_eq!(get(&server, "/api/snapshot", &ann).await.code(), 401);
    server.stop().await;
}

#[tokio::test]
async fn monitors_read_and_cancel() {
    let text = users("tables = ['*']", "tables = ['*']\nadmin = true");
    let server = start(configured(&text)).await;
    let address = server.http().expect("an address").to_string();
    let refused = Monitor::connect(&address, &Credentials::None)
        .await
        .expect("an address");
    let message = refused.snapshot().await.expect_err("refused").to_string();
    assert!(message.contains("this server has users"), "{message}");
    let password = Credentials::Password {
        user: "bob".to_string(),
        password: "secret-bob".to_string(),
    };
    let bob = Monitor::connect(&address, &password).await.expect("a login");
    let token = Monitor::connect(&address, &Credentials::Token("t0ken".to_string()))
        .await
        .expect("a token");
    assert_eq!(token.snapshot().await.expect("a state").viewer.user, "t");
    let mut client = flight_as(&server, "ann").await;
    let info = client.execute(LONG.to_string(), None).await.expect("planned");
    let running = tokio::spawn(async move { fetch(&mut client, info).await.map(drop) });
    until("the query runs", || server.running() == 1).await;
    let id = bob.snapshot().await.expect("a state").running[0].id;
    assert!(token.cancel(id).await.is_err());
    bob.cancel(id).await.expect("cancelled");
    assert_eq!(status(running.await.expect("no panic")).0, Code::Cancelled);
    let wrong = Credentials::Password {
        user: "bob".to_string(),
        password: "x".to_string(),
    };
    assert!(Monitor::connect(&address, &wrong).await.is_err());
    assert!(Monitor::connect("a b", &Credentials::None).await.is_err());
    server.stop().await;
}
