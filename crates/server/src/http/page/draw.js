"use strict";
// Drawings: the memory map, bandwidths, and the graph of a plan. Strings of the server become text nodes and
// attributes only, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML with properties, attributes and children. */
function html(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** An element of SVG with attributes and children. */
function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytes(count) {
  let unit = 0;
  while (count >= 1024 && unit < UNITS.length - 1) { count /= 1024; unit += 1; }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${UNITS[unit]}`;
}
function rate(count) {
  const [scale, unit] = count >= 1e9 || count === 0 ? [1e9, "GB/s"] : count >= 1e6 ? [1e6, "MB/s"] : [1e3, "kB/s"];
  return `${(count / scale).toFixed(count / scale >= 100 ? 0 : 1)} ${unit}`;
}
const whole = new Intl.NumberFormat("en");
function seconds(time) {
  if (time < 1e-3) return `${(time * 1e6).toFixed(0)} µs`;
  if (time < 1) return `${(time * 1e3).toFixed(time < 0.01 ? 2 : 1)} ms`;
  if (time < 100) return `${time.toFixed(2)} s`;
  return `${Math.floor(time / 60)} min ${Math.round(time % 60)} s`;
}

const KINDS = ["column", "table", "result", "working", "other"];

/** Places items one after another in rows of about square tiles: their order is kept, so tiles move little. */
function tiles(items, width, height) {
  const placed = [];
  const total = items.reduce((sum, item) => sum + item.size, 0);
  if (total <= 0) return placed;
  const scale = width * height / total;
  const worst = (row, area) => {
    const thick = area / height;
    return Math.max(...row.map((item) => {
      const long = item.size * scale / thick;
      return Math.max(long / thick, thick / long);
    }));
  };
  let x = 0, row = [], area = 0;
  const close = () => {
    const thick = area / height;
    let y = 0;
    for (const item of row) {
      const long = item.size * scale / thick;
      placed.push({ item, x, y, width: thick, height: long });
      y += long;
    }
    x += thick;
    row = []; area = 0;
  };
  for (const item of items) {
    const more = item.size * scale;
    if (row.length && worst([...row, item], area + more) > worst(row, area)) close();
    row.push(item);
    area += more;
  }
  if (row.length) close();
  return placed;
}

/** Draws regions into a map. `size` is the size of one; `all` is the size of the whole map. */
function drawMap(map, regions, size, all, label) {
  const width = map.clientWidth || 600, height = map.clientHeight || 210;
  map.setAttribute("viewBox", `0 0 ${width} ${height}`);
  map.setAttribute("aria-label", label);
  const used = regions.reduce((sum, region) => sum + size(region), 0);
  const items = regions.filter((region) => size(region) > 0).map((region) => ({ region, size: size(region) }));
  items.sort((a, b) => KINDS.indexOf(a.region.kind) - KINDS.indexOf(b.region.kind)
    || (a.region.name || "").localeCompare(b.region.name || "") || (a.region.owner || 0) - (b.region.owner || 0));
  const filled = width * Math.min(1, all > 0 ? used / all : 0);
  const old = new Map([...map.children].map((group) => [group.dataset.key, group]));
  const counts = new Map();
  for (const { item, x, y, width: wide, height: high } of tiles(items, filled, height)) {
    const region = item.region;
    const base = `${region.kind}/${region.name}/${region.owner}`;
    const count = counts.get(base) || 0;
    counts.set(base, count + 1);
    const key = `${base}/${count}`;
    let group = old.get(key);
    if (!group) {
      group = svg("g", {}, svg("rect"), svg("title"), svg("text"));
      group.dataset.key = key;
      map.append(group);
    }
    old.delete(key);
    const [box, title, text] = group.children;
    box.setAttribute("class", region.kind + (region.pages.loading ? " loading" : ""));
    for (const [name, value] of Object.entries({ x, y, width: wide, height: high })) {
      box.style.setProperty(name, `${value}px`);
    }
    const name = region.name || region.kind;
    title.textContent = `${name}\n${region.kind}, ${bytes(region.device_bytes)} of ${bytes(region.bytes)} on the device`
      + ` (${region.state}), ${region.uses} uses`;
    const room = Math.floor((wide - 10) / 6.2);
    text.textContent = high > 16 && room >= 4 ? (name.length > room ? name.slice(0, room - 1) + "…" : name) : "";
    text.setAttribute("x", x + 5);
    text.setAttribute("y", y + 14);
  }
  for (const group of old.values()) group.remove();
}

/** Draws one bandwidth over a minute, with its ceiling. */
function drawRate(chart, samples, value, ceiling, now) {
  const most = Math.max(ceiling || 0, ...samples.map(value), 1) * 1.08;
  const span = 60000;
  const points = samples.filter((sample) => now - sample.at <= span)
    .map((sample) => [100 * (1 - (now - sample.at) / span), 46 * (1 - value(sample) / most)]);
  const line = points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  const area = points.length ? `${line}L${points.at(-1)[0]} 46L${points[0][0]} 46Z` : "";
  const parts = [svg("path", { class: "area", d: area }), svg("path", { class: "curve", d: line })];
  if (ceiling) {
    const y = 46 * (1 - ceiling / most);
    parts.push(svg("line", { class: "ceiling", x1: 0, x2: 100, y1: y, y2: y }));
  }
  chart.replaceChildren(...parts);
}

const CARD = { width: 200, height: 66, across: 52, down: 16 };

/** Positions of the nodes of a plan: the root at the right, each node left of its reader. */
function layout(plan) {
  const below = plan.nodes.map(() => []);
  for (const edge of plan.edges) below[edge.to].push(edge.from);
  const at = plan.nodes.map(() => ({ depth: 0, row: 0 }));
  let rows = 0, deepest = 0;
  // A stack, since plans may be deep.
  const stack = [{ node: 0, depth: 0, next: 0 }];
  while (plan.nodes.length && stack.length) {
    const top = stack.at(-1);
    const inputs = below[top.node];
    if (top.next < inputs.length) {
      stack.push({ node: inputs[top.next], depth: top.depth + 1, next: 0 });
      top.next += 1;
      continue;
    }
    const own = at[top.node];
    own.depth = top.depth;
    deepest = Math.max(deepest, top.depth);
    own.row = inputs.length ? inputs.reduce((sum, node) => sum + at[node].row, 0) / inputs.length : rows++;
    stack.pop();
  }
  return at.map(({ depth, row }) => ({
    x: (deepest - depth) * (CARD.width + CARD.across) + 2,
    y: row * (CARD.height + CARD.down) + 2,
    deepest, rows,
  }));
}

const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

/** Draws the graph of a plan. `choose` is called with the index of a node. */
function drawGraph(container, plan, choose) {
  const places = layout(plan);
  if (!places.length) return container.replaceChildren();
  const { deepest, rows } = places[0];
  const width = (deepest + 1) * (CARD.width + CARD.across) - CARD.across + 4;
  const height = rows * (CARD.height + CARD.down) - CARD.down + 4;
  const graph = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "plan" });
  for (const edge of plan.edges) {
    const [from, to] = [places[edge.from], places[edge.to]];
    const [x1, y1] = [from.x + CARD.width, from.y + CARD.height / 2];
    const [x2, y2] = [to.x - 6, to.y + CARD.height / 2];
    const kind = edge.build ? " build" : "";
    graph.append(
      svg("path", { class: `edge${kind}`, d: `M${x1} ${y1}C${x1 + 26} ${y1} ${x2 - 26} ${y2} ${x2} ${y2}` }),
      svg("path", { class: `arrow${kind}`, d: `M${x2} ${y2 - 4}l7 4l-7 4Z` }),
    );
  }
  const longest = Math.max(...plan.nodes.map((node) => node.seconds || 0), 1e-9);
  plan.nodes.forEach((node, index) => {
    const { x, y } = places[index];
    const source = node.facts.find((fact) => ["source", "build side by", "keys", "sorted by"].includes(fact.name));
    const name = node.pipeline ? `Pipeline ${node.name}` : node.name;
    const figures = [node.seconds != null ? seconds(node.seconds) : "", node.rows != null ? `${whole.format(node.rows)} rows` : "",
      node.run ? bytes(node.run.device_bytes) : ""].filter(Boolean).join(" · ");
    const share = (node.seconds || 0) / longest;
    const group = svg("g", { class: `node${node.pipeline ? " pipeline" : ""}`, tabindex: 0, role: "button",
      "aria-label": `${name}, ${figures || "no figures"}`, transform: `translate(${x} ${y})` },
      svg("rect", { class: "card", width: CARD.width, height: CARD.height, rx: 6 }),
      svg("text", { class: "name", x: 10, y: 19 }, shorten(name, 28)),
      svg("text", { class: "soft", x: 10, y: 35 }, shorten(source ? source.values.join(", ") : "", 32)),
      svg("text", { class: "soft", x: 10, y: 51 }, shorten(figures, 34)),
      svg("rect", { class: "whole", x: 10, y: 57, width: CARD.width - 20, height: 3, rx: 1.5 }),
      svg("rect", { class: "share", x: 10, y: 57, width: (CARD.width - 20) * share, height: 3, rx: 1.5 }));
    const chosen = () => {
      for (const other of graph.querySelectorAll("g.chosen")) other.classList.remove("chosen");
      group.classList.add("chosen");
      choose(index);
    };
    group.addEventListener("click", chosen);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); chosen(); }
    });
    graph.append(group);
  });
  container.replaceChildren(graph);
}
