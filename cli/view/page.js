/* SPDX-License-Identifier: MIT */
/* page.js: title, search, choices, theme, help; and the start of it all. */
const keysOfHelp = [
  ["← →", "the node before, behind", "the node before, behind"],
  ["↑ ↓", "what it depends on, what depends on it", ""],
  ["Shift and arrows", "move the drawing", "move the timeline; in the memory chart by a twentieth"],
  ["+ − 0", "zoom, and back to all of it", "the same, timeline"],
  ["Home End", "", "the first and the last node, memory"],
  ["Enter", "folds and unfolds the group of the node", ""],
  ["f u", "fold, unfold all groups", ""],
  ["c", "the node into the middle", ""],
  ["/ n p", "the search, the next match, the one before", ""],
  ["?", "this list", "this list"]
];

function openHelp() {
  const help = byId("help");
  if (!byId("help-body").children.length)
    byId("help-body").append(...keysOfHelp.map(([key, ...what]) =>
      make("tr", {}, make("th", {scope: "row"}, make("kbd", {text: key})), ...what.map(text => make("td", {text})))));
  help.showModal();
}

/* ---- search ---- */

function search(query) {
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  state.query = words.join(" ");
  state.foundList = words.length ? d3.range(count).filter(i => words.every(word => searchTexts[i].includes(word))) : [];
  state.found = new Set(state.foundList);
  byId("found").textContent = words.length ? `${formatCount(state.foundList.length)} of ${plural(count, "node")}` : "";
  tell("found");
}

function goToFound(by) {
  const list = state.foundList;
  if (!list.length) return announce("Nothing was found");
  const at = list.indexOf(state.selected);
  const to = at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length;
  select(list[to], "search");
  announce(`Match ${to + 1} of ${list.length}: ${list[to]}, ${nameOf(list[to])}`);
}

function startSearch() {
  let timer = 0;
  const field = byId("search");
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => search(field.value), count > 2000 ? 120 : 0);
  });
  field.addEventListener("keydown", event => {
    if (event.key !== "Enter") return;
    clearTimeout(timer);
    if (field.value.trim().toLowerCase().split(/\s+/).join(" ") !== state.query) search(field.value);
    goToFound(event.shiftKey ? -1 : 1);
  });
  byId("next").addEventListener("click", () => goToFound(1));
  byId("previous").addEventListener("click", () => goToFound(-1));
}

/* ---- choices ---- */

function addOptions(select, options) {
  byId(select).append(...options.map(([value, text]) => make("option", {value, text})));
}

function groupingTitle(g) {
  return {part: "by part", annotation: "by annotation", order: "by order", nothing: "none", key: `by ${g.by}`}[g.kind];
}

function startChoices() {
  addOptions("grouping", data.groupings.map((g, i) => [i, groupingTitle(g)]));
  byId("grouping").addEventListener("change", event => {
    state.grouping = Number(event.target.value);
    foldAtFirst();
    layOut(-1);
    tell("grouping");
    announce(`Groups ${groupingTitle(grouping())}: ${plural(grouping().labels.length, "group")}`);
  });
  addOptions("layout", [["", "as it suits"], ["columns", "columns"], ...(data.layouts ? [["dot", "Graphviz"]] : [])]);
  byId("layout").addEventListener("change", event => {
    drawing.layout = event.target.value;
    layOut(-1);
    if (drawing.layout === "dot" && !drawing.made.dot) announce("Graphviz placed all groups open and all folded; what lies between is in columns");
  });
  addOptions("colour", [["kind", "by kind"], ["time", hasTimes ? "by time" : "by size"]]);
  byId("colour").addEventListener("change", event => {
    drawing.way = event.target.value;
    showLegend();
    redraw();
  });
}

/* ---- theme ---- */

/* Remembered where the browser lets a page do so; a file opened from disk may have no storage. */
function storage(act) {
  try {
    return act(window.localStorage);
  } catch (error) {
    return null;
  }
}

function startTheme() {
  const system = window.matchMedia("(prefers-color-scheme: dark)"), choice = byId("theme");
  const apply = () => {
    document.documentElement.classList.toggle("dark", choice.value ? choice.value === "dark" : system.matches);
    palette = colours();
    tell("theme");
  };
  const kept = storage(s => s.getItem("phonograph-theme"));
  choice.value = kept === "dark" || kept === "light" ? kept : "";
  choice.addEventListener("change", () => {
    storage(s => s.setItem("phonograph-theme", choice.value));
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

/* Which graph of which program; of records that do not say, the file. */
function graphTitle() {
  const o = data.origin;
  return [o.program, o.graph].filter(Boolean).join(", ");
}

function originText() {
  const o = data.origin, parts = [];
  if (graphTitle()) parts.push(data.file);
  if (o.device) parts.push(o.description ? `${o.description} (${o.device})` : o.device);
  if (o.driver) parts.push(`driver ${o.driver}${o.driver_version ? " " + o.driver_version : ""}`);
  if (o.library) parts.push(`phonograph ${o.library}`);
  if (o.date) parts.push(o.date.replace("T", " ").replace(/Z$/, " UTC"));
  return parts.join(" · ");
}

function showTitle() {
  document.title = [graphTitle(), data.file, "phonograph"].filter(Boolean).join(" · ");
  byId("title").textContent = graphTitle() || data.file;
  byId("origin").textContent = originText();
  byId("verdict").hidden = !data.verdict;
  byId("verdict").className = data.worth ? "worth" : "unworthy";
  if (data.verdict) byId("verdict").replaceChildren(make("strong", {text: data.worth ? "Worth it" : "Not worth it"}), `: ${data.verdict}`);
  const kernels = nodes.filter((node, i) => kindOf(i) === "kernel").length, inner = count - data.outer;
  const facts = [plural(data.outer, "node") + (inner ? ` and ${formatCount(inner)} in bodies` : ""), plural(data.edges, "edge"), plural(kernels, "kernel")];
  if (data.annotations.length) facts.push(plural(data.annotations.length, "annotation"));
  if (hasTimes && data.profile.replay_ns !== undefined) facts.push(`${formatTime(data.profile.replay_ns)} a replay`);
  byId("facts").textContent = facts.join(" · ");
  const [leftNodes, leftBlocks] = data.left;
  if (leftNodes || leftBlocks) {
    byId("left").hidden = false;
    byId("left").textContent = `Too large for a page: these are the first ${plural(count, "node")} with the edges between them. Left out: ` +
      [leftNodes && plural(leftNodes, "node"), leftBlocks && plural(leftBlocks, "block") + " of memory"].filter(Boolean).join(", ") + ".";
  }
  byId("made").textContent = `Written by phonograph ${data.version}. This file needs no network and sends nothing.`;
}

function start() {
  showTitle();
  startTheme();
  startChoices();
  startDrawing();
  startMinimap();
  startDetails();
  startTimeline();
  startMemory();
  startRaces();
  startSearch();
  startTable();
  startLegends();
  byId("help-open").addEventListener("click", openHelp);
  byId("help-close").addEventListener("click", () => byId("help").close());
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => tell("resize"));
  });
  document.documentElement.dataset.ready = "yes";
}
start();
