/* SPDX-License-Identifier: MIT */
/* details.js: one node: dimensions, times, annotation, neighbours, and what it reads and writes. */
const MOST_ROWS = 200;

function rowOf(list, term, ...values) {
  list.append(make("dt", {text: term}), make("dd", {}, ...values.map(String)));
}

function nodeButton(i) {
  const short = Array.from(shortName(nameOf(i)));
  return make("button", {type: "button", title: nameOf(i), onclick: () => select(i, "details")}, `${i} ${short.slice(0, 80).join("")}${short.length > 80 ? "…" : ""}`);
}

function neighbours(title, list) {
  if (!list.length) return [make("h3", {text: title}), make("p", {class: "note", text: "none"})];
  const shown = list.slice(0, 40).map(i => make("li", {}, nodeButton(i)));
  if (list.length > shown.length) shown.push(make("li", {text: `and ${plural(list.length - shown.length, "more", "more")}`}));
  return [make("h3", {text: title}), make("ul", {}, ...shown)];
}

function facts(i) {
  const list = make("dl"), s = nodes[i].s, t = nodes[i].t;
  rowOf(list, "kind", kindOf(i));
  if (nodes[i].r !== undefined) rowOf(list, "raw name", data.names[nodes[i].r]);
  if (s) {
    rowOf(list, "grid", s.slice(0, 3).join(" × "));
    rowOf(list, "block", s.slice(3, 6).join(" × "));
    if (s[6]) rowOf(list, "shared memory", formatBytes(s[6]));
    rowOf(list, "parameters", formatBytes(s[7]));
  }
  if (nodes[i].b) rowOf(list, "bytes", `${formatCount(nodes[i].b)} (${formatBytes(nodes[i].b)})`);
  if (madeFor(i)) rowOf(list, "made for", madeFor(i));
  for (const [key, value] of pairsOf(i)) rowOf(list, key, value);
  if (nodes[i].p >= 0) rowOf(list, "in the body of", nodes[i].p);
  if (t) {
    rowOf(list, "time", `${formatTime(t[1])} (${formatTime(t[2])} to ${formatTime(t[3])})`);
    rowOf(list, "starts at", formatTime(t[0]));
    list.append(make("dt", {text: "critical path"}),
      t[6] ? make("dd", {class: "critical", text: "yes"}) : make("dd", {text: `no, slack ${formatTime(t[4])}`}));
  }
  return list;
}

function freedText(word) {
  const block = findBlock(BigInt(word[WORD.value]));
  return `own pool, freed in the capture${block ? `: ${formatBytes(Number(block.bytes))}` : ""}`;
}

/* "+256 in 4 KiB at 0x7f00, own pool" */
function memoryText(word) {
  const a = word[WORD.allocation] < 0 ? null : data.allocations[word[WORD.allocation]];
  if (!a) return word[WORD.internal] ? freedText(word) : word[WORD.sure] ? "no memory that the library knows" : "";
  const where = word[WORD.internal] ? "own pool" : a[5] ? (a[4] ? "other code's pinned host memory" : "other code's memory") : a[4] ? "pinned host memory" : `pool ${a[3]}`;
  return `+${formatCount(word[WORD.at])} in ${formatBytes(a[1])} at ${a[0]}, ${where}`;
}

function wordTable(i) {
  const words = nodes[i].w;
  if (!words.length) return [make("h3", {text: "Reads and writes"}), make("p", {class: "note", text: "No parameters that the record knows of."})];
  const addresses = words.filter(word => word[WORD.sure] > 0), values = words.length - addresses.length;
  const rows = words.slice(0, MOST_ROWS).map(word => make("tr", {},
    make("th", {scope: "row"}, make("code", {text: data.names[word[WORD.name]]})),
    make("td", {text: ["value", "suspected", "proved"][word[WORD.sure]] + (directionOf(i, word) ? ", " + directionOf(i, word) : "")}),
    make("td", {}, make("code", {text: word[WORD.value]}), ...(memoryText(word) ? [make("br"), memoryText(word)] : []))));
  const parts = [make("h3", {text: "Reads and writes"})];
  if (kindOf(i) === "kernel")
    parts.push(make("p", {class: "note", text: "Parameters tell which memory a kernel addresses, not whether it reads or writes it."}));
  const caption = `${plural(addresses.length, "address", "addresses")} and ${plural(values, "value")}`;
  parts.push(make("table", {}, make("caption", {class: "hidden", text: caption}),
    make("thead", {}, make("tr", {}, ...["word", "is", "holds"].map(text => make("th", {scope: "col", text})))), make("tbody", {}, ...rows)));
  if (words.length > MOST_ROWS) parts.push(make("p", {class: "note", text: `and ${plural(words.length - MOST_ROWS, "more", "more")}`}));
  return parts;
}

/* What most of it is: by time where there is one, else by the number of nodes. */
function overview(title, keyOf) {
  const totals = new Map();
  nodes.forEach((node, i) => {
    if (node.p >= 0) return;
    const total = totals.get(keyOf(i)) || {nodes: 0, time: 0};
    total.nodes++;
    total.time += Math.max(0, timeOf(i));
    totals.set(keyOf(i), total);
  });
  const sorted = Array.from(totals).sort((a, b) => b[1].time - a[1].time || b[1].nodes - a[1].nodes), shown = sorted.slice(0, 8);
  const heads = [title, "nodes", ...(hasTimes ? ["time"] : [])].map((text, at) => make("th", {scope: "col", class: at ? "number" : "", text}));
  const number = text => make("td", {class: "number", text});
  const rows = shown.map(([key, total]) => make("tr", {}, make("th", {scope: "row", title: key.slice(0, 400), text: shortName(key).slice(0, 60)}),
    number(formatCount(total.nodes)), ...(hasTimes ? [number(formatTime(total.time))] : [])));
  const parts = [make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))];
  if (sorted.length > shown.length) parts.push(make("p", {class: "note", text: `and ${plural(sorted.length - shown.length, "more", "more")}`}));
  return parts;
}

function showDetails() {
  const i = state.selected, body = byId("details-body");
  if (i < 0) {
    byId("details-title").textContent = "Nothing selected";
    body.replaceChildren(make("p", {class: "note", text: "Choose a node in the drawing, a chart or the table: what it reads and writes is shown here."}),
      ...overview("Kernels and other work", nameOf), ...(data.annotations.length ? overview("Annotations", i => originOf(i) || "not annotated") : []));
    return;
  }
  byId("details-title").textContent = `${i}: ${nameOf(i)}`;
  const races = racesOf(i), told = races.length ? [make("h3", {text: "Races"}), make("ul", {class: "races"}, ...races.slice(0, 20).map(raceItem))] : [];
  body.replaceChildren(facts(i), ...told, ...wordTable(i), ...neighbours("Depends on", nodes[i].d), ...neighbours("Before", dependents[i]));
}

function startDetails() {
  on("select", showDetails);
  showDetails();
}
