/* SPDX-License-Identifier: MIT */
/* layout.js: what is drawn as one item (nodes, folded groups, headings of open ones), and where: as Graphviz placed it or in columns. */
const WIDTH = 200, HEIGHT = 36; /* as cli/view_dot.c has them */
const FEW_ITEMS = 80; /* so many are shown unfolded at first */
const FEW_GROUPS = 250;
const NEAR = 0.7;
const MOST_FIT = 1.15; /* small graphs are not blown up */

const grouping = () => data.groupings[state.grouping];
const groupOf = i => grouping().of[i];

/* members: the nodes of each group; hues: the same for groups of the same name, in all groupings. null is grey, for what has no annotation. */
let members = [], hues = [];
const hueOfLabel = new Map();
function hueOf(label) {
  if (!hueOfLabel.has(label)) hueOfLabel.set(label, (hueOfLabel.size * 137.5 + 205) % 360);
  return hueOfLabel.get(label);
}

const tellsAnnotations = g => g.kind === "part" || g.kind === "annotation" || g.kind === "key";
function isRest(g, group, first) {
  return g.kind === "key" ? g.labels[group] === `without ${g.by}` : tellsAnnotations(g) && nodes[first].p < 0 && nodes[first].a < 0;
}

/* In the timeline: as the drawing has the node's group where groups are made of annotations, else as its own annotation. */
const hueOfNode = i => (tellsAnnotations(grouping()) && groupOf(i) >= 0 ? hues[groupOf(i)] : hueOf(annotationOf(i)));

function countMembers() {
  members = grouping().labels.map(() => []);
  grouping().of.forEach((group, i) => group >= 0 && members[group].push(i));
  hues = grouping().labels.map((label, group) => (isRest(grouping(), group, members[group][0]) ? null : hueOf(label)));
}

/* The finest that still makes few groups: what is folded should fit into one picture. */
function groupAtFirst() {
  const few = data.groupings.findIndex(g => g.labels.length > 1 && g.labels.length <= FEW_GROUPS);
  return count <= FEW_ITEMS || few < 0 ? 0 : few;
}

function foldAtFirst() {
  countMembers();
  state.folded = new Set();
  if (count > FEW_ITEMS) grouping().labels.forEach((label, group) => state.folded.add(group));
}

/* ---- items ---- */

/* Items with their edges, in the order of their first nodes. A heading stands before the nodes of its group that depend on none in it. */
function makeItems() {
  const items = [], itemOf = new Int32Array(count).fill(-1), heads = new Map();
  const add = (kind, node, group) => items.push({kind, node, group, id: items.length, from: [], to: [], links: [], x: 0, y: 0}) - 1;
  for (let i = 0; i < count; i++) {
    const group = groupOf(i);
    if (group >= 0 && !heads.has(group)) heads.set(group, add(state.folded.has(group) ? "group" : "head", i, group));
    itemOf[i] = group >= 0 && state.folded.has(group) ? heads.get(group) : add("node", i, group);
  }
  const seen = new Set();
  const link = (from, to, drawn, dashed) => {
    const key = from * items.length + to;
    if (from === to || seen.has(key)) return;
    seen.add(key);
    items[from].to.push(to);
    items[to].from.push(from);
    if (drawn) items[to].links.push({from, dashed});
  };
  for (let i = 0; i < count; i++) {
    const group = groupOf(i), me = itemOf[i], open = group >= 0 && !state.folded.has(group), loose = new Set(nodes[i].l || []);
    const root = open && !nodes[i].d.some(from => groupOf(from) === group);
    if (root) link(heads.get(group), me, false, false);
    nodes[i].d.forEach((from, at) => {
      link(itemOf[from], me, true, loose.has(at));
      if (root) link(itemOf[from], heads.get(group), false, false);
    });
  }
  return {items, itemOf, heads};
}

/* ---- Graphviz ---- */

function dotLayout() {
  if (!data.layouts || state.grouping !== 0) return null;
  if (state.folded.size === 0) return data.layouts.open || null;
  return state.folded.size === grouping().labels.length ? data.layouts.folded || null : null;
}

function placeAsDot(made, dot) {
  const nameOfItem = item => (item.kind === "node" ? `n${item.node}` : `g${item.group}`);
  const curves = new Map();
  for (const [from, to, ...points] of dot.edges) curves.set(`${from} ${to}`, points);
  for (const item of made.items) {
    const at = dot.nodes[nameOfItem(item)];
    if (!at) return false;
    [item.x, item.y] = at;
  }
  for (const item of made.items)
    for (const edge of item.links) edge.curve = curves.get(`${nameOfItem(made.items[edge.from])} ${nameOfItem(item)}`);
  return true;
}

/* ---- what surrounds the nodes of an open group ---- */

function boxesAsDot(made) {
  const boxes = new Map();
  for (const item of made.items) {
    if (item.kind === "group" || item.group < 0) continue;
    const box = boxes.get(item.group) || {group: item.group, x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity};
    box.x0 = Math.min(box.x0, item.x - WIDTH / 2 - 8);
    box.x1 = Math.max(box.x1, item.x + WIDTH / 2 + 8);
    box.y0 = Math.min(box.y0, item.y - HEIGHT / 2 - 8);
    box.y1 = Math.max(box.y1, item.y + HEIGHT / 2 + 8);
    boxes.set(item.group, box);
  }
  return Array.from(boxes.values());
}

/* In columns: from each item down to its successor, if that is of the same group. */
function boxesInColumns(made) {
  const boxes = [];
  for (const item of made.items) {
    if (item.kind === "group" || item.group < 0) continue;
    const successor = item.successor >= 0 ? made.items[item.successor] : null;
    const down = successor && successor.group === item.group && successor.kind === "node" && successor.x === item.x && successor.y > item.y;
    boxes.push({group: item.group, x0: item.x - WIDTH / 2 - 8, x1: item.x + WIDTH / 2 + 8, y0: item.y - HEIGHT / 2 - 5,
      y1: down ? successor.y - HEIGHT / 2 - 5 : item.y + HEIGHT / 2 + 5});
  }
  return boxes;
}

function measure(made, w, h) {
  made.x0 = d3.min(made.items, item => item.x) - WIDTH / 2 - 30;
  made.x1 = d3.max(made.items, item => item.x) + WIDTH / 2 + 30;
  made.y0 = d3.min(made.items, item => item.y) - HEIGHT / 2 - 30;
  made.y1 = d3.max(made.items, item => item.y) + HEIGHT / 2 + 30;
  if (!made.items.length) [made.x0, made.x1, made.y0, made.y1] = [0, 100, 0, 100];
  return Math.min(MOST_FIT, w / (made.x1 - made.x0), h / (made.y1 - made.y0));
}

/* way: "" for what suits, "dot", "columns". What Graphviz made of a graph that branches is easier to follow; of chains it makes a thread that is too thin
 * to read, so that it has to come near the size that columns would have in the canvas. */
function makeLayout(way, w, h) {
  const made = makeItems(), dot = way === "columns" ? null : dotLayout();
  let size = 0;
  if (dot && placeAsDot(made, dot)) {
    size = measure(made, w, h);
    made.dot = true;
  }
  if (!made.dot || way !== "dot") {
    const places = made.items.map(item => [item.x, item.y]);
    placeInColumns(made.items, w / Math.max(1, h));
    if (made.dot && size >= NEAR * measure(made, w, h)) made.items.forEach((item, i) => ([item.x, item.y] = places[i]));
    else made.dot = false;
  }
  measure(made, w, h);
  if (!made.dot) made.items.forEach(item => item.links.forEach(edge => (edge.curve = undefined)));
  made.boxes = made.dot ? boxesAsDot(made) : boxesInColumns(made);
  return made;
}
