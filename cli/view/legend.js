/* SPDX-License-Identifier: MIT */
/* legend.js: what the colours mean that are in sight: in the drawing as it is folded, and in the timeline. */
function swatch(background, text) {
  const square = make("i");
  square.style.background = background;
  return make("span", {}, square, text);
}
const named = (name, text) => swatch(`var(--${name})`, text);

function legendOfKinds(shown) {
  const there = new Set(shown.map(familyOf));
  return Object.keys(familyNames).filter(name => there.has(name)).map(name => named(name, familyNames[name]));
}

function legendOfGroups(items) {
  const groups = Array.from(new Set(items.filter(item => item.kind !== "node").map(item => item.group)));
  const colours = Array.from(new Set(groups.filter(group => hues[group] !== null).map(group => tint(group, 0.6)))).slice(0, 3);
  const parts = [], alone = colours.length < 2;
  if (colours.length) parts.push(swatch(alone ? colours[0] : `linear-gradient(90deg, ${colours.join(", ")})`, alone ? "group" : "groups, a colour for each name"));
  if (groups.some(group => hues[group] === null)) parts.push(swatch(shade(null, 0.6), "in no scope"));
  return parts;
}

function showLegend() {
  const made = drawing.made, drawn = made.items.filter(item => item.kind === "node"), folded = made.items.some(item => item.kind === "group"), parts = [];
  if (drawing.way === "time" && made.items.length) parts.push(named("cold", "little"), named("hot", hasTimes ? "most of the time" : "most threads or bytes"));
  parts.push(...legendOfKinds(drawn.map(item => item.node)));
  if (drawing.way !== "time" || !folded) parts.push(...legendOfGroups(made.items));
  if (made.critical.some(share => share > 0)) parts.push(named("critical", "critical path"));
  if (made.found.some(found => found)) parts.push(named("found", "found by the search"));
  byId("legend").replaceChildren(...parts);
}

function showTimelineLegend() {
  const shown = timeline.bars.map(bar => bar.node), parts = legendOfKinds(shown);
  if (timeline.spans.length) parts.push(swatch(shade(hueOfNode(timeline.spans[0].node), 0.6), "annotations, above them"));
  if (shown.some(isCritical)) parts.push(named("critical", "critical path"));
  if (shown.some(i => state.found.has(i))) parts.push(named("found", "found by the search"));
  byId("timeline-legend").replaceChildren(...parts);
}

function startLegends() {
  const both = () => {
    showLegend();
    if (timeline.canvas) showTimelineLegend();
  };
  for (const what of ["found", "theme", "grouping"]) on(what, both);
  both();
}
