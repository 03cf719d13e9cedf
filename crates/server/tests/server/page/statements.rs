//! Running and ended statements.

use galatea_server::feed::{RegionKind, RunState, StatementDetail};
use serde_json::Value;
use tonic::Code;

use super::{emulated, get, send, snapshot_with};
use crate::support::{LONG, config, flight, query, start, status};

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
