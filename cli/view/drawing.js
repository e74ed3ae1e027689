/* SPDX-License-Identifier: MIT */
/* drawing.js: the drawing as one works with it: pan, zoom, select, fold; with a mouse, by touch and from the keyboard. */
const drawing = {canvas: byId("graph"), made: null, transform: d3.zoomIdentity, way: "kind", layout: "", pending: false};
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const LEAST_ZOOM = 0.01, MOST_ZOOM = 4, GOOD_ZOOM = 0.9;

function redraw() {
  if (drawing.pending) return;
  drawing.pending = true;
  requestAnimationFrame(() => {
    drawing.pending = false;
    drawLayout(drawing.canvas, drawing.made, drawing.transform, drawing.way);
    drawMinimap();
    describe();
  });
}

/* What is on the canvas, for those who look at the page from outside: styles, tests, tools. */
function describe() {
  const item = selectedItem(), t = drawing.transform;
  Object.assign(drawing.canvas.dataset, {zoom: t.k.toFixed(4), left: t.x.toFixed(1), top: t.y.toFixed(1), items: drawing.made.items.length,
    layout: drawing.made.dot ? "graphviz" : "columns", folded: state.folded.size, selected: state.selected,
    at: item ? `${t.applyX(item.x).toFixed(1)} ${t.applyY(item.y).toFixed(1)}` : ""});
}

const zoom = d3.zoom().scaleExtent([LEAST_ZOOM, MOST_ZOOM]).clickDistance(5).on("zoom", () => {
  drawing.transform = d3.event.transform;
  redraw();
});
const zoomed = d3.select(drawing.canvas);

function moveTo(transform) {
  const target = calm.matches ? zoomed : zoomed.transition().duration(220);
  target.call(zoom.transform, transform);
}

/* All of it, or what has the room at a size that can be read at all. */
function fitAll(gently) {
  const made = drawing.made, w = drawing.canvas.clientWidth, h = drawing.canvas.clientHeight;
  const k = Math.max(LEAST_ZOOM, Math.min(MOST_FIT, w / (made.x1 - made.x0), h / (made.y1 - made.y0)));
  const to = d3.zoomIdentity.translate((w - k * (made.x0 + made.x1)) / 2, (h - k * (made.y0 + made.y1)) / 2).scale(k);
  if (gently) moveTo(to);
  else zoomed.call(zoom.transform, to);
}

function centre(item) {
  const k = Math.max(drawing.transform.k, GOOD_ZOOM), w = drawing.canvas.clientWidth, h = drawing.canvas.clientHeight, made = drawing.made;
  /* As far as that leaves nothing empty which the drawing could fill. */
  const within = (at, low, high, room) => ((high - low) * k <= room ? (room - k * (low + high)) / 2 : Math.max(room - k * high, Math.min(-k * low, room / 2 - k * at)));
  moveTo(d3.zoomIdentity.translate(within(item.x, made.x0, made.x1, w), within(item.y, made.y0, made.y1, h)).scale(k));
}

/* Only as far as needed for the item to be seen. */
function show(item) {
  const t = drawing.transform, x = t.applyX(item.x), y = t.applyY(item.y), w = drawing.canvas.clientWidth, h = drawing.canvas.clientHeight;
  if (t.k < READABLE) return centre(item);
  const margin = 40, half = WIDTH / 2 * t.k;
  const dx = Math.max(0, margin + half - x) - Math.max(0, x - (w - margin - half)), dy = Math.max(0, margin - y) - Math.max(0, y - (h - margin));
  if (dx || dy) moveTo(d3.zoomIdentity.translate(t.x + dx, t.y + dy).scale(t.k));
}

/* What of each item the search has found, what it costs, what is critical: once, not in each picture. */
function markItems() {
  const made = drawing.made, n = made.items.length;
  made.found = new Uint8Array(n);
  made.critical = new Float64Array(n); /* the share of its time */
  made.costs = new Float64Array(n);
  made.bytes = new Float64Array(n); /* that copies and fills write */
  for (let i = 0; i < count; i++) {
    const id = made.itemOf[i];
    made.costs[id] += hasTimes ? Math.max(0, timeOf(i)) : Math.max(threadsOf(i), nodes[i].b / 4);
    made.bytes[id] += nodes[i].b;
    if (state.found.has(i)) made.found[id] = 1;
    if (isCritical(i)) made.critical[id] += Math.max(1, timeOf(i));
  }
  made.critical.forEach((time, id) => (made.critical[id] = time ? Math.min(1, time / Math.max(1, made.costs[id])) : 0));
  made.most = d3.max(made.costs) || 0;
}

function layOut(keep) {
  drawing.made = makeLayout(drawing.layout, drawing.canvas.clientWidth, drawing.canvas.clientHeight);
  markItems();
  const item = keep >= 0 ? drawing.made.items[drawing.made.itemOf[keep]] : null;
  if (item) centre(item);
  else fitAll(false);
  showLegend();
  redraw();
  drawing.canvas.setAttribute("aria-label", drawing.made.items.length
    ? `Drawing of the graph: ${plural(drawing.made.items.length, "item")}, ${drawing.made.dot ? "placed by Graphviz" : "in columns"}` : "Drawing of the graph: no nodes");
}

function fold(group, folded) {
  if (folded) state.folded.add(group);
  else state.folded.delete(group);
  layOut(members[group][0]);
  announce(`${grouping().labels[group]}: ${folded ? "folded" : "unfolded"}, ${plural(members[group].length, "node")}`);
}

function foldAll(folded) {
  state.folded = new Set(folded ? grouping().labels.map((label, group) => group) : []);
  layOut(-1);
  announce(folded ? "All groups are folded" : "All groups are unfolded");
}

/* What all that the item stands for takes. Nodes of bodies have no times of their own. */
function sumsOf(made, item) {
  const time = hasTimes ? made.costs[item.id] : 0, bytes = made.bytes[item.id];
  return [time > 0 && formatTime(time), bytes > 0 && formatBytes(bytes)].filter(Boolean).join(" · ");
}

function textOfGroup(item) {
  const sums = item.kind === "group" ? sumsOf(drawing.made, item) : "";
  return `${grouping().labels[item.group]}, ${plural(members[item.group].length, "node")}${sums ? ", " + sums : ""}`;
}

function itemAt(x, y) {
  const [px, py] = drawing.transform.invert([x, y]), items = drawing.made.items;
  for (let i = items.length - 1; i >= 0; i--)
    if (Math.abs(items[i].x - px) <= WIDTH / 2 && Math.abs(items[i].y - py) <= HEIGHT / 2) return items[i];
  return null;
}

function chooseItem(item) {
  select(item.node, "drawing");
  if (item.kind === "node") announce(`${item.node}: ${nameOf(item.node)}${originOf(item.node) ? ", " + originOf(item.node) : ""}`);
  else announce(`Group ${textOfGroup(item)}, ${item.kind === "group" ? "folded" : "unfolded"}`);
}

drawing.canvas.addEventListener("click", event => {
  const item = event.defaultPrevented ? null : itemAt(event.offsetX, event.offsetY);
  if (!item) return;
  if (item.kind === "node") chooseItem(item);
  else fold(item.group, item.kind === "head");
});
drawing.canvas.addEventListener("mousemove", event => {
  const item = event.buttons ? null : itemAt(event.offsetX, event.offsetY);
  drawing.canvas.style.cursor = item ? "pointer" : "grab";
  drawing.canvas.title = item ? (item.kind === "node" ? titleOf(item.node) : textOfGroup(item)) : "";
});

/* ---- keyboard ---- */

const selectedItem = () => (state.selected < 0 ? null : drawing.made.items[drawing.made.itemOf[state.selected]]);

function goAlong(way) {
  const item = selectedItem(), items = drawing.made.items;
  let to = null;
  if (!item) to = items.find(other => other.kind !== "head");
  else if (way === "down") to = items[item.to.find(id => items[id].kind !== "head")];
  else if (way === "up") to = items[item.from.find(id => items[id].kind !== "head")];
  else
    for (let id = item.id + (way === "right" ? 1 : -1); id >= 0 && id < items.length && !to; id += way === "right" ? 1 : -1)
      if (items[id].kind !== "head") to = items[id];
  if (!to) return announce(way === "up" ? "It depends on nothing" : way === "down" ? "Nothing depends on it" : "There is no other");
  chooseItem(to);
  show(to);
}

function toggleGroup() {
  const item = selectedItem();
  if (!item || item.group < 0) return announce("Not in a group");
  fold(item.group, item.kind !== "group");
}

const pan = (dx, dy) => moveTo(drawing.transform.translate(dx / drawing.transform.k, dy / drawing.transform.k));
const zoomBy = factor => (calm.matches ? zoomed : zoomed.transition().duration(150)).call(zoom.scaleBy, factor);
const drawingKeys = {
  ArrowUp: () => goAlong("up"), ArrowDown: () => goAlong("down"), ArrowLeft: () => goAlong("left"), ArrowRight: () => goAlong("right"),
  "Shift+ArrowUp": () => pan(0, 80), "Shift+ArrowDown": () => pan(0, -80), "Shift+ArrowLeft": () => pan(80, 0), "Shift+ArrowRight": () => pan(-80, 0),
  Enter: toggleGroup, " ": toggleGroup, "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: () => fitAll(true),
  c: () => selectedItem() && centre(selectedItem()), f: () => foldAll(true), u: () => foldAll(false),
  n: () => goToFound(1), p: () => goToFound(-1), "/": () => byId("search").focus(), "?": () => openHelp()
};

/* A single key does something only while what it is for has the focus, so that it never surprises a screen reader or voice control. */
function listenToKeys(element, keys) {
  element.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const arrow = event.key.startsWith("Arrow");
    const act = keys[(event.shiftKey && arrow ? "Shift+" : "") + event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function startDrawing() {
  state.grouping = groupAtFirst();
  byId("grouping").value = state.grouping;
  foldAtFirst();
  zoomed.call(zoom).on("dblclick.zoom", null);
  layOut(-1);
  listenToKeys(drawing.canvas, drawingKeys);
  byId("zoom-in").addEventListener("click", () => zoomBy(1.4));
  byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.4));
  byId("zoom-fit").addEventListener("click", () => fitAll(true));
  byId("fold-all").addEventListener("click", () => foldAll(true));
  byId("unfold-all").addEventListener("click", () => foldAll(false));
  on("select", from => {
    redraw();
    const item = selectedItem();
    if (item && from !== "drawing") show(item);
  });
  on("found", () => {
    markItems();
    redraw();
  });
  on("theme", redraw);
  on("resize", redraw);
}
