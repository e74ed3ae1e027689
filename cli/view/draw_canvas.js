/* SPDX-License-Identifier: MIT */
/* draw_canvas.js: a layout on a canvas, at a zoom, as far as it can be seen. */
const NAMED = 0.2; /* below this zoom nothing is named */
const READABLE = 0.42; /* below this zoom boxes have no text, and groups are named in letters of a constant size */

const tint = (group, alpha) => shade(hues[group], alpha);
function shade(hue, alpha) {
  const colour = d3.hsl(hue || 0, hue === null ? 0 : 0.5, document.documentElement.classList.contains("dark") ? 0.6 : 0.5);
  colour.opacity = alpha;
  return String(colour);
}

/* From bottom to top within a column; to another one along the gaps between the columns. */
function traceEdge(c, a, b, edge) {
  c.beginPath();
  if (edge.curve) {
    const p = edge.curve;
    c.moveTo(p[0], p[1]);
    for (let i = 2; i + 5 < p.length; i += 6) c.bezierCurveTo(p[i], p[i + 1], p[i + 2], p[i + 3], p[i + 4], p[i + 5]);
    return;
  }
  const y0 = a.y + HEIGHT / 2, y1 = b.y - HEIGHT / 2;
  c.moveTo(a.x, y0);
  if (a.x === b.x && y1 > y0) c.lineTo(b.x, y1);
  else if (a.column === b.column) c.bezierCurveTo(a.x, y0 + GAP_Y, b.x, y1 - GAP_Y, b.x, y1);
  else {
    const gutter = b.column - WIDTH / 2 - COLUMN_GAP / 2, r = 7, low = y0 + GAP_Y / 2, high = y1 - GAP_Y / 2;
    c.arcTo(a.x, low, gutter, low, r);
    c.arcTo(gutter, low, gutter, high, r);
    c.arcTo(gutter, high, b.x, high, r);
    c.arcTo(b.x, high, b.x, y1, r);
    c.lineTo(b.x, y1);
  }
}

function boundsOfEdge(a, b, edge) {
  let x0 = Math.min(a.x, b.x), x1 = Math.max(a.x, b.x), y0 = Math.min(a.y, b.y), y1 = Math.max(a.y, b.y);
  for (let i = 0; edge.curve && i < edge.curve.length; i += 2) {
    x0 = Math.min(x0, edge.curve[i]);
    x1 = Math.max(x1, edge.curve[i]);
    y0 = Math.min(y0, edge.curve[i + 1]);
    y1 = Math.max(y1, edge.curve[i + 1]);
  }
  return [x0 - WIDTH, y0 - 40, x1 + WIDTH, y1 + 40];
}

function drawArrow(c, b) {
  const y = b.y - HEIGHT / 2;
  c.beginPath();
  c.moveTo(b.x, y);
  c.lineTo(b.x - 4, y - 7);
  c.lineTo(b.x + 4, y - 7);
  c.fill();
}

function drawEdges(c, made, seen, k) {
  for (const b of made.items)
    for (const edge of b.links) {
      const a = made.items[edge.from], box = edge.bounds || (edge.bounds = boundsOfEdge(a, b, edge));
      if (box[0] > seen.x1 || box[2] < seen.x0 || box[1] > seen.y1 || box[3] < seen.y0) continue;
      const near = state.selected >= 0 && (made.itemOf[state.selected] === a.id || made.itemOf[state.selected] === b.id);
      const critical = hasTimes && a.kind === "node" && b.kind === "node" && isCritical(a.node) && isCritical(b.node);
      c.strokeStyle = c.fillStyle = near ? palette.accent : critical ? palette.critical : palette.edge;
      c.lineWidth = (near || critical ? 2 : 1.1) / Math.min(1, Math.max(k, 0.35));
      c.setLineDash(edge.dashed ? [5, 4] : []);
      traceEdge(c, a, b, edge);
      c.stroke();
      c.setLineDash([]);
      if (k > READABLE) drawArrow(c, b);
    }
}

function fillOf(made, item, way) {
  if (way === "time" && item.kind !== "head") {
    const share = made.most > 0 ? made.costs[item.id] / made.most : 0;
    return d3.interpolateRgb(palette.cold, palette.hot)(Math.sqrt(share));
  }
  return item.kind === "node" ? palette.node : palette.card;
}

const inkOn = fill => {
  const {r, g, b} = d3.rgb(fill);
  const light = v => ((v /= 255) <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
  return 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b) > 0.18 ? "#101318" : "#ffffff";
};

function labelOf(item) {
  return item.kind === "node" ? shortName(nameOf(item.node)) : grouping().labels[item.group];
}

function drawText(c, made, item, x, y, fill, way) {
  const group = item.kind !== "node", more = group ? ` ${members[item.group].length}` : "";
  c.font = group ? `600 ${font(12)}` : font(12);
  const room = WIDTH - 16 - (group ? c.measureText(more).width + 4 : 0);
  c.fillStyle = way === "time" && item.kind !== "head" ? inkOn(fill) : palette.ink;
  const sums = item.kind === "head" ? "" : sumsOf(made, item), middle = y + HEIGHT / 2;
  const sign = group ? (item.kind === "head" ? "▾ " : "▸ ") : "", before = group ? c.measureText(sign).width : 0;
  const label = group ? fitPath(c, labelOf(item), room - before) : fitText(c, labelOf(item), room);
  c.fillText(sign + label, x + 10, sums ? middle - 7 : middle);
  if (sums) {
    c.font = font(11);
    c.fillText(fitText(c, sums, WIDTH - 16, true), x + 10, middle + 9);
  }
  if (!group) return;
  c.font = font(12);
  c.textAlign = "right";
  c.fillText(more, x + WIDTH - 6, sums ? middle - 7 : middle);
  c.textAlign = "left";
}

function drawItem(c, made, item, k, way) {
  const x = item.x - WIDTH / 2, y = item.y - HEIGHT / 2;
  const fill = fillOf(made, item, way), found = made.found[item.id], group = item.kind !== "node", critical = !group && made.critical[item.id] > 0;
  const chosen = state.selected >= 0 && (made.itemOf[state.selected] === item.id);
  if (item.kind === "group" && k > READABLE) { /* a second one behind it */
    c.lineWidth = 1;
    c.strokeStyle = palette.strong;
    c.strokeRect(x + 3, y + 3, WIDTH, HEIGHT);
  }
  c.fillStyle = found ? palette["found-fill"] : fill;
  c.fillRect(x, y, WIDTH, HEIGHT);
  if (item.kind === "head" || (item.kind === "group" && way !== "time" && !found)) {
    c.fillStyle = tint(item.group, 0.3);
    c.fillRect(x, y, WIDTH, HEIGHT);
  }
  c.strokeStyle = chosen ? palette.accent : found ? palette.found : critical ? palette.critical : palette.strong;
  c.lineWidth = (chosen ? 3.5 : found || critical ? 2 : 1) / Math.min(1, Math.max(k, 0.3));
  if (item.kind !== "head" || chosen || found) c.strokeRect(x, y, WIDTH, HEIGHT);
  if (group && made.critical[item.id] > 0) {
    c.fillStyle = palette.critical;
    c.fillRect(x, y + HEIGHT - 3, WIDTH * made.critical[item.id], 3);
  }
  if (!group) {
    c.fillStyle = palette[familyOf(item.node)];
    c.fillRect(x, y, 5, HEIGHT);
  }
  if (k > READABLE) drawText(c, made, item, x, y, found ? palette["found-fill"] : fill, way);
}

/* Letters of one size on the screen, where a folded group or a heading has the room. */
function nameGroupsFromAfar(c, made, transform) {
  const taken = [];
  c.font = `600 ${font(12)}`;
  c.lineWidth = 3;
  c.strokeStyle = palette.page;
  for (const item of made.items) {
    if (item.kind === "node") continue;
    const x = transform.applyX(item.x - WIDTH / 2), y = transform.applyY(item.y);
    if (x > c.canvas.clientWidth || y > c.canvas.clientHeight || x < -200 || y < -20 || taken.length > 400) continue;
    const text = fitPath(c, labelOf(item), Math.max(40, Math.round(WIDTH * transform.k))), width = c.measureText(text).width;
    if (taken.some(t => x < t[0] + t[2] + 6 && t[0] < x + width + 6 && Math.abs(y - t[1]) < 15)) continue;
    taken.push([x, y, width]);
    c.strokeText(text, x, y);
    c.fillStyle = palette.ink;
    c.fillText(text, x, y);
  }
}

function drawNothing(c) {
  c.font = font(15);
  c.fillStyle = palette.soft;
  c.textAlign = "center";
  c.fillText("no nodes", c.canvas.clientWidth / 2, c.canvas.clientHeight / 2);
  c.textAlign = "left";
}

function drawLayout(canvas, made, transform, way) {
  const c = contextOf(canvas), k = transform.k;
  const [x0, y0] = transform.invert([0, 0]), [x1, y1] = transform.invert([canvas.clientWidth, canvas.clientHeight]);
  const seen = {x0, y0, x1, y1};
  c.save();
  c.translate(transform.x, transform.y);
  c.scale(k, k);
  c.textBaseline = "middle";
  for (const box of made.boxes) {
    if (box.x0 > x1 || box.x1 < x0 || box.y0 > y1 || box.y1 < y0) continue;
    c.fillStyle = tint(box.group, 0.16);
    c.fillRect(box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0);
  }
  drawEdges(c, made, seen, k);
  for (const item of made.items)
    if (item.x + WIDTH > x0 && item.x - WIDTH < x1 && item.y + HEIGHT > y0 && item.y - HEIGHT < y1) drawItem(c, made, item, k, way);
  c.restore();
  c.textBaseline = "middle";
  if (!made.items.length) drawNothing(c);
  if (k <= READABLE && k > NAMED) nameGroupsFromAfar(c, made, transform);
}
