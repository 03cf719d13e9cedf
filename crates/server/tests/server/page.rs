//! The page and its feed over HTTP.

use std::time::{Duration, Instant};

use galatea_server::feed::{Problem, RegionKind, RunState, Snapshot, StatementDetail};
use galatea_server::{Config, Credentials, Monitor, Server};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;

use crate::support::{
    LONG, config, configured, fetch, flight, flight_as, http, query, start, status, until, users,
};

/// A response: the status line with the headers, and the body.
struct Response {
    head: String,
    body: String,
}

impl Response {
    fn code(&self) -> u16 {
        let code = self.head.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no status: {}", self.head))
    }

    fn document<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The kind of an error.
    fn error(&self) -> String {
        self.document::<Problem>().error
    }
}

/// Sends a request with headers, each with its line end.
async fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let host = if headers.contains("Host:") {
        ""
    } else {
        "Host: localhost\r\n"
    };
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n{body}");
    let response = http(server, &request).await;
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    Response {
        head: head.to_string(),
        body: body.to_string(),
    }
}

async fn get(server: &Server, path: &str, headers: &str) -> Response {
    send(server, "GET", path, headers, "").await
}

async fn snapshot(server: &Server) -> Snapshot {
    let response = get(server, "/api/snapshot", "").await;
    assert_eq!(response.code(), 200, "{}", response.body);
    response.document()
}

/// Snapshots until one has the property.
async fn snapshot_with(server: &Server, what: &str, has: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let begun = Instant::now();
    loop {
        let snapshot = snapshot(server).await;
        if has(&snapshot) {
            return snapshot;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not in time: {what}: {snapshot:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn emulated() -> Config {
    let mut emulated = config();
    emulated.settings = vec![("galatea.device".to_string(), "emulated".to_string())];
    emulated
}

#[tokio::test]
async fn running_statements_have_progress_and_can_be_cancelled() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let running = tokio::spawn(async move { status(query(&mut client, LONG).await) });
    let seen = snapshot_with(&server, "rows are read", |snapshot| {
        let progress = snapshot
            .running
            .first()
            .and_then(|running| running.progress.as_ref());
        progress.is_some_and(|progress| progress.done > 0)
    })
    .await;
    let statement = &seen.running[0];
    assert_eq!(
        (statement.user.as_str(), statement.protocol.as_str()),
        ("local", "flight")
    );
    assert_eq!(
        (statement.statement.as_str(), statement.state),
        (LONG, RunState::Running)
    );
    assert!(statement.elapsed > 0.0 && seen.viewer.admin && seen.version == 1);
    let before = statement.progress.as_ref().expect("progress").done;
    let id = statement.id;
    snapshot_with(&server, "more rows are read", |snapshot| {
        let running = snapshot.running.iter().find(|running| running.id == id);
        running
            .and_then(|running| running.progress.as_ref())
            .is_some_and(|progress| progress.done > before)
    })
    .await;
    // The plan of a running statement.
    let detail: StatementDetail = get(&server, &format!("/api/statements/{id}"), "")
        .await
        .document();
    assert_eq!(detail.summary.outcome, "running");
    assert!(
        detail
            .plan
            .expect("a plan")
            .nodes
            .iter()
            .any(|node| node.name == "AggregateExec")
    );

    let cancelled = send(&server, "POST", &format!("/api/statements/{id}/cancel"), "", "").await;
    assert_eq!(
        (cancelled.code(), cancelled.body.as_str()),
        (200, format!("{{\"id\":{id}}}").as_str())
    );
    let (code, message) = running.await.expect("no panic");
    assert_eq!(code, Code::Cancelled);
    assert!(
        message.contains("cancelled on the page of the server by local"),
        "{message}"
    );
    let ended = snapshot_with(&server, "it is in the history", |snapshot| {
        snapshot.running.is_empty()
            && snapshot
                .history
                .as_ref()
                .is_some_and(|history| !history.is_empty())
    })
    .await;
    let past = &ended.history.expect("a history")[0];
    assert_eq!((past.id, past.outcome.as_str(), past.rows), (id, "cancelled", 0));
    assert!(
        past.error
            .as_ref()
            .is_some_and(|error| error.contains("cancelled"))
    );
    let again = send(&server, "POST", &format!("/api/statements/{id}/cancel"), "", "").await;
    assert_eq!((again.code(), again.error().as_str()), (409, "ended"));
    server.stop().await;
}

#[tokio::test]
async fn ended_statements_have_their_plan_and_trace() {
    let server = start(emulated()).await;
    let mut client = flight(&server).await;
    for create in [
        "CREATE TABLE t AS SELECT v % 7 AS k, v FROM generate_series(1, 5000) AS s(v)",
        "CREATE TABLE d AS SELECT v AS k, v * 10 AS x FROM generate_series(0, 4) AS s(v)",
    ] {
        client
            .execute_update(create.to_string(), None)
            .await
            .expect("created");
    }
    let sql =
        "SELECT d.x, count(*) AS n FROM t JOIN d ON t.k = d.k WHERE t.v <= 700 GROUP BY d.x ORDER BY d.x";
    let table = query(&mut client, sql).await.expect("rows");
    // Of 700 rows, each of 7 keys has 100; d has 5 of them.
    assert!(
        table.contains("| 0  | 100 |") && table.contains("| 40 | 100 |"),
        "{table}"
    );
    let seen = snapshot_with(&server, "the query has ended", |snapshot| {
        let last = snapshot.history.iter().flatten().next();
        last.is_some_and(|past| past.statement == sql)
    })
    .await;
    let past = &seen.history.as_ref().expect("a history")[0];
    assert_eq!(
        (past.outcome.as_str(), past.rows, past.device.as_deref()),
        ("done", 5, Some("emulated GPU"))
    );
    assert!(past.device_bytes > 0 && past.elapsed > 0.0 && past.error.is_none());

    let device = &seen.devices[0];
    assert!(device.emulated && device.limit_bytes > 0 && device.used_bytes <= device.limit_bytes);
    let columns: Vec<_> = device
        .regions
        .iter()
        .filter(|region| region.kind == RegionKind::Column)
        .collect();
    let column = columns.iter().find(|region| region.name.as_deref() == Some("v"));
    let column = column.unwrap_or_else(|| panic!("no column: {:?}", device.regions));
    assert!(column.device_bytes > 0 && column.pages.all > 0 && column.uses > 0);
    assert!(device.moved.to_device >= column.bytes && device.moved.memory > 0);

    let detail: StatementDetail = get(&server, &format!("/api/statements/{}", past.id), "")
        .await
        .document();
    assert_eq!(detail.statement, sql);
    assert!(detail.phases.kernel > 0.0);
    let plan = detail.plan.expect("a plan");
    let pipelines: Vec<_> = plan.nodes.iter().filter(|node| node.pipeline).collect();
    assert!(!pipelines.is_empty(), "{plan:?}");
    assert_eq!(plan.edges.len(), plan.nodes.len() - 1, "a tree: {plan:?}");
    assert!(
        plan.edges
            .iter()
            .all(|edge| edge.from < plan.nodes.len() && edge.to < plan.nodes.len())
    );
    let scan = pipelines
        .iter()
        .find(|node| node.run.as_ref().is_some_and(|run| run.rows_scanned == 5000));
    let run = scan
        .and_then(|node| node.run.as_ref())
        .unwrap_or_else(|| panic!("no scan of t: {plan:?}"));
    assert!(run.launches > 0 && run.device_bytes > 0 && run.rows_passed <= 700);
    let (begin, end) = (run.begin.expect("a begin"), run.end.expect("an end"));
    assert!(
        0.0 <= begin && begin <= end && end <= detail.summary.elapsed,
        "{begin} {end}"
    );
    assert!(
        run.spans.iter().any(|span| span.phase == "kernel")
            && run.spans.iter().any(|span| span.phase == "compile")
    );

    let trace: Value = get(&server, &format!("/api/statements/{}/trace", past.id), "")
        .await
        .document();
    let events = trace["traceEvents"].as_array().expect("events");
    let slices = |category: &str| {
        events
            .iter()
            .filter(|event| event["ph"] == "X" && event["cat"] == category)
            .count()
    };
    assert_eq!((slices("statement"), slices("pipelines")), (1, pipelines.len()));
    assert!(
        slices("kernels") > 0 && slices("compilations") > 0 && slices("transfers") > 0,
        "{trace}"
    );
    assert!(
        events
            .iter()
            .filter(|event| event["ph"] == "X")
            .all(|event| event["dur"].as_f64() >= Some(0.0))
    );
    server.stop().await;
}

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
async fn events_arrive_and_slow_readers_delay_nobody() {
    let server = start(config()).await;
    let address = server.http().expect("an address").to_string();
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut socket = tokio::net::TcpStream::connect(&address)
            .await
            .expect("a connection");
        let request = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request).await.expect("sent");
        let mut first = [0; 12];
        socket.read_exact(&mut first).await.expect("a response");
        assert_eq!(&first, b"HTTP/1.1 200");
        slow.push(socket);
    }
    let mut client = flight(&server).await;
    let begun = Instant::now();
    for _ in 0..20 {
        query(&mut client, "SELECT 1").await.expect("a row");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let monitor = Monitor::connect(&address, &Credentials::None)
        .await
        .expect("a connection");
    let mut events = monitor.events().await.expect("a stream");
    let first = events.next().await.expect("an event").expect("an event");
    assert_eq!(first.history.map(|history| history.len()), Some(20));
    let begun = Instant::now();
    let second = events.next().await.expect("an event").expect("an event");
    assert_eq!(second.history, None);
    query(&mut client, "SELECT 2").await.expect("a row");
    let mut with_history = None;
    let mut count = 0;
    while with_history.is_none() {
        count += 1;
        assert!(count < 100, "no event with the new history");
        with_history = events.next().await.expect("an event").expect("an event").history;
    }
    assert_eq!(with_history.expect("a history")[0].statement, "SELECT 2");
    for _ in 0..3 {
        events.next().await.expect("an event").expect("an event");
    }
    // At most about three per second.
    assert!(
        begun.elapsed() > Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
    drop(slow);
    server.stop().await;
}

#[tokio::test]
async fn hostile_and_huge_statements_are_data() {
    let server = start(config()).await;
    let mut client = flight(&server).await;
    let script = "SELECT '<script>alert(1)</script>\u{202e}\u{7}</td>' AS a";
    query(&mut client, script).await.expect("a row");
    let huge = format!("SELECT '{}' AS a", "<b>ä".repeat(200_000));
    query(&mut client, &huge).await.expect("a row");
    let seen = snapshot_with(&server, "both have ended", |snapshot| {
        snapshot
            .history
            .as_ref()
            .is_some_and(|history| history.len() == 2)
    })
    .await;
    let history = seen.history.expect("a history");
    assert!(history[0].shortened && history[0].statement.len() <= 500);
    assert_eq!(
        (history[1].shortened, history[1].statement.as_str()),
        (false, script)
    );
    let detail = get(&server, &format!("/api/statements/{}", history[0].id), "").await;
    assert!(detail.body.len() < 200 << 10, "{}", detail.body.len());
    for path in [
        "/api/snapshot".to_string(),
        format!("/api/statements/{}/trace", history[1].id),
    ] {
        let response = get(&server, &path, "").await;
        let head = response.head.to_ascii_lowercase();
        assert!(
            head.contains("content-type: application/json") && head.contains("nosniff"),
            "{head}"
        );
    }
    // The page has no code beside its files, and writes no markup.
    let page = get(&server, "/", "").await;
    let head = page.head.to_ascii_lowercase();
    assert!(
        head.contains("default-src 'none'; script-src 'self'; style-src 'self'"),
        "{head}"
    );
    assert!(
        head.contains("frame-ancestors 'none'") && !head.contains("unsafe"),
        "{head}"
    );
    assert!(
        !page.body.contains("<style") && !page.body.contains(" style=") && !page.body.contains(" onclick")
    );
    for tag in page.body.split("<script").skip(1) {
        assert!(
            tag.starts_with(" src=\"/") && tag.contains("defer></script>"),
            "{tag}"
        );
    }
    for path in ["/app.js", "/draw.js"] {
        let script = get(&server, path, "").await;
        assert!(script.head.contains("text/javascript"), "{}", script.head);
        for unsafe_call in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ] {
            assert!(!script.body.contains(unsafe_call), "{path}: {unsafe_call}");
        }
    }
    assert!(get(&server, "/style.css", "").await.head.contains("text/css"));
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
