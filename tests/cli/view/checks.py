# SPDX-License-Identifier: MIT
# checks.py: what the page must do. Each check gets the browser and a function that makes a page of a record.
import json
import os
import random
import shutil

import records

DARK = "document.documentElement.classList.contains('dark')"


def all_of_them():
    return [made for name, made in globals().items() if name.startswith("check_")]


def equal(got, expected):
    assert got == expected, f"is {got!r}, expected {expected!r}"


def about(page, name):
    """What the canvas says of itself once it is drawn anew."""
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.value(f"document.getElementById('graph').dataset.{name}")


def number(page, name):
    return float(about(page, name))


def text(page, selector):
    return page.value(f"document.querySelector({json.dumps(selector)}).textContent")


def column(page, title):
    at = page.value(f"Array.from(document.querySelectorAll('#table-head th')).findIndex(t => t.textContent.startsWith({json.dumps(title)}))")
    return page.value(f"Array.from(document.querySelectorAll('#table-body tr')).map(row => row.children[{at}].textContent)")


def choose(page, selector, value):
    page.value(f"(() => {{ const s = document.querySelector('{selector}'); s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change')) }})()")


def no_complaints(page):
    equal(page.complaints, [])


def colours_of(page, canvas):
    """How many colours are on a canvas: one that was never drawn has none."""
    return page.value(f"""(() => {{ const c = document.querySelector('{canvas}'), o = new OffscreenCanvas(c.width, c.height).getContext('2d', {{willReadFrequently: true}});
        o.drawImage(c, 0, 0); const d = o.getImageData(0, 0, c.width, c.height).data, s = new Set();
        for (let i = 0; i < d.length; i += 4) s.add(d[i] << 24 | d[i + 1] << 16 | d[i + 2] << 8 | d[i + 3]); return s.size }})()""")


# ---- sizes ----

def opens(page, view, count):
    path = view(f"of {count}", records.network(count))
    page.open(path)
    no_complaints(page)
    equal(len(page.requests), 1)
    equal(text(page, "#title"), f"of {count}.json")
    assert text(page, "#facts").startswith(f"{count:,} nodes"), text(page, "#facts")
    assert colours_of(page, "#graph") > 5 and colours_of(page, "#timeline-canvas") > 5
    equal(page.value("document.querySelectorAll('#table-body tr').length"), min(count, 100))
    assert page.value("document.querySelectorAll('#memory-chart path.area').length") == 1


def check_a_small_graph(page, view):
    opens(page, view, 10)
    equal(number(page, "items"), 11)  # with the heading of the one group
    equal(about(page, "layout"), "graphviz" if shutil.which("dot") else "columns")


def check_a_thousand_nodes(page, view):
    opens(page, view, 1000)
    assert number(page, "folded") > 20 and number(page, "items") < 300
    page.click("#unfold-all")
    assert number(page, "items") >= 1000
    assert colours_of(page, "#graph") > 5
    no_complaints(page)


def check_twenty_thousand_nodes(page, view):
    opens(page, view, 20000)
    assert number(page, "items") <= 300
    page.click("#unfold-all")
    assert number(page, "items") >= 20000
    page.click("#search")
    page.type("layer=499")
    page.wait("document.getElementById('found').textContent.startsWith('38 of')")
    page.key("Enter")
    equal(about(page, "selected"), "19960")
    equal(number(page, "zoom") > 0.4, True)
    page.click("#fold-all")
    no_complaints(page)


def check_no_nodes(page, view):
    page.open(view("nothing", records.record([])))
    no_complaints(page)
    equal(number(page, "items"), 0)
    assert colours_of(page, "#graph") > 2  # it says so
    equal(page.value("document.getElementById('graph').getAttribute('aria-label')"), "Drawing of the graph: no nodes")
    assert text(page, "#timeline-note").startswith("This record has no times.")
    made = records.record([])
    made["profile"] = {"source": "device", "replays": 10, "lane_count": 0, "replay_ns": 0, "busy_ns": 0, "idle_ns": 0, "work_ns": 0, "critical_ns": 0, "critical_path": []}
    page.open(view("nothing measured", made))
    equal(text(page, "#timeline-note"), "Nothing was measured: the graph has no nodes.")
    no_complaints(page)


def check_origin(page, view):
    """The title is the graph's, where the record says which it is; else the file's name."""
    made = records.network(20)
    page.open(view("without origin", made))
    equal((text(page, "#title"), text(page, "#origin")), ("without origin.json", ""))
    equal(page.value("document.getElementById('verdict').hidden"), True)
    made["verdict"] = {"worth": False, "sentence": "replaying takes 2 us <b>: not worth it"}
    made["origin"] = {"program": "train", "graph": "graph 3", "date": "2026-11-23T09:10:11Z", "device": "cuda:0", "description": "NVIDIA <b>", "driver": "cuda",
                      "driver_version": "13.0", "library": "0.1.0"}
    page.open(view("with origin", made))
    equal(page.value("document.title"), "train, graph 3 · with origin.json · phonograph")
    equal(text(page, "#title"), "train, graph 3")
    equal(text(page, "#origin"), "with origin.json · NVIDIA <b> (cuda:0) · driver cuda 13.0 · phonograph 0.1.0 · 2026-11-23 09:10:11 UTC")
    equal(text(page, "#verdict"), "Not worth it: replaying takes 2 us <b>: not worth it")
    equal(page.value("document.getElementById('verdict').hidden"), False)
    no_complaints(page)


def check_races(page, view):
    """A list with both nodes of each, and in the panel of a node its own; nothing where nobody looked."""
    made = records.network(20)
    page.open(view("not looked", made))
    equal(page.value("document.getElementById('races').hidden"), True)
    made["races"] = {"certain": 0, "possible": 0, "found": 0, "list": []}
    page.open(view("no races", made))
    assert text(page, "#races-note").startswith("None: "), text(page, "#races-note")
    made["races"] = {"certain": 1, "possible": 2, "found": 3, "list": [
        {"certain": True, "first": 3, "second": 9, "address": "0x10", "bytes": 4, "text": "a race: <b>node 3</b> and node 9"},
        {"certain": False, "first": 3, "second": 12, "address": "0x10", "bytes": 4, "text": "possibly a race"}]}
    page.open(view("races", made))
    assert text(page, "#races-note").startswith("1 certain, 2 possible: "), text(page, "#races-note")
    items = page.value("Array.from(document.querySelectorAll('#races-list li')).map(e => e.textContent)")
    equal(len(items), 3)
    assert items[0].startswith("certain 3 ") and items[0].endswith("a race: <b>node 3</b> and node 9"), items
    assert items[1].startswith("possible 3 ") and items[2] == "and 1 more", items
    page.click("#races-list li:nth-child(1) button:nth-of-type(2)")
    equal(about(page, "selected"), "9")
    assert "a race: <b>node 3</b>" in text(page, "#details-body") and "possibly" not in text(page, "#details-body")
    no_complaints(page)


def check_without_graphviz(page, view):
    page.open(view("columns", records.network(60), PATH="/nowhere"))
    equal(about(page, "layout"), "columns")
    equal(page.value("Array.from(document.getElementById('layout').options).map(o => o.value).join()"), ",columns")
    no_complaints(page)


def check_graphviz(page, view):
    if not shutil.which("dot"):
        return
    page.open(view("dot", records.network(60)))
    choose(page, "#layout", "dot")
    equal(about(page, "layout"), "graphviz")
    page.click("#fold-all")
    equal(about(page, "layout"), "graphviz")
    choose(page, "#layout", "columns")
    equal(about(page, "layout"), "columns")
    no_complaints(page)


def check_a_plain_record(page, view):
    page.open(view("plain", records.network(80, annotated=False, timed=False)))
    no_complaints(page)
    assert "ph_profile_dump_record" in text(page, "#timeline-note")
    equal(page.value("document.querySelectorAll('#timeline canvas').length"), 0)
    threads = [int(t.replace(",", "")) for t in column(page, "Threads") if t != "–"]
    equal(threads, sorted(threads, reverse=True))


def check_a_captured_step(page, view):
    """A training step that the library captured, annotated and measured (examples/gpt)."""
    path = os.environ.get("PH_GPT_RECORD")
    if not path:
        return
    with open(path, encoding="utf-8") as file:
        made = json.load(file)
    page.open(view("step", made))
    no_complaints(page)
    assert text(page, "#facts").startswith(f"{len(made['nodes'])} nodes")
    equal(page.value("document.getElementById('grouping').selectedOptions[0].textContent"), "by part")
    assert number(page, "folded") > 5
    page.click("#search")
    page.type("autograd_phase=backward")
    page.key("Enter")
    assert "backward" in text(page, "#details-body")
    assert "Memory counts from" in text(page, "#memory-note")
    assert "Timeline of" in page.value("document.getElementById('timeline-canvas').getAttribute('aria-label')")
    no_complaints(page)


# ---- searching ----

def check_minimap(page, view):
    """There where a part of a large drawing is in sight; a click and a drag in it move the drawing."""
    hidden = "document.getElementById('minimap').hidden"
    page.open(view("small map", records.network(40)))
    page.click("#zoom-in")
    page.click("#zoom-in")
    about(page, "zoom")
    equal(page.value(hidden), True)
    page.open(view("large map", records.network(2000)))
    equal(page.value(hidden), True)
    page.click("#unfold-all")
    about(page, "zoom")
    equal(page.value(hidden), True)  # all of it is in sight
    for _ in range(4):
        page.click("#zoom-in")
    about(page, "zoom")
    equal(page.value(hidden), False)
    assert colours_of(page, "#minimap") > 5
    x, y, width, height = page.box("#minimap")
    zoom = number(page, "zoom")
    page.mouse(x + 12, y + height / 2)
    left = number(page, "left")
    page.mouse(x + width - 12, y + height / 2)
    right = number(page, "left")
    assert right < left - 200, (left, right)
    equal(number(page, "zoom"), zoom)
    for kind, by in (("mousePressed", 0), ("mouseMoved", -40), ("mouseMoved", -120), ("mouseReleased", -120)):
        page.mouse(x + width - 20 + by, y + height / 2, kind, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1)
    assert number(page, "left") > right + 100, number(page, "left")
    page.click("#zoom-fit")
    about(page, "zoom")
    equal(page.value(hidden), True)
    no_complaints(page)


def check_search(page, view):
    page.open(view("search", records.network(200)))
    page.click("#search")
    page.type("softmax layer=1")
    page.wait("document.getElementById('found').textContent === '8 of 200 nodes'")
    page.key("Enter")
    equal(about(page, "selected"), "41")
    assert "Match 1 of 8" in text(page, "#announce")
    page.key("Enter")
    equal(about(page, "selected"), "46")
    page.key("Enter", modifiers=8)
    equal(about(page, "selected"), "41")
    assert text(page, "#details-title").startswith("41: ")
    page.click("#only-found")
    equal(page.value("document.querySelectorAll('#table-body tr').length"), 8)
    equal(page.value("document.querySelectorAll('#table-body tr.found').length"), 8)
    page.click("#next")
    page.click("#previous")
    page.click("#search")
    page.value("document.getElementById('search').select()")
    page.type("no such node")
    page.wait("document.getElementById('found').textContent === '0 of 200 nodes'")
    equal(page.value("document.getElementById('found').getAttribute('role')"), "status")
    no_complaints(page)


# ---- the drawing ----

def check_zoom_and_pan(page, view):
    page.open(view("zoom", records.network(100)))
    x, y, width, height = page.box("#graph")
    first = number(page, "zoom")
    page.mouse(x + width / 2, y + height / 2, "mouseWheel", deltaX=0, deltaY=-400)
    page.wait(f"document.getElementById('graph').dataset.zoom > {first}")
    page.click("#zoom-fit")
    equal(number(page, "zoom"), first)
    page.click("#zoom-in")
    assert number(page, "zoom") > first
    page.click("#zoom-out")
    page.click("#zoom-fit")
    left = number(page, "left")
    for kind, by in (("mousePressed", 0), ("mouseMoved", 40), ("mouseMoved", 90), ("mouseReleased", 90)):
        page.mouse(x + 15 + by, y + 8, kind, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1)
    assert abs(number(page, "left") - left - 90) < 2, number(page, "left") - left
    no_complaints(page)


def check_choosing_with_the_mouse(page, view):
    page.open(view("mouse", records.network(30)))
    page.click("#table-body tr:nth-child(4) button")
    chosen = about(page, "selected")
    page.click("#table-body tr:nth-child(9) button")
    assert about(page, "selected") != chosen
    page.click(f"#table-body tr[data-node='{chosen}'] button")
    at = [float(v) for v in about(page, "at").split()]
    page.click("#table-body tr:nth-child(9) button")
    if about(page, "left"):  # the drawing may have moved for the other one: back to where the first can be seen
        page.click("#zoom-fit")
    page.click(f"#table-body tr[data-node='{chosen}'] button")
    at = [float(v) for v in about(page, "at").split()]
    page.click("#search")
    x, y, _, _ = page.box("#graph")
    page.mouse(x + at[0], y + at[1])
    equal(about(page, "selected"), chosen)
    page.click("#timeline-canvas")
    assert int(about(page, "selected")) >= 0
    page.click("#memory-canvas")
    assert "in use" in text(page, "#announce")
    no_complaints(page)


def check_folding(page, view):
    page.open(view("fold", records.network(100)))
    folded = number(page, "items")
    page.click("#unfold-all")
    all_open = number(page, "items")
    page.click("#fold-all")
    equal(number(page, "items"), folded)
    assert folded < all_open / 4
    page.value("document.getElementById('graph').focus()")
    page.key("ArrowRight")
    page.key("Enter")
    one = number(page, "items")
    assert folded < one < all_open, one
    assert "unfolded" in text(page, "#announce")
    page.key("Enter")
    equal(number(page, "items"), folded)
    page.key("u")
    equal(number(page, "items"), all_open)
    for value in range(page.value("document.getElementById('grouping').options.length")):
        choose(page, "#grouping", str(value))
        assert number(page, "items") > 0
    choose(page, "#colour", "time")
    assert colours_of(page, "#graph") > 5
    no_complaints(page)


def legend(page, which="legend"):
    return page.value(f"Array.from(document.querySelectorAll('#{which} span')).map(e => e.textContent)")


def check_legends(page, view):
    """A legend has the colours that are in sight: folded groups have no kinds, an unfolded one those of its nodes."""
    page.open(view("legend", records.network(100)))
    groups, critical = "groups, a colour for each name", "critical path"
    equal(legend(page), [groups, "in no scope", critical])
    equal(legend(page, "timeline-legend"), ["kernel", "fill", "annotations, above them", critical])
    page.value("document.querySelector(\"tr[data-node='1'] button\").click()")
    page.value("document.getElementById('graph').focus()")
    page.key("Enter")
    equal(legend(page), ["kernel", groups, "in no scope", critical])
    page.key("u")
    equal(legend(page), ["kernel", "fill", groups, "in no scope", critical])
    choose(page, "#colour", "time")
    equal(legend(page)[:4], ["little", "most of the time", "kernel", "fill"])
    page.key("f")
    equal(legend(page), ["little", "most of the time", critical])
    page.click("#search")
    page.type("softmax")
    page.wait("document.getElementById('legend').textContent.endsWith('found by the search')")
    equal(legend(page, "timeline-legend")[-1], "found by the search")
    page.open(view("plain legend", records.network(20, annotated=False, timed=False)))
    equal(legend(page), ["kernel"])
    equal(legend(page, "timeline-legend"), [])
    page.open(view("no legend", records.record([])))
    equal(legend(page), [])
    no_complaints(page)


def check_sums_of_groups(page, view):
    """A folded box says what all that it stands for takes; one without times, the bytes alone."""
    made = records.network(100)
    group = [node for node in made["nodes"] if node.get("annotation", {}).get("layer") == 1 and node["annotation"]["name"] == "attention"]
    time = sum(node["profile"]["median_ns"] for node in group)
    written = sum(node.get("bytes", 0) for node in group)
    equal((len(group), written), (20, 4096))
    page.open(view("sums", made))
    page.value("document.querySelector(\"tr[data-node='41'] button\").click()")
    page.value("document.getElementById('graph').focus()")
    page.key("ArrowRight")
    page.key("ArrowLeft")
    equal(text(page, "#announce"), f"Group attention, layer=1, 20 nodes, {time / 1000:.1f} µs · 4 KiB, folded")
    x, y, _, _ = page.box("#graph")
    at = [float(v) for v in about(page, "at").split()]
    page.mouse(x + at[0], y + at[1], "mouseMoved")
    equal(page.value("document.getElementById('graph').title"), f"attention, layer=1, 20 nodes, {time / 1000:.1f} µs · 4 KiB")
    page.key("Enter")
    assert "·" not in text(page, "#announce")
    page.open(view("no times", records.network(100, timed=False)))
    page.value("document.getElementById('graph').focus()")
    page.key("ArrowRight")
    equal(text(page, "#announce").split("nodes, ")[1], "folded")
    page.value("document.querySelector(\"tr[data-node='49'] button\").click()")
    page.value("document.getElementById('graph').focus()")
    page.key("ArrowRight")
    page.key("ArrowLeft")
    equal(text(page, "#announce").split("nodes, ")[1], "4 KiB, folded")
    no_complaints(page)


def drawn_texts(page):
    """What the next picture of the drawing has as text."""
    return page.value("""(() => { const texts = [], proto = CanvasRenderingContext2D.prototype, kept = proto.fillText;
        proto.fillText = function (text, ...more) { if (this.canvas.id === 'graph') texts.push(text); return kept.call(this, text, ...more) };
        document.getElementById('zoom-fit').click(); window.dispatchEvent(new Event('resize'));
        return new Promise(done => setTimeout(() => { proto.fillText = kept; done(texts) }, 100)) })()""")


def check_short_labels(page, view):
    """Boxes and rows are called by the end of long paths, and backward by its name; hover, panel and search have all of it."""
    made = records.network(90)
    long = "encoder.layers.0.attention.query.projection"
    for node in made["nodes"]:
        backward = {"autograd_phase": "backward"} if node["index"] >= 45 else {"autograd_phase": "forward"}
        node["annotation"] = {**backward, "name": "block1" if node["index"] % 45 < 20 else long}
    page.open(view("labels", made))
    choose(page, "#grouping", "0")
    texts = [t[2:] for t in drawn_texts(page) if t[:1] == "▸"]
    equal(sorted(set(texts)), ["block1", "block1 (backward)", "encoder", "encoder (backward)"])
    choose(page, "#grouping", "1")
    texts = [t[2:] for t in drawn_texts(page) if t[:1] == "▸"]
    assert set(texts) >= {"block1", "block1 (backward)"}, texts
    assert all(t.startswith("…") and t.split(" (")[0].endswith("ection") for t in texts if "block1" not in t), texts
    assert any(t.endswith("ection (backward)") for t in texts), texts
    page.value("document.querySelector(\"tr[data-node='89'] button\").click()")
    assert long in text(page, "#details-body") and "autograd_phase" in text(page, "#details-body")
    x, y, _, _ = page.box("#graph")
    at = [float(v) for v in about(page, "at").split()]
    page.mouse(x + at[0], y + at[1], "mouseMoved")
    assert page.value("document.getElementById('graph').title").startswith(f"{long} (backward), 25 nodes")
    page.click("#unfold-all")
    page.value("document.querySelector(\"tr[data-node='88'] button\").click()")
    page.value("document.querySelector(\"tr[data-node='89'] button\").click()")
    at = [float(v) for v in about(page, "at").split()]
    x, y, _, _ = page.box("#graph")
    page.mouse(x + at[0] + 2, y + at[1], "mouseMoved")
    assert page.value("document.getElementById('graph').title").endswith(f"{long}, autograd_phase=backward"), page.value("document.getElementById('graph').title")
    assert set(column(page, "Annotation")) == {"block1", "block1 (backward)", long, f"{long} (backward)"}
    page.click("#search")
    page.type("autograd_phase=backward")
    page.wait("document.getElementById('found').textContent === '45 of 90 nodes'")
    no_complaints(page)


def check_bodies(page, view):
    page.open(view("bodies", records.nested(16)))
    no_complaints(page)
    assert "in bodies" in text(page, "#facts")
    assert number(page, "items") >= 33


# ---- the table ----

def check_sorting(page, view):
    page.open(view("sort", records.network(250)))
    equal(page.value("document.querySelector('#table-head [aria-sort]').textContent"), "Time ▼")
    page.click("#table-head th:nth-child(2) button")
    equal(column(page, "Number")[:2], ["249", "248"])
    equal(page.value("document.querySelector('#table-head th:nth-child(2)').getAttribute('aria-sort')"), "descending")
    page.key("Enter")  # the focus stays on the heading
    equal(column(page, "Number")[:2], ["0", "1"])
    equal(page.value("document.querySelector('#table-head th:nth-child(2)').getAttribute('aria-sort')"), "ascending")
    page.click("#table-head th:nth-child(1) button")
    names = column(page, "Name")
    equal(names, sorted(names))
    page.click("#page-on")
    page.click("#page-on")
    equal(page.value("document.querySelectorAll('#table-body tr').length"), 50)
    equal(page.value("document.getElementById('page-on').disabled"), True)
    no_complaints(page)


def check_words(page, view):
    page.open(view("words", records.network(60)))
    page.click("#search")
    page.type("49")
    page.key("Enter")
    shown = text(page, "#details-body")
    assert "proved, writes" in shown and "own pool" in shown and "Depends on" in shown, shown
    page.value("document.getElementById('search').select()")
    page.type("41 softmax")
    page.key("Enter")
    shown = text(page, "#details-body")
    assert "+0 in 64 KiB at 0x7e" in shown and "not whether it reads or writes" in shown, shown
    no_complaints(page)


def check_memory(page, view):
    """One block that lived on, one that was freed, one that was used again in a smaller size."""
    a, b = 0x7F0000000000, 0x7F0000010000
    made = records.record([
        records.kernel(0, "k", [], [records.word("x", 0, a, True)]),
        records.kernel(1, "k", [0], [records.word("x", 0, a + 64, True, held=False), records.word("y", 8, b, True, held=False)]),
        records.kernel(2, "k", [1], [records.word("y", 0, b, True, held=False)]),
        records.kernel(3, "k", [2], [records.word("z", 0, 0x10, False, held=False)])])
    made["blocks"] = [{"base": hex(base), "bytes": size} for base, size in ((a, 4096), (b, 8192), (b, 512), (b, 8192))]
    page.open(view("memory", made))
    page.value("document.getElementById('memory-canvas').focus()")
    seen = []
    for key in ("Home", "ArrowRight", "ArrowRight", "End"):
        page.key(key)
        seen.append(text(page, "#announce"))
    equal(seen, ["0: k, 4 KiB in use", "1: k, 12 KiB in use", "2: k, 8 KiB in use", "3: k, 0 B in use"])
    assert "at most 12 KiB" in page.value("document.getElementById('memory-canvas').getAttribute('aria-label')")
    del made["blocks"]
    page.open(view("memory without blocks", made))
    assert "Not in it: 2 addresses" in text(page, "#memory-note"), text(page, "#memory-note")
    no_complaints(page)


def check_timeline(page, view):
    page.open(view("timeline", records.network(60)))
    assert "Timeline of 60 nodes in 2 lanes" in page.value("document.getElementById('timeline-canvas').getAttribute('aria-label')")
    assert "critical path" in text(page, "#timeline-note") and "medians of 10 replays" in text(page, "#timeline-note")
    assert page.value("document.querySelectorAll('#timeline svg .tick').length") >= 3
    x, y, width, height = page.box("#timeline-canvas")
    before = page.value("document.querySelector('#timeline svg .tick:last-of-type text').textContent")
    page.mouse(x + width / 2, y + height / 2, "mouseWheel", deltaX=0, deltaY=-600, modifiers=2)
    page.wait(f"document.querySelector('#timeline svg .tick:last-of-type text').textContent !== {json.dumps(before)}")
    no_complaints(page)


def check_disturbed_replays(page, view):
    """A median replay in which nodes took much longer than they do as a rule; and one that was only long."""
    made = records.network(20)
    page.open(view("quiet", made))
    assert "disturbed" not in text(page, "#timeline-note")
    total = made["profile"]
    for node in made["nodes"]:
        times = node["profile"]
        times["start_ns"], times["run_ns"], times["most_ns"] = 3 * times["start_ns"], 3 * times["run_ns"], 3 * times["most_ns"]
    total["replay_ns"] = total["busy_ns"] = 3 * total["replay_ns"]
    page.open(view("disturbed", made))
    shown = text(page, "#timeline-note")
    assert "The median replay took " in shown and "on the critical path: it was disturbed; profile again." in shown, shown
    total["critical_ns"] = total["work_ns"]
    page.open(view("disturbed chain", made))
    shown = text(page, "#timeline-note")
    assert "though the nodes’ medians sum to" in shown and "µs: it was disturbed; profile again." in shown, shown
    made = records.network(20)
    made["profile"]["idle_ns"] = 2 * made["profile"]["replay_ns"]
    made["profile"]["replay_ns"] *= 3
    page.open(view("gaps", made))
    assert "disturbed" not in text(page, "#timeline-note")
    no_complaints(page)


def check_names_come_first(page, view):
    """In the file an outer scope's key comes before the name: the page says the name first everywhere, as the groups do."""
    made = records.network(30)
    for node in made["nodes"]:
        if "annotation" in node:
            node["annotation"] = {"layer": node["annotation"]["layer"], "name": node["annotation"]["name"]}
    page.open(view("names first", made))
    assert set(column(page, "Annotation")) <= {"attention, layer=0", "mlp, layer=0"}, set(column(page, "Annotation"))
    page.value("document.querySelector(\"tr[data-node='3'] button\").click()")
    terms = page.value("Array.from(document.querySelectorAll('#details-body dt')).map(t => t.textContent)")
    assert terms.index("name") < terms.index("layer"), terms
    no_complaints(page)


def pixels(page, canvas, x, y, width, height):
    """The colours of a part of a canvas, in the order of how often they are there."""
    return page.value(f"""(() => {{ const c = document.querySelector('{canvas}'), o = new OffscreenCanvas(c.width, c.height).getContext('2d', {{willReadFrequently: true}});
        o.drawImage(c, 0, 0); const d = o.getImageData({x}, {y}, {width}, {height}).data, s = new Map();
        for (let i = 0; i < d.length; i += 4) {{ const k = d[i] + ' ' + d[i + 1] + ' ' + d[i + 2]; s.set(k, (s.get(k) || 0) + d[i + 3]) }}
        return Array.from(s).sort((a, b) => b[1] - a[1]).map(p => p[0].split(' ').map(Number)) }})()""")


def hue(colour):
    red, green, blue = colour
    most, least = max(colour), min(colour)
    if most == least:
        return None
    part = (green - blue) % (6 * (most - least)) if most == red else blue - red + 2 * (most - least) if most == green else red - green + 4 * (most - least)
    return 60 * part / (most - least)


def check_colours_agree(page, view):
    """A group has one colour in the drawing and in the timeline; what is not annotated has none."""
    made = records.network(90)
    for node in made["nodes"]:
        node["annotation"] = {"name": f"part{node['index'] // 45}.{node['index'] // 15}"}
    page.open(view("one colour", made))
    for grouping in ("0", "1"):
        choose(page, "#grouping", grouping)
        page.value(f"document.querySelector(\"tr[data-node='40'] button\").click()")
        about(page, "at")
        x, y, width, height = page.box("#timeline-canvas")
        at = page.value("(() => { const b = document.getElementById('graph').dataset.at.split(' ').map(Number); return b })()")
        zoom = number(page, "zoom")
        drawn = pixels(page, "#graph", int(at[0] - 80 * zoom), int(at[1] - 15 * zoom), 4, 1)[0]
        start, end = made["nodes"][40]["profile"]["start_ns"], made["profile"]["replay_ns"]
        shown = pixels(page, "#timeline-canvas", int(76 + (width - 28 - 76) * start / end), 4, 4, 3)[0]
        assert abs(hue(drawn) - hue(shown)) < 8, (grouping, drawn, shown)
    no_complaints(page)


def check_long_texts(page, view):
    """A name of a thousand characters, and a value: all of it in the panel, in lines that fit; and a lane of ten digits beside its bar."""
    made = records.network(3)
    name = "void cutlass::" + "Kernel<float, 128>" * 60
    made["nodes"][0]["name"] = name
    made["nodes"][0]["annotation"] = {"name": "n" * 700, "a_key_" + "k" * 300: "v" * 700}
    for node in made["nodes"]:
        node["profile"]["lane"] = 2**32 - 1
    page.open(view("long", made))
    page.value("document.querySelector(\"tr[data-node='0'] button\").click()")
    equal(text(page, "#details-title"), f"0: {name}")
    assert "v" * 700 in text(page, "#details-body") and "n" * 700 in text(page, "#details-body")
    page.value("document.querySelector(\"tr[data-node='1'] button\").click()")
    assert name in text(page, "#details-body") or name in page.value("document.querySelector('#details-body li button').title")
    page.value("document.querySelector(\"tr[data-node='0'] button\").click()")
    equal(page.value("document.getElementById('details').scrollWidth <= document.getElementById('details').clientWidth"), True)
    equal(page.value("Array.from(document.querySelectorAll('#details-body dd')).every(e => e.getBoundingClientRect().width > 60)"), True)
    # the number of the lane ends before the first bar
    kernel = page.value("getComputedStyle(document.documentElement).getPropertyValue('--kernel').trim()")
    assert [int(kernel[i:i + 2], 16) for i in (1, 3, 5)] not in pixels(page, "#timeline-canvas", 77, 26, 20, 14)
    no_complaints(page)


# ---- keyboard, screen readers, colours ----

def check_keyboard(page, view):
    page.open(view("keys", records.network(60)))
    seen = []
    for _ in range(40):
        page.key("Tab")
        seen.append(page.value("document.activeElement.id || document.activeElement.getAttribute('href') || document.activeElement.textContent"))
        outline = page.value("getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth")
        assert outline.startswith("solid") and outline != "solid0px", (seen[-1], outline)
    for wanted in ("#drawing", "theme", "help-open", "search", "grouping", "fold-all", "layout", "colour", "zoom-in", "graph", "timeline-canvas", "memory-canvas", "only-found"):
        assert wanted in seen, (wanted, seen)
    page.value("document.getElementById('graph').focus()")
    page.key("ArrowDown")
    first = int(about(page, "selected"))
    page.key("ArrowDown")
    equal(int(about(page, "selected")), first + 1)
    assert f"{first + 1}: " in text(page, "#announce")
    page.key("ArrowUp")
    equal(int(about(page, "selected")), first)
    before = number(page, "zoom")
    page.key("+")
    assert number(page, "zoom") > before
    left = number(page, "left")
    page.key("ArrowRight", modifiers=8)
    assert number(page, "left") < left
    page.key("0")
    page.key("?")
    equal(page.value("document.getElementById('help').open"), True)
    assert page.value("document.querySelectorAll('#help-body tr').length") > 8
    page.key("Escape")
    equal(page.value("document.getElementById('help').open"), False)
    page.value("document.getElementById('graph').focus()")
    page.key("/")
    equal(page.value("document.activeElement.id"), "search")
    equal(page.value("document.activeElement.value"), "")
    page.value("document.getElementById('timeline-canvas').focus()")
    page.key("ArrowRight")
    page.key("ArrowRight")
    assert " from " in text(page, "#announce")
    page.key("+")
    page.key("0")
    page.value("document.getElementById('memory-canvas').focus()")
    page.key("End")
    equal(about(page, "selected"), "59")
    no_complaints(page)


def check_names_of_everything(page, view):
    """What assistive technology is told: every control has a name, the parts are landmarks, the table is one."""
    page.open(view("names", records.network(60)))
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "combobox", "searchbox", "checkbox", "application", "region", "columnheader", "rowheader", "link"):
        assert roles.get(role), (role, sorted(roles))
        assert all(roles[role]), (role, roles[role])
    for role in ("main", "navigation", "complementary", "table", "banner", "contentinfo"):
        assert role in roles, (role, sorted(roles))
    for name in ("Graph", "Timeline", "Memory of the graph’s own pool", "Nodes"):
        assert name in roles["region"], roles["region"]
    equal(page.value("document.documentElement.lang"), "en")
    no_complaints(page)


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page, one, other):
    values = [luminance(page.value(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")) for name in (one, other)]
    return (max(values) + 0.05) / (min(values) + 0.05)


def check_colours(page, view):
    path = view("colours", records.network(40))
    for scheme in ("light", "dark"):
        page.prefer(color_scheme=scheme, reduced_motion="reduce")
        page.open(path)
        equal(page.value(DARK), scheme == "dark")
        for ink, ground in (("ink", "page"), ("ink", "card"), ("soft", "page"), ("soft", "card"), ("ink", "node"), ("ink", "found-fill"), ("critical", "card"), ("accent", "card"), ("found", "card")):
            assert contrast(page, ink, ground) >= 4.5, (scheme, ink, ground, contrast(page, ink, ground))
        for mark, ground in (("strong", "card"), ("edge", "page"), ("kernel", "card"), ("copy", "card"), ("fill", "card"), ("host", "card"), ("graph", "card"), ("other", "card"), ("area-line", "card")):
            assert contrast(page, mark, ground) >= 3, (scheme, mark, ground, contrast(page, mark, ground))
    choose(page, "#theme", "light")
    equal(page.value(DARK), False)
    choose(page, "#theme", "dark")
    equal(page.value(DARK), True)
    choose(page, "#theme", "")
    no_complaints(page)


def check_motion(page, view):
    page.open(view("motion", records.network(100)))
    first = number(page, "zoom")
    page.value("document.getElementById('zoom-in').click()")
    once = number(page, "zoom")
    equal(abs(once / first - 1.4) < 0.01, True)  # at once, without a way there
    no_complaints(page)


def check_a_narrow_window(page, view):
    page.open(view("narrow", records.network(60)))
    page.call("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=2, mobile=True)
    page.value("new Promise(done => setTimeout(done, 100))")
    wide = page.value("document.documentElement.scrollWidth")
    page.call("Emulation.clearDeviceMetricsOverride")
    assert wide <= 420, wide
    no_complaints(page)


# ---- hostile records ----

def check_hostile_names(page, view):
    page.open(view("hostile <img src=x onerror=window.harmed=1>", records.hostile()))
    no_complaints(page)
    equal(len(page.requests), 1)
    page.click("#unfold-all")
    for grouping in range(page.value("document.getElementById('grouping').options.length")):
        choose(page, "#grouping", str(grouping))
    for i in range(len(records.PAYLOADS)):
        page.value(f"document.querySelector(\"tr[data-node='{i}'] button\").click()")
        equal(text(page, "#details-title"), f"{i}: {records.shown(records.PAYLOADS[i])}")
    page.value("document.getElementById('search').focus()")
    page.type("<img src=x onerror=window.harmed=1>")
    page.key("Enter")
    for canvas in ("graph", "timeline-canvas", "memory-canvas"):
        page.value(f"document.getElementById('{canvas}').focus()")
        for key in ("ArrowRight", "ArrowLeft", "+", "0"):
            page.key(key)
    equal(page.value("window.harmed === undefined && document.querySelectorAll('img, svg[onload], main script').length === 0"), True)
    equal(page.value("document.scripts.length"), 3)
    equal(page.value("({}).polluted === undefined && Object.keys(Object.prototype).length === 0"), True)
    no_complaints(page)


def check_changed_records(page, view):
    """What the command takes, the page can show; what it does not take is refused."""
    chance, shown, refused = random.Random(11), 0, 0
    while shown < 12:
        path = view("changed", records.changed(chance))
        refused += path is None
        if not path:
            continue
        shown += 1
        page.open(path)
        page.click("#unfold-all")
        page.click("#fold-all")
        page.value("document.querySelectorAll('#table-body button').forEach(button => button.click())")
        about(page, "items")
        no_complaints(page)
    assert refused > shown, refused


def check_the_policy(page, view):
    """Even if something got into the page, it would not run, and nothing could be fetched or sent."""
    page.open(view("policy", records.network(10)))
    page.value("(() => { const s = document.createElement('script'); s.textContent = 'window.harmed = 1'; document.body.append(s) })()")
    page.value("(() => { const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"window.harmed = 1\"><b onclick=\"window.harmed = 1\">b</b>'; document.body.append(d); d.lastChild.click() })()")
    equal(page.value("fetch('data:text/plain,a').then(() => 'fetched', () => 'refused')"), "refused")
    page.value("new Promise(done => setTimeout(done, 100))")
    equal(page.value("window.harmed"), None)
    assert any("Content Security Policy" in complaint for complaint in page.complaints), page.complaints
