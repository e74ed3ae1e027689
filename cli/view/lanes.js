/* SPDX-License-Identifier: MIT */
/* lanes.js: the layout in columns, in linear time: each item stands below all that it depends on, chains keep to a lane, and what gets too long
 * goes on at the top of the next column, as text does. */
const GAP_X = 30, GAP_Y = 16, COLUMN_GAP = 64;

/* The longest way from an item without dependencies. Items come in no order that suits, so they are taken when all before them are. */
function layersOf(items) {
  const left = items.map(item => item.from.length), ready = [], layers = [];
  items.forEach(item => {
    item.layer = 0;
    if (item.from.length === 0) ready.push(item);
  });
  for (let next = 0; next < ready.length; next++) {
    const item = ready[next];
    (layers[item.layer] = layers[item.layer] || []).push(item);
    for (const to of item.to) {
      items[to].layer = Math.max(items[to].layer, item.layer + 1);
      if (--left[to] === 0) ready.push(items[to]);
    }
  }
  layers.forEach(layer => layer.sort((a, b) => a.id - b.id));
  return layers;
}

class Lanes {
  constructor() {
    this.free = []; /* a heap: the leftmost first */
    this.count = 0;
  }
  give(lane) {
    const heap = this.free;
    let at = heap.push(lane) - 1;
    for (let up; at > 0 && heap[(up = (at - 1) >> 1)] > heap[at]; at = up) [heap[at], heap[up]] = [heap[up], heap[at]];
  }
  take() {
    const heap = this.free;
    if (!heap.length) return this.count++;
    const top = heap[0], last = heap.pop();
    if (heap.length) {
      heap[0] = last;
      for (let at = 0, down; (down = 2 * at + 1) < heap.length; at = down) {
        if (down + 1 < heap.length && heap[down + 1] < heap[down]) down++;
        if (heap[down] >= heap[at]) break;
        [heap[at], heap[down]] = [heap[down], heap[at]];
      }
    }
    return top;
  }
}

/* An item leaves its lane to its successor, the first that depends on it; a lane without one is free below it. */
function assignLanes(items, layers) {
  for (const item of items) {
    item.successor = -1;
    for (const to of item.to) {
      const best = item.successor < 0 ? null : items[item.successor];
      if (!best || items[to].layer < best.layer || (items[to].layer === best.layer && to < best.id)) item.successor = to;
    }
  }
  const lanes = new Lanes();
  let ended = [];
  for (const layer of layers) {
    ended.forEach(lane => lanes.give(lane));
    ended = [];
    for (const item of layer) {
      const own = item.from.filter(from => items[from].successor === item.id).map(from => items[from].lane);
      item.lane = own.length ? Math.min(...own) : -1;
      own.forEach(lane => lane !== item.lane && lanes.give(lane));
      for (const from of item.from) if (items[from].successor === item.id && items[from].lane !== item.lane) items[from].successor = -2;
    }
    for (const item of layer) {
      if (item.lane < 0) item.lane = lanes.take();
      if (item.to.length === 0) ended.push(item.lane);
    }
  }
  return lanes.count;
}

/* Rows of layers into columns of about the canvas's shape; a column rather ends before a heading or a group. */
function placeInColumns(items, aspect) {
  const layers = layersOf(items), lanes = assignLanes(items, layers);
  const widest = d3.max(layers, layer => layer.length) || 1;
  const across = Math.min(lanes, Math.max(8, Math.min(64, Math.ceil(Math.sqrt(widest)))));
  const width = across * (WIDTH + GAP_X) - GAP_X + COLUMN_GAP, step = HEIGHT + GAP_Y;
  const rowsOf = layer => 1 + d3.max(layer, item => Math.floor(item.lane / across));
  const height = d3.sum(layers, rowsOf) * step;
  const columns = Math.max(1, Math.round(Math.sqrt((aspect * height) / width)));
  const limit = height / columns;
  let x = 0, y = 0;
  for (const layer of layers) {
    const begins = layer.some(item => item.kind === "head");
    if (y >= limit || (begins && y > 0.85 * limit)) {
      x += width;
      y = 0;
    }
    for (const item of layer) {
      item.x = x + (item.lane % across) * (WIDTH + GAP_X);
      item.y = y + Math.floor(item.lane / across) * step;
      item.column = x;
    }
    y += rowsOf(layer) * step;
  }
}
