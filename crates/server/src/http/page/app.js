"use strict";
// The page: reads the feed of /api and shows it. The version of the feed is 1 (docs/src/reference/feed.md).

const $ = (id) => document.getElementById(id);
const page = { events: null, chosen: null, history: [], skew: 0 };

function status(text, kind) {
  $("connection").textContent = text;
  $("connection").className = kind;
}

/** A request; the document, or an error with the message of the server. */
async function request(path, options = {}) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const document = await response.json();
  if (!response.ok) throw Object.assign(new Error(document.message), { code: response.status });
  return document;
}

const wait = (time) => new Promise((done) => setTimeout(done, time));

/** Reads the state once, then the events. A refusal shows the login or the reason. */
async function connect() {
  if (page.events || document.hidden) return;
  try {
    show(await request("/api/snapshot"));
  } catch (problem) {
    if (problem.code === 401) {
      $("content").hidden = true;
      $("login").hidden = false;
      return status("not logged in", "lost");
    }
    status(problem.code ? problem.message : "no connection", "lost");
    await wait(2000);
    return connect();
  }
  $("login").hidden = true;
  $("content").hidden = false;
  const events = new EventSource("/api/events");
  page.events = events;
  events.addEventListener("snapshot", (event) => show(JSON.parse(event.data)));
  events.onopen = () => status("live", "live");
  events.onerror = async () => {
    disconnect();
    status("no connection", "lost");
    await wait(1000);
    connect();
  };
}

function disconnect() {
  if (page.events) page.events.close();
  page.events = null;
}

// Nobody reads a hidden page, so the server takes no samples for it.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect();
  disconnect();
  status("paused", "");
});

function show(snapshot) {
  const { server, viewer } = snapshot;
  page.skew = Date.now() - snapshot.at;
  $("server").textContent = `${server.version} · ${viewer.user}${viewer.admin ? ", administrator" : ""} · up `
    + `${seconds(server.uptime)} · ${server.sessions} sessions${server.stopping ? " · shutting down" : ""}`;
  $("logout").hidden = !viewer.logged_in;
  showDevices(snapshot);
  const store = snapshot.store;
  $("store").textContent = store
    ? `Columns in host memory: ${bytes(store.used_bytes)} of ${bytes(store.limit_bytes)}`
      + (store.disk_limit_bytes ? `. Column cache on disk: ${bytes(store.disk_written_bytes)} written,`
        + ` ${bytes(store.disk_read_bytes)} read.` : ".")
    : "";
  showRunning(snapshot);
  if (snapshot.history) {
    page.history = snapshot.history;
    showHistory();
  }
}

const RATES = [["to_device", "Host to device"], ["to_host", "Device to host"], ["memory", "Device memory"]];

/** The elements of a device. */
function devicePanel() {
  const map = (away) => svg("svg", { class: `map${away ? " away" : ""}`, role: "img", preserveAspectRatio: "none" });
  const parts = { title: html("h2"), figures: html("p"), map: map(false), away: map(true), awayNote: html("p", { className: "note" }),
    legend: html("ul", { className: "legend" }), rates: {}, pipelines: html("p", { className: "note" }),
    rows: html("tbody") };
  const rates = html("div");
  for (const [key, label] of RATES) {
    const [value, chart] = [html("span"), svg("svg", { viewBox: "0 0 100 46", preserveAspectRatio: "none", role: "img" })];
    rates.append(html("div", { className: "rate" }, html("h3", {}, label + " ", value), chart));
    parts.rates[key] = { value, chart, label };
  }
  const head = ["Region", "Kind", "State", "Bytes", "On the device", "Pages: all, device, host, disk"];
  const table = html("table", {}, html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
    parts.rows);
  parts.list = html("details", {}, html("summary", {}, "Regions as a table"), html("div", { className: "scroll" }, table));
  parts.root = html("div", { className: "device" },
    html("div", { className: "title" }, parts.title, parts.figures),
    html("div", { className: "panes" },
      html("div", {}, parts.map, parts.legend, parts.awayNote, parts.away, parts.pipelines, parts.list), rates));
  return parts;
}

const devices = [];

function showDevices(snapshot) {
  $("no-device").hidden = snapshot.devices.length > 0;
  while (devices.length > snapshot.devices.length) devices.pop().root.remove();
  snapshot.devices.forEach((device, index) => {
    if (!devices[index]) {
      devices[index] = devicePanel();
      $("devices").append(devices[index].root);
    }
    showDevice(devices[index], device, snapshot.at);
  });
}

function showDevice(parts, device, now) {
  parts.title.textContent = device.name;
  parts.figures.textContent = `${bytes(device.used_bytes)} of ${bytes(device.limit_bytes)} in use`
    + ` (memory ${bytes(device.total_bytes)}) · ${whole.format(device.evicted)} evictions · spilled`
    + ` ${bytes(device.spilled.to_host)} to the host, ${bytes(device.spilled.to_disk)} to disk`;
  const here = device.regions.reduce((sum, region) => sum + region.device_bytes, 0) + device.bytes_left_out;
  const rest = Math.max(0, device.used_bytes - here) + device.bytes_left_out;
  const other = { name: "other", kind: "other", state: "device", owner: null, bytes: rest, device_bytes: rest,
    pages: { loading: 0 }, uses: 0 };
  drawMap(parts.map, [...device.regions, other], (region) => region.device_bytes, device.limit_bytes,
    `Device memory: ${bytes(device.used_bytes)} of ${bytes(device.limit_bytes)} in use`);
  const away = (region) => region.bytes - region.device_bytes;
  const missing = device.regions.reduce((sum, region) => sum + away(region), 0);
  parts.awayNote.textContent = missing ? `Not on the device: ${bytes(missing)}` : "All regions are on the device.";
  parts.away.style.display = missing ? "" : "none";
  drawMap(parts.away, device.regions, away, missing, `Regions outside of the device: ${bytes(missing)}`);
  const sums = new Map(KINDS.map((kind) => [kind, 0]));
  for (const region of device.regions) sums.set(region.kind, sums.get(region.kind) + region.device_bytes);
  sums.set("other", rest);
  const free = Math.max(0, device.limit_bytes - device.used_bytes);
  parts.legend.replaceChildren(...[...sums, ["free", free]].map(([kind, size]) =>
    html("li", {}, svg("svg", {}, svg("rect", { class: kind, width: 11, height: 11, rx: 2 })), `${kind} ${bytes(size)}`)));
  for (const [key] of RATES) {
    const { value, chart, label } = parts.rates[key];
    const last = device.rates.length ? device.rates.at(-1)[key] : 0;
    const ceiling = device.ceilings ? device.ceilings[key] : null;
    value.textContent = rate(last) + (ceiling ? ` of ${rate(ceiling)}` : "");
    chart.setAttribute("aria-label", `${label}: ${value.textContent}`);
    drawRate(chart, device.rates, (sample) => sample[key], ceiling, now);
  }
  parts.pipelines.textContent = device.pipelines.length ? "Pipelines: " + device.pipelines.slice(0, 6).map((pipeline) =>
    `${pipeline.name || "#" + pipeline.number} ${pipeline.state}, ${bytes(pipeline.demand_bytes)}`).join(" · ") : "";
  if (!parts.list.open) return;
  parts.rows.replaceChildren(...device.regions.slice(0, 50).map((region) => html("tr", {},
    ...[region.name || "", region.kind, region.state, bytes(region.bytes), bytes(region.device_bytes),
      `${region.pages.all}, ${region.pages.device}, ${region.pages.host}, ${region.pages.disk}`]
      .map((text) => html("td", {}, text)))));
}

/** A cell with a statement, which opens its details. */
function statementCell(statement) {
  const button = html("button", { type: "button", title: statement.statement }, statement.statement.replace(/\s+/g, " ") || "(empty)");
  button.addEventListener("click", () => choose(statement.id));
  return html("td", { className: "statement" }, button);
}

const rows = new Map();

function runningRow(statement) {
  const cells = Object.fromEntries(["user", "state", "time", "progress", "demand", "rows", "read"].map((name) => [name, html("td")]));
  for (const name of ["time", "demand", "rows", "read"]) cells[name].className = "number";
  const bar = html("progress", { max: 1 });
  const step = html("span");
  cells.progress.append(bar, " ", step);
  const cancel = html("button", { type: "button", className: "cancel", "aria-label": `Cancel statement ${statement.id}` }, "Cancel");
  cancel.addEventListener("click", async () => {
    cancel.disabled = true;
    cancel.textContent = "Cancelling";
    try {
      await request(`/api/statements/${statement.id}/cancel`, { method: "POST" });
    } catch (problem) {
      cancel.title = problem.message;
      cancel.disabled = false;
      cancel.textContent = "Cancel";
    }
  });
  const row = html("tr", {}, statementCell(statement), ...Object.values(cells), html("td", {}, cancel));
  row.dataset.id = statement.id;
  return { row, cells, bar, step };
}

function showRunning(snapshot) {
  const left = new Set(rows.keys());
  for (const statement of snapshot.running) {
    left.delete(statement.id);
    if (!rows.has(statement.id)) {
      const made = runningRow(statement);
      rows.set(statement.id, made);
      $("running").tBodies[0].append(made.row);
    }
    const { cells, bar, step } = rows.get(statement.id);
    cells.user.textContent = statement.user;
    cells.state.textContent = statement.state;
    cells.state.className = `state-${statement.state}`;
    cells.time.textContent = seconds(statement.elapsed);
    const progress = statement.progress;
    if (progress && progress.total) bar.value = Math.min(1, progress.done / progress.total);
    else bar.removeAttribute("value");
    step.textContent = progress ? progress.step : "";
    bar.setAttribute("aria-label", progress && progress.total ? `${Math.round(100 * bar.value)} %` : "progress");
    cells.demand.textContent = statement.demand_bytes ? bytes(statement.demand_bytes) : "";
    cells.rows.textContent = whole.format(statement.rows);
    cells.read.textContent = bytes(statement.device_bytes);
  }
  for (const id of left) {
    rows.get(id).row.remove();
    rows.delete(id);
  }
  const count = snapshot.running.length;
  $("running-count").textContent = count ? `(${count})` : "";
  $("running").hidden = !count;
  $("idle").hidden = count > 0;
  $("hidden").hidden = !snapshot.hidden;
  $("hidden").textContent = `${snapshot.hidden} statements of other users run.`;
}

function showHistory() {
  $("history-count").textContent = page.history.length ? `(${page.history.length})` : "";
  $("history").tBodies[0].replaceChildren(...page.history.map((statement) => {
    const cell = (text, className = "") => html("td", { className }, text);
    const row = html("tr", { className: statement.id === page.chosen ? "chosen" : "" }, statementCell(statement),
      cell(statement.user), cell(statement.outcome, `outcome-${statement.outcome}`), cell(statement.device || ""),
      cell(seconds(statement.elapsed), "number"), cell(whole.format(statement.rows), "number"),
      cell(bytes(statement.device_bytes), "number"), cell(bytes(statement.link_bytes), "number"),
      cell(new Date(statement.began + page.skew).toLocaleTimeString()));
    row.dataset.id = statement.id;
    return row;
  }));
}

/** Shows a statement with its plan. */
async function choose(id) {
  page.chosen = id;
  let detail;
  try {
    detail = await request(`/api/statements/${id}`);
  } catch (problem) {
    detail = { summary: { id, outcome: "absent" }, statement: "", phases: {}, plan: null, problem: problem.message };
  }
  const { summary, phases, plan } = detail;
  $("detail").hidden = false;
  $("detail-title").textContent = `Statement ${id}`;
  $("trace").href = `/api/statements/${id}/trace`;
  $("trace").download = `galatea-${id}.json`;
  $("detail-figures").textContent = detail.problem ? "" : `${summary.outcome} after ${seconds(summary.elapsed)} · `
    + `${whole.format(summary.rows)} rows · ${summary.device || "no device"} · ${summary.user} · ${summary.protocol}`;
  $("detail-error").textContent = detail.problem || summary.error || "";
  $("detail-statement").textContent = detail.statement;
  $("phases").replaceChildren(...Object.entries(phases).filter(([, time]) => time > 0)
    .map(([name, time]) => html("span", {}, `${name} `, html("b", {}, seconds(time)))));
  $("reasons").replaceChildren(...(plan ? plan.reasons : []).map((reason) => html("li", {}, reason)));
  $("node").replaceChildren();
  drawGraph($("graph"), plan || { nodes: [], edges: [] }, (index) => showNode(plan.nodes[index]));
  $("detail-title").focus({ preventScroll: true });
  $("detail").scrollIntoView({ block: "nearest" });
  showHistory();
}

function showNode(node) {
  const run = node.run;
  const figures = run ? [
    ["rows", `${whole.format(run.rows_scanned)} scanned, ${whole.format(run.rows_passed)} passed`],
    ["chunks", `${run.chunks}, ${run.chunks_skipped} skipped`], ["launches", String(run.launches)],
    ["bytes", `${bytes(run.device_bytes)} read, ${bytes(run.link_bytes)} over the link`],
    ...run.spans.map((span) => [span.phase, `${seconds(span.seconds)} at ${seconds(Math.max(0, span.begin))}`]),
  ] : [];
  const facts = [...figures, ...node.facts.map((fact) => [fact.name, fact.values.join("\n")])];
  $("node").replaceChildren(html("h3", {}, node.pipeline ? `Pipeline ${node.name}` : node.name),
    html("dl", {}, ...facts.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)])));
}

$("close").addEventListener("click", () => {
  $("detail").hidden = true;
  page.chosen = null;
  showHistory();
});

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [user, secret] = [$("user").value.trim(), $("secret").value];
  const body = JSON.stringify(user ? { user, password: secret } : { token: secret });
  try {
    await request("/api/login", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    $("secret").value = "";
    $("login-problem").textContent = "";
    connect();
  } catch (problem) {
    $("login-problem").textContent = problem.message;
  }
});

$("logout").addEventListener("click", async () => {
  await request("/api/logout", { method: "POST" });
  location.reload();
});

connect();
