/* SPDX-License-Identifier: MIT */
/* memory.js: how much of the graph's own pool is in use at each node, in their order: from the first node that addresses it to the last. */
const CHART = {height: 190, left: 76, right: 28, top: 8, bottom: 40};

const ascending = (a, b) => (a < b ? -1 : a > b ? 1 : 0); /* of BigInts, whose difference is no number */
const blocks = data.blocks.map(([base, bytes]) => ({base: BigInt(base), bytes: BigInt(bytes)}));
blocks.sort((a, b) => ascending(a.base, b.base) || ascending(a.bytes, b.bytes));
const blocksByBase = new Map(blocks.map(block => [block.base, block])); /* the last of a base is its largest */

/* Allocations that lived when the capture ended are in the words themselves. Of what was freed in the capture the words have the address,
 * and the record the blocks that the capture was given: the largest of those that begin there, else the smallest around it. */
function findBlock(address) {
  let best = blocksByBase.get(address) || null;
  if (best) return best;
  const end = d3.bisector(block => block.base).right(blocks, address);
  for (let i = end - 1; i >= Math.max(0, end - 64); i--)
    if (blocks[i].base + blocks[i].bytes > address && (!best || blocks[i].bytes < best.bytes)) best = blocks[i];
  return best;
}

/* Spans of the pool with the first and the last node that address them; and what is not among them. */
function usesOfPool() {
  const spans = new Map(), elsewhere = new Map(), unsized = new Set();
  const use = (base, bytes, at) => {
    const key = `${base} ${bytes}`, span = spans.get(key);
    if (!span) spans.set(key, {base, end: base + bytes, first: at, last: at});
    else [span.first, span.last] = [Math.min(span.first, at), Math.max(span.last, at)];
  };
  nodes.forEach((node, i) => {
    for (const word of node.w) {
      if (!word[WORD.sure]) continue;
      const a = word[WORD.allocation] < 0 ? null : data.allocations[word[WORD.allocation]];
      if (!word[WORD.internal]) {
        if (a) elsewhere.set(word[WORD.allocation], a);
        continue;
      }
      const block = a ? {base: BigInt(a[0]), bytes: BigInt(a[1])} : findBlock(BigInt(word[WORD.value]));
      if (block) use(block.base, block.bytes, outermost[i]);
      else unsized.add(word[WORD.value]);
    }
  });
  return {spans: Array.from(spans.values()), elsewhere: Array.from(elsewhere.values(), a => a[1]),
    foreign: Array.from(elsewhere.values()).filter(a => a[5]).map(a => a[1]), unsized: unsized.size};
}

/* Memory that several spans share counts once, from the first use of any of them to the last: cut at every border, from low addresses
 * to high. */
function liveBytes(spans) {
  const change = new Float64Array(data.outer + 1), live = new Float64Array(data.outer);
  const borders = Array.from(new Set(spans.flatMap(span => [span.base, span.end]))).sort(ascending);
  spans.sort((a, b) => ascending(a.base, b.base));
  let open = [], next = 0;
  for (let i = 0; i + 1 < borders.length; i++) {
    while (next < spans.length && spans[next].base <= borders[i]) open.push({...spans[next++]});
    open = open.filter(span => span.end > borders[i]);
    if (!open.length) continue;
    const first = d3.min(open, span => span.first), last = d3.max(open, span => span.last);
    /* So many upon each other come from no allocator: taken as one, so that the time stays linear. */
    if (open.length > 64) open = [{end: open.reduce((end, span) => (span.end > end ? span.end : end), 0n), first, last}];
    const bytes = Number(borders[i + 1] - borders[i]);
    change[first] += bytes;
    change[last + 1] -= bytes;
  }
  for (let i = 0, sum = 0; i < data.outer; i++) live[i] = sum += change[i];
  return live;
}

const memory = {};

function memoryNote(uses) {
  const parts = ["Memory counts from the first node that addresses it to the last, also where it served for different things in between."];
  if (uses.unsized)
    parts.push(`Not in it: ${plural(uses.unsized, "address", "addresses")} of memory that had been freed when the capture ended, whose size this record does not have.`);
  if (uses.elsewhere.length)
    parts.push(`Not in it: ${plural(uses.elsewhere.length, "allocation")} from elsewhere, ${formatBytes(d3.sum(uses.elsewhere))}` +
      (uses.foreign.length ? `, of which ${formatBytes(d3.sum(uses.foreign))} in ${plural(uses.foreign.length, "allocation")} are other code's.` : "."));
  return parts.join(" ");
}

/* Steps are thinned where there are more nodes than pixels: the largest of each pixel is kept. */
function thinned(live, width) {
  const every = Math.max(1, Math.floor(live.length / Math.max(1, width))), points = [];
  for (let i = 0; i < live.length; i += every) points.push([i, d3.max(live.subarray(i, i + every))]);
  if (live.length) points.push([live.length, points[points.length - 1][1]]);
  return points;
}

function drawMemory() {
  const width = byId("memory-chart").clientWidth, {height, left, right, top, bottom} = CHART;
  const most = d3.max(memory.live) || 0;
  memory.x = d3.scaleLinear().domain([0, Math.max(1, data.outer)]).range([left, width - right]);
  memory.y = d3.scaleLinear().domain([0, 1.04 * most || 1]).range([height - bottom, top]);
  const svg = d3.select(memory.svg).attr("width", width).attr("height", height);
  svg.selectAll("*").remove();
  const bytes = d3.axisLeft(memory.y).tickValues(bytesTicks(most)).tickSize(-(width - left - right)).tickFormat(formatBytes);
  const order = d3.axisBottom(memory.x).ticks(Math.max(2, width / 130)).tickFormat(v => (Number.isInteger(v) ? formatCount(v) : ""));
  svg.append("g").attr("class", "grid").attr("transform", `translate(${left},0)`).call(bytes);
  const area = d3.area().curve(d3.curveStepAfter).x(p => memory.x(p[0])).y0(height - bottom).y1(p => memory.y(p[1]));
  svg.append("path").attr("class", "area").attr("d", area(thinned(memory.live, width)));
  svg.append("g").attr("transform", `translate(0,${height - bottom})`).call(order);
  svg.append("text").attr("x", (left + width - right) / 2).attr("y", height - 6).attr("text-anchor", "middle").text("node, in order");
  memory.cursor = svg.append("line").attr("class", "cursor").attr("y1", top).attr("y2", height - bottom).node();
  markMemory();
}

/* Round in powers of two, as sizes are. */
function bytesTicks(most) {
  const step = Math.pow(2, Math.ceil(Math.log2(Math.max(1, most / 5))));
  return d3.range(0, 1.04 * most, step);
}

function markMemory() {
  const at = state.selected < 0 ? -1 : outermost[state.selected];
  const x = memory.x(at + 0.5);
  d3.select(memory.cursor).attr("visibility", at < 0 ? "hidden" : "visible").attr("x1", x).attr("x2", x);
}

function goInMemory(to) {
  const at = Math.max(0, Math.min(data.outer - 1, to));
  select(at, "memory");
  announce(`${at}: ${nameOf(at)}, ${formatBytes(memory.live[at])} in use`);
}

function startMemory() {
  memory.uses = usesOfPool();
  if (!memory.uses.spans.length && !memory.uses.unsized) {
    byId("memory-note").textContent = "No node addresses memory of the graph’s own pool.";
    return;
  }
  memory.live = liveBytes(memory.uses.spans);
  byId("memory-note").textContent = memoryNote(memory.uses);
  const label = `Memory in use over ${plural(data.outer, "node")}, at most ${formatBytes(d3.max(memory.live) || 0)}; arrow keys go from node to node`;
  memory.pad = make("canvas", {tabindex: "0", role: "application", id: "memory-canvas", "aria-label": label});
  memory.pad.style.height = `${CHART.height}px`;
  memory.svg = d3.create("svg").attr("aria-hidden", "true").node();
  byId("memory-chart").append(memory.pad, memory.svg);
  const step = by => goInMemory(state.selected < 0 ? 0 : outermost[state.selected] + by);
  const leap = Math.max(2, Math.round(data.outer / 20));
  listenToKeys(memory.pad, {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), "Shift+ArrowLeft": () => step(-leap), "Shift+ArrowRight": () => step(leap),
    Home: () => goInMemory(0), End: () => goInMemory(data.outer - 1), "?": () => openHelp()
  });
  memory.pad.addEventListener("click", event => goInMemory(Math.floor(memory.x.invert(event.offsetX))));
  drawMemory();
  on("select", markMemory);
  on("resize", drawMemory);
}
