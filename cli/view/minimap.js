/* SPDX-License-Identifier: MIT */
/* minimap.js: a small picture of the whole drawing in its corner, where only a part of a large one is in sight; a click or drag there moves the
 * drawing. It is a help for the mouse alone: the keyboard has the search, the arrows and the table. */
const MINIMAP = {width: 200, height: 140, items: 80, share: 0.75, pad: 3};
const minimap = {canvas: byId("minimap"), picture: document.createElement("canvas"), of: null, drag: false};

/* How drawing and minimap lie to each other. */
function minimapScale() {
  const made = drawing.made, w = made.x1 - made.x0, h = made.y1 - made.y0, pad = MINIMAP.pad;
  const k = Math.min((MINIMAP.width - 2 * pad) / w, (MINIMAP.height - 2 * pad) / h);
  return {k, x: (MINIMAP.width - k * w) / 2 - k * made.x0, y: (MINIMAP.height - k * h) / 2 - k * made.y0};
}

/* What of the drawing is in sight, in its own lengths. */
function partInSight() {
  const made = drawing.made, t = drawing.transform, [x0, y0] = t.invert([0, 0]), [x1, y1] = t.invert([drawing.canvas.clientWidth, drawing.canvas.clientHeight]);
  const part = {x0: Math.max(x0, made.x0), y0: Math.max(y0, made.y0), x1: Math.min(x1, made.x1), y1: Math.min(y1, made.y1)};
  const share = Math.max(0, part.x1 - part.x0) * Math.max(0, part.y1 - part.y0) / ((made.x1 - made.x0) * (made.y1 - made.y0));
  return {...part, share};
}

const isMinimapWanted = part => drawing.made.items.length > MINIMAP.items && part.share < MINIMAP.share;

/* Drawn once for each layout, choice of colours and search: there may be tens of thousands of items. */
function pictureOfItems(scale) {
  const made = drawing.made, ratio = window.devicePixelRatio || 1;
  const of = [made, palette, drawing.way, made.found, ratio];
  if (minimap.of && of.every((part, i) => part === minimap.of[i])) return;
  minimap.of = of;
  minimap.picture.width = MINIMAP.width * ratio;
  minimap.picture.height = MINIMAP.height * ratio;
  const c = minimap.picture.getContext("2d"), w = Math.max(1, WIDTH * scale.k), h = Math.max(1, HEIGHT * scale.k);
  c.scale(ratio, ratio);
  for (const item of made.items) {
    if (made.found[item.id]) c.fillStyle = palette.found;
    else if (drawing.way === "time" && item.kind !== "head") c.fillStyle = fillOf(made, item, "time");
    else c.fillStyle = item.group >= 0 ? tint(item.group, 0.75) : palette[familyOf(item.node)];
    c.fillRect(scale.x + scale.k * item.x - w / 2, scale.y + scale.k * item.y - h / 2, w, h);
  }
}

function drawMinimap() {
  const part = partInSight(), wanted = isMinimapWanted(part);
  minimap.canvas.hidden = !wanted;
  if (!wanted) return;
  const scale = minimapScale(), c = contextOf(minimap.canvas);
  pictureOfItems(scale);
  c.drawImage(minimap.picture, 0, 0, MINIMAP.width, MINIMAP.height);
  c.strokeStyle = palette.accent;
  c.lineWidth = 2;
  c.strokeRect(scale.x + scale.k * part.x0, scale.y + scale.k * part.y0, Math.max(4, scale.k * (part.x1 - part.x0)), Math.max(4, scale.k * (part.y1 - part.y0)));
}

function centreOn(event) {
  const scale = minimapScale(), k = drawing.transform.k, w = drawing.canvas.clientWidth, h = drawing.canvas.clientHeight;
  const x = (event.offsetX - scale.x) / scale.k, y = (event.offsetY - scale.y) / scale.k;
  zoomed.call(zoom.transform, d3.zoomIdentity.translate(w / 2 - k * x, h / 2 - k * y).scale(k));
}

function startMinimap() {
  const canvas = minimap.canvas;
  canvas.addEventListener("pointerdown", event => {
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    minimap.drag = true;
    centreOn(event);
  });
  canvas.addEventListener("pointermove", event => minimap.drag && centreOn(event));
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (minimap.drag = false));
}
