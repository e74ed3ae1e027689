/* SPDX-License-Identifier: MIT */
/* table.js: all nodes as a table, a page at a time, in the order of any column: what the drawing shows, as text. */
const ROWS = 100;
const columns = [
  {title: "Name", of: i => nameOf(i), text: true},
  {title: "Number", of: i => i, show: formatCount},
  {title: "Kind", of: i => kindOf(i), text: true},
  {title: "Annotation", of: originOf, text: true, only: () => data.annotations.length > 0 || nodes.some(node => node.m !== undefined)},
  {title: "Time", of: timeOf, show: v => (v < 0 ? "–" : formatTime(v)), only: () => hasTimes},
  {title: "Share", of: timeOf, show: v => (v < 0 ? "–" : formatShare(v / Math.max(1, workOf()))), only: () => hasTimes},
  {title: "Slack", of: i => (nodes[i].t ? nodes[i].t[4] : -1), show: (v, i) => (v < 0 ? "–" : isCritical(i) ? "critical" : formatTime(v)), only: () => hasTimes},
  {title: "Threads", of: threadsOf, show: v => (v ? formatCount(v) : "–")},
  {title: "Bytes", of: i => nodes[i].b, show: v => (v ? formatBytes(v) : "–")},
  {title: "Addresses", of: i => nodes[i].w.filter(word => word[WORD.sure] > 0).length, show: formatCount},
  {title: "Depends on", of: i => nodes[i].d.length, show: formatCount}
].filter(column => !column.only || column.only());

let work = -1;
function workOf() {
  if (work < 0) work = d3.sum(nodes, (node, i) => Math.max(0, timeOf(i)));
  return work;
}

const table = {order: [], page: 0, by: columns.findIndex(column => column.title === (hasTimes ? "Time" : "Threads")), down: true};

function sortTable() {
  const column = columns[table.by], sign = table.down ? -1 : 1;
  const keys = nodes.map((node, i) => column.of(i));
  const compare = column.text ? (a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0) : (a, b) => keys[a] - keys[b];
  const only = byId("only-found").checked && state.query;
  table.order = d3.range(count).filter(i => !only || state.found.has(i)).sort((a, b) => sign * compare(a, b) || a - b);
}

function headOf(column, at) {
  const sorted = at === table.by;
  const button = make("button", {type: "button", onclick: () => {
    table.down = sorted ? !table.down : !column.text;
    table.by = at;
    table.page = 0;
    sortTable();
    fillTable();
    byId("table-head").children[at].firstChild.focus();
    announce(`Sorted by ${column.title.toLowerCase()}, ${table.down ? "largest first" : "smallest first"}`);
  }}, column.title, make("span", {"aria-hidden": "true", text: sorted ? (table.down ? " ▼" : " ▲") : ""}));
  const cell = make("th", {scope: "col", class: column.text ? "" : "number"}, button);
  if (sorted) cell.setAttribute("aria-sort", table.down ? "descending" : "ascending");
  return cell;
}

function cellOf(column, at, i) {
  const value = column.of(i), shown = column.show ? column.show(value, i) : value;
  if (at === 0)
    return make("th", {scope: "row"}, make("button", {type: "button", "aria-pressed": String(i === state.selected), onclick: () => select(i, "table")}, shown));
  return make("td", {class: [column.text ? "" : "number", shown === "critical" ? "critical" : ""].join(" ").trim()}, String(shown));
}

function fillTable() {
  const pages = Math.max(1, Math.ceil(table.order.length / ROWS));
  table.page = Math.max(0, Math.min(table.page, pages - 1));
  byId("table-head").replaceChildren(...columns.map(headOf));
  const rows = table.order.slice(table.page * ROWS, (table.page + 1) * ROWS).map(i => make("tr",
    {"data-node": i, class: [i === state.selected ? "selected" : "", state.found.has(i) ? "found" : ""].join(" ").trim()},
    ...columns.map((column, at) => cellOf(column, at, i))));
  byId("table-body").replaceChildren(...rows);
  byId("page-now").textContent = `page ${table.page + 1} of ${formatCount(pages)}, ${plural(table.order.length, "node")}`;
  byId("page-back").disabled = table.page === 0;
  byId("page-on").disabled = table.page === pages - 1;
}

function markSelected() {
  for (const row of byId("table-body").children) {
    const chosen = Number(row.dataset.node) === state.selected;
    row.classList.toggle("selected", chosen);
    row.firstChild.firstChild.setAttribute("aria-pressed", String(chosen));
  }
}

function startTable() {
  const turn = by => {
    table.page += by;
    fillTable();
  };
  const again = () => {
    table.page = 0;
    sortTable();
    fillTable();
  };
  byId("page-back").addEventListener("click", () => turn(-1));
  byId("page-on").addEventListener("click", () => turn(1));
  byId("only-found").addEventListener("change", again);
  on("select", markSelected);
  on("found", again);
  again();
}
