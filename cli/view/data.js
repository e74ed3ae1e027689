/* SPDX-License-Identifier: MIT */
/* data.js: the record as the command passed it on (cli/view_json.c), and what follows from it. */
const data = JSON.parse(byId("data").textContent);
const nodes = data.nodes;
const count = nodes.length;
const hasTimes = data.profile !== null;
const nameOf = i => data.names[nodes[i].n];
const kindOf = i => data.kinds[nodes[i].k];
const pairsOf = i => (nodes[i].a < 0 ? [] : nameFirst(data.annotations[nodes[i].a]));
const timeOf = i => (nodes[i].t ? nodes[i].t[1] : -1);
const isCritical = i => Boolean(nodes[i].t && nodes[i].t[6]);

/* Bodies happen where their graph node stands. */
const outermost = new Int32Array(count);
for (let i = 0; i < count; i++) outermost[i] = nodes[i].p < 0 ? i : outermost[nodes[i].p];

const dependents = nodes.map(() => []);
nodes.forEach((node, i) => node.d.forEach(from => dependents[from].push(i)));

/* The name first, as groups are called (cli/view_groups.c). */
const nameFirst = pairs => pairs.filter(([key]) => key === "name").concat(pairs.filter(([key]) => key !== "name"));
const textOfPairs = pairs => nameFirst(pairs).map(([key, value]) => (key === "name" && typeof value === "string" ? value : `${key}=${value}`)).join(", ");
/* "block1 (backward), layer=3": as groups are called (cli/view_groups.c); all pairs are in titles and in the panel. */
function shortTextOfPairs(pairs) {
  const all = new Map(pairs), name = all.get("name"), phase = all.get("autograd_phase");
  if (typeof name !== "string" || typeof phase !== "string") return textOfPairs(pairs);
  const shown = pairs.filter(([key]) => key !== "autograd_phase").map(([key, value]) => [key, key === "name" && phase !== "forward" ? `${name} (${phase})` : value]);
  return textOfPairs(shown);
}
const annotationTexts = data.annotations.map(shortTextOfPairs), wholeTexts = data.annotations.map(textOfPairs);
const annotationOf = i => (nodes[i].a < 0 ? "" : annotationTexts[nodes[i].a]);
const wholeAnnotationOf = i => (nodes[i].a < 0 ? "" : wholeTexts[nodes[i].a]);
/* What a library added by itself has a reason instead of a scope. */
const madeFor = i => (nodes[i].m === undefined ? "" : data.names[nodes[i].m]);
const originOf = i => annotationOf(i) || madeFor(i);
const titleOf = i => [`${i}: ${nameOf(i)}`, wholeAnnotationOf(i) || madeFor(i)].filter(Boolean).join("\n");

function threadsOf(i) {
  const s = nodes[i].s;
  return s ? s[0] * s[1] * s[2] * s[3] * s[4] * s[5] : 0;
}

const family = {kernel: "kernel", memcpy: "copy", memset: "fill", host: "host", graph: "graph", conditional: "graph"};
const familyOf = i => family[kindOf(i)] || "other";
const familyNames = {kernel: "kernel", copy: "copy", fill: "fill", host: "host function", graph: "graph", other: "event, memory or empty"};

/* What a word is, and whether it is known to be read or written: copies and fills tell, parameters of kernels do not. */
const WORD = {name: 0, sure: 1, internal: 2, value: 3, allocation: 4, at: 5, offset: 6};
function directionOf(i, word) {
  const name = data.names[word[WORD.name]];
  if (kindOf(i) !== "memcpy" && kindOf(i) !== "memset") return "";
  return name === "dst" ? "writes" : name === "src" ? "reads" : "";
}

/* What a search looks through: number, name, kind, annotation and reason. */
const searchTexts = nodes.map((node, i) => `${i} ${nameOf(i)} ${kindOf(i)} ${annotationOf(i)} ${wholeAnnotationOf(i)} ${madeFor(i)}`.toLowerCase());

/* The state that the parts share; changed tells them all. */
const state = {selected: -1, found: new Set(), foundList: [], query: "", grouping: 0, folded: new Set()};
const listeners = {select: [], found: [], theme: [], resize: [], grouping: []};
const on = (what, listener) => listeners[what].push(listener);
const tell = (what, ...more) => listeners[what].forEach(listener => listener(...more));
function select(node, from) {
  state.selected = node;
  tell("select", from);
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "card", "ink", "soft", "line", "strong", "accent", "on-accent", "found", "found-fill", "critical", "node", "edge", "kernel",
    "copy", "fill", "host", "graph", "other", "cold", "hot", "area"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}
let palette = colours();

/* A canvas as large as its element, in device pixels; the context draws in those of the page. */
function contextOf(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
const font = size => `${size}px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif`;
