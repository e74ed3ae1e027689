/* SPDX-License-Identifier: MIT */
/* text.js: elements, and numbers as people read them. What comes from the record becomes text, never markup. */
const byId = id => document.getElementById(id);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const plural = (count, one, many) => `${formatCount(count)} ${count === 1 ? one : many || one + "s"}`;
const formatCount = d3.format(",d");

function scaled(value, steps) {
  let i = 0;
  while (i + 1 < steps.length && value >= steps[i + 1][0]) i++;
  const shown = value / steps[i][0];
  return `${i === 0 || shown >= 100 ? Math.round(shown) : shown.toPrecision(3).replace(/\.?0+$/, "")} ${steps[i][1]}`;
}
const formatTime = ns => scaled(ns, [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]]);
const formatBytes = bytes => scaled(bytes, [[1, "B"], [1024, "KiB"], [1048576, "MiB"], [1073741824, "GiB"], [1099511627776, "TiB"]]);
const formatShare = share => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/* "void at::foo<4, float>(int)" is too long for a box: foo. */
function shortName(name) {
  const bare = name.replace(/^void\s+/, "");
  const end = bare.search(/[<(]/);
  const head = end > 0 ? bare.slice(0, end) : bare;
  return head.slice(head.lastIndexOf("::") < 0 ? 0 : head.lastIndexOf("::") + 2) || name;
}

/* Cut so that it fits: in the middle, or at the end. */
const cuts = new Map();
function fitText(context, text, width, end) {
  const key = `${width}|${end ? 1 : 0}|${context.font}|${text}`;
  let cut = cuts.get(key);
  if (cut !== undefined) return cut;
  const all = Array.from(text.length > 400 ? text.slice(0, 400) : text);
  cut = all.join("");
  for (let keep = all.length; keep > 2 && context.measureText(cut).width > width;) {
    keep = Math.min(keep - 1, Math.ceil(keep * width / context.measureText(cut).width));
    const tail = end ? 0 : Math.floor(keep / 3);
    cut = all.slice(0, keep - tail).join("") + "…" + (tail ? all.slice(-tail).join("") : "");
  }
  if (cuts.size > 50000) cuts.clear();
  cuts.set(key, cut);
  return cut;
}

/* Without its beginning, so that the end fits. */
function fitEnd(context, text, width) {
  const all = Array.from(text);
  let keep = all.length - 1;
  while (keep > 1 && context.measureText("…" + all.slice(-keep).join("")).width > width) keep--;
  return "…" + all.slice(-keep).join("");
}

/* "encoder.layers.0.attention.query (backward)" is called by its end where that is too long: "…query (backward)". */
function fitPath(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const key = `path|${width}|${context.font}|${text}`, known = cuts.get(key);
  if (known !== undefined) return known;
  const end = text.search(/[ ,]/), path = (end < 0 ? text : text.slice(0, end)).slice(-200).split("."), rest = end < 0 ? "" : text.slice(end);
  const phase = /^ \([^)]*\)/.exec(rest), room = width - (phase ? context.measureText(phase[0]).width : 0);
  let cut = "";
  for (let first = 1; first < path.length && !cut; first++) {
    const last = "…" + path.slice(first).join(".");
    if (context.measureText(last + rest).width <= width) cut = last + rest;
  }
  if (!cut && path.length > 1 && room > width / 3) {
    const last = "…" + path[path.length - 1];
    cut = (context.measureText(last).width <= room ? last : fitEnd(context, path[path.length - 1], room)) + (phase ? phase[0] : "");
  }
  if (!cut) return fitText(context, text, width, phase !== null);
  cuts.set(key, cut);
  return cut;
}

function announce(text) {
  byId("announce").textContent = text;
}
