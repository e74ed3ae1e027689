/* SPDX-License-Identifier: MIT */
/* timeline.js: the median replay: a row for each lane, above them which annotation the lanes' nodes have. */
const ROW = 22, LEAST_LEFT = 76, AXIS = 24, MOST_LANES = 40;
const DISTURBED = 1.5; /* so many times what the medians say */
const timeline = {bars: [], left: LEAST_LEFT, canvas: null, scale: null, base: null, transform: d3.zoomIdentity, lanes: []};

/* Lanes as they are numbered may be far apart; spans of one annotation are drawn as one where nothing lies between them. */
function makeBars() {
  const measured = d3.range(count).filter(i => nodes[i].t);
  const numbers = Array.from(new Set(measured.map(i => nodes[i].t[5]))).sort((a, b) => a - b).slice(0, MOST_LANES);
  const rowOfLane = new Map(numbers.map((lane, row) => [lane, row]));
  timeline.lanes = numbers;
  const shown = measured.filter(i => rowOfLane.has(nodes[i].t[5]));
  timeline.bars = shown.map(i => ({node: i, x0: nodes[i].t[0], x1: nodes[i].t[0] + nodes[i].t[7], row: rowOfLane.get(nodes[i].t[5])}));
  timeline.bars.sort((a, b) => a.x0 - b.x0 || a.node - b.node);
  timeline.spans = [];
  const last = [];
  for (const bar of timeline.bars) {
    const text = annotationOf(bar.node), before = last[bar.row];
    if (before && before.text === text) before.x1 = Math.max(before.x1, bar.x1);
    else timeline.spans.push(last[bar.row] = {text, node: bar.node, x0: bar.x0, x1: bar.x1, row: bar.row});
  }
  timeline.spans = timeline.spans.filter(span => span.text);
  timeline.step = timeline.spans.length ? 2 * ROW : ROW;
}

function drawBar(c, x, y, bar) {
  const x0 = x(bar.x0), w = Math.max(1, x(bar.x1) - x0 - 0.5), found = state.found.has(bar.node);
  c.fillStyle = found ? palette.found : palette[familyOf(bar.node)];
  c.fillRect(x0, y, w, ROW - 5);
  if (isCritical(bar.node)) {
    c.fillStyle = palette.critical;
    c.fillRect(x0, y + ROW - 5, w, 3);
  }
  if (bar.node === state.selected) {
    c.strokeStyle = palette.ink;
    c.lineWidth = 2.5;
    c.strokeRect(x0 - 1, y - 1, w + 2, ROW - 1);
  }
  if (w > 34) {
    c.fillStyle = inkOn(found ? palette.found : palette[familyOf(bar.node)]);
    c.fillText(fitText(c, shortName(nameOf(bar.node)), Math.round(w - 8)), x0 + 4, y + (ROW - 5) / 2);
  }
}

function drawTimeline() {
  const c = contextOf(timeline.canvas), width = timeline.canvas.clientWidth, x = timeline.scale;
  c.textBaseline = "middle";
  c.font = font(12);
  timeline.lanes.forEach((lane, row) => {
    c.fillStyle = palette.soft;
    c.fillText(`lane ${lane}`, 2, row * timeline.step + timeline.step - ROW / 2);
  });
  c.save();
  c.beginPath();
  c.rect(timeline.left, 0, width - timeline.left, timeline.canvas.clientHeight);
  c.clip();
  for (const span of timeline.spans) {
    const x0 = x(span.x0), w = x(span.x1) - x0, y = span.row * timeline.step + 2;
    if (x0 + w < timeline.left || x0 > width || w < 0.4) continue;
    c.fillStyle = shade(hueOfNode(span.node), 0.35);
    c.fillRect(x0, y, Math.max(1, w - 1), ROW - 4);
    c.fillStyle = palette.ink;
    if (w > 40) c.fillText(fitPath(c, span.text, Math.round(w - 8)), Math.max(x0, timeline.left) + 4, y + ROW / 2 - 2);
  }
  for (const bar of timeline.bars)
    if (x(bar.x1) >= timeline.left && x(bar.x0) <= width) drawBar(c, x, bar.row * timeline.step + timeline.step - ROW + 2, bar);
  c.restore();
  const axis = d3.axisBottom(x).ticks(Math.max(2, width / 130)).tickFormat(ns => (ns === 0 ? "0" : formatTime(ns)));
  d3.select(timeline.svg).attr("height", timeline.height).select("g").attr("transform", `translate(0,${timeline.height - AXIS})`).call(axis);
}

/* Lanes may have numbers of ten digits. */
function measureLanes() {
  const c = contextOf(timeline.canvas);
  c.font = font(12);
  timeline.left = Math.ceil(Math.max(LEAST_LEFT, ...timeline.lanes.map(lane => c.measureText(`lane ${lane}`).width + 10)));
}

/* Width of the element can change; the picture in time stays. */
function scaleTimeline() {
  const width = timeline.canvas.clientWidth;
  timeline.base = d3.scaleLinear().domain([0, d3.max(timeline.bars, bar => bar.x1) || 1]).range([timeline.left, width - 28]);
  timeline.scale = timeline.transform.rescaleX(timeline.base);
  drawTimeline();
}

function barAt(px, py) {
  const row = Math.floor(py / timeline.step), t = timeline.scale.invert(px), slack = timeline.scale.invert(px + 3) - t;
  let best = null;
  for (const bar of timeline.bars) if (bar.row === row && bar.x0 - slack <= t && t <= bar.x1 + slack && (!best || bar.x0 <= t)) best = bar;
  return best;
}

function stepInTime(by) {
  const at = timeline.bars.findIndex(bar => bar.node === state.selected), to = timeline.bars[at < 0 ? 0 : at + by];
  if (!to) return announce("There is no other");
  select(to.node, "timeline");
  announce(`${to.node}: ${nameOf(to.node)}, ${formatTime(to.x1 - to.x0)} from ${formatTime(to.x0)}`);
}

/* Nodes that took much longer in the median replay than they do as a rule, which no order of the nodes explains and no time in which nothing ran: other
 * work was on the device or the processor. */
function disturbedText() {
  const p = data.profile, busy = (p.replay_ns || 0) - (p.idle_ns || 0);
  const excess = d3.sum(nodes, node => (node.t ? Math.max(0, node.t[7] - node.t[1]) : 0));
  if (!p.critical_ns || busy <= DISTURBED * p.critical_ns || excess < (DISTURBED - 1) * p.critical_ns) return "";
  const where = p.work_ns === p.critical_ns ? "" : " on the critical path";
  return ` The median replay took ${formatTime(p.replay_ns)}, though the nodes’ medians sum to ${formatTime(p.critical_ns)}${where}: it was disturbed; profile again.`;
}

function summaryText() {
  const p = data.profile, parts = [];
  const from = {device: "the device’s own clock", cupti: "CUPTI", events: "event nodes"};
  if (p.replay_ns !== undefined) parts.push(`a replay takes ${formatTime(p.replay_ns)}`);
  if (p.idle_ns !== undefined) parts.push(`nothing runs for ${formatTime(p.idle_ns)} of it`);
  if (p.critical_ns !== undefined) parts.push(`the critical path, red, takes ${formatTime(p.critical_ns)}`);
  if (p.replays !== undefined) parts.push(`medians of ${plural(p.replays, "replay")}`);
  if (p.source !== undefined) parts.push(`measured with ${from[p.source] || p.source}`);
  const text = parts.join("; ");
  return (text ? text[0].toUpperCase() + text.slice(1) + "." : "") + disturbedText();
}

function startTimeline() {
  const note = byId("timeline-note");
  makeBars();
  if (!timeline.bars.length) {
    note.textContent = hasTimes ? `Nothing was measured: ${count ? "no node has a time" : "the graph has no nodes"}.`
      : "This record has no times. ph_graph_profile measures them, and ph_profile_dump_record writes the record with them.";
    return;
  }
  note.textContent = summaryText();
  timeline.height = timeline.lanes.length * timeline.step + AXIS + 4;
  const label = `Timeline of ${plural(timeline.bars.length, "node")} in ${plural(timeline.lanes.length, "lane")}; arrow keys go from node to node`;
  timeline.canvas = make("canvas", {tabindex: "0", role: "application", id: "timeline-canvas", "aria-label": label});
  timeline.canvas.style.height = `${timeline.height}px`;
  const svg = d3.create("svg").attr("aria-hidden", "true");
  svg.append("g");
  timeline.svg = svg.node();
  byId("timeline-chart").append(timeline.canvas, timeline.svg);
  const zooming = d3.zoom().scaleExtent([1, 5000]).clickDistance(5).on("zoom", () => {
    timeline.transform = d3.event.transform;
    scaleTimeline();
  });
  /* The wheel alone scrolls the page. */
  zooming.filter(() => (d3.event.type === "wheel" ? d3.event.ctrlKey || d3.event.shiftKey : !d3.event.button));
  const selection = d3.select(timeline.canvas).call(zooming).on("dblclick.zoom", null);
  const extent = () => {
    const end = [timeline.canvas.clientWidth, timeline.height];
    zooming.translateExtent([[0, 0], end]).extent([[timeline.left, 0], end]);
  };
  timeline.canvas.addEventListener("click", event => {
    const bar = event.defaultPrevented ? null : barAt(event.offsetX, event.offsetY);
    if (bar) select(bar.node, "timeline");
  });
  timeline.canvas.addEventListener("mousemove", event => {
    const bar = barAt(event.offsetX, event.offsetY);
    timeline.canvas.title = bar ? `${titleOf(bar.node)}\n${formatTime(bar.x1 - bar.x0)}` : "";
  });
  const pan = by => selection.call(zooming.translateBy, by / timeline.transform.k, 0), zoomBy = by => selection.call(zooming.scaleBy, by);
  listenToKeys(timeline.canvas, {
    ArrowLeft: () => stepInTime(-1), ArrowRight: () => stepInTime(1), "Shift+ArrowLeft": () => pan(120), "Shift+ArrowRight": () => pan(-120),
    "+": () => zoomBy(1.5), "=": () => zoomBy(1.5), "-": () => zoomBy(1 / 1.5), 0: () => selection.call(zooming.transform, d3.zoomIdentity),
    "?": () => openHelp()
  });
  measureLanes();
  extent();
  scaleTimeline();
  on("select", drawTimeline);
  on("grouping", drawTimeline);
  on("found", drawTimeline);
  on("theme", drawTimeline);
  on("resize", () => {
    extent();
    scaleTimeline();
  });
}
