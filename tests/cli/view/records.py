# SPDX-License-Identifier: MIT
# records.py: records of graphs as docs/reference/record.md has them, of any size, for the tests of `phonograph view`.
import json


def allocation(base, size, address, pool=(3, 0)):
    return {"base": hex(base), "bytes": size, "offset": address - base, "generation": base % 1000003, "pool": list(pool),
            "pinned": False}


def word(name, offset, address, internal, held=True, size=4096):
    return {"name": name, "offset": offset, "kind": "proved", "value": hex(address), "internal": internal,
            "allocation": allocation(address, size, address) if held else None}


def kernel(index, name, dependencies, words=()):
    return {"index": index, "kind": "kernel", "name": name, "grid": [1 + index % 64, 1, 1], "block": [128, 1, 1],
            "shared_bytes": 0, "args_size": 8 * len(words), "args": "00" * 8 * len(words), "dependencies": sorted(dependencies),
            "dependents": [], "words": list(words)}


def record(nodes):
    """Fills in what follows from the dependencies."""
    for node in nodes:
        for before in node["dependencies"]:
            nodes[before]["dependents"].append(node["index"])
    return {"format": "phonograph.record", "version": 1, "node_count": len(nodes),
            "edge_count": sum(len(node["dependencies"]) for node in nodes), "nodes": nodes}


def network(count, annotated=True, timed=True):
    """A chain of kernels in layers, with a second stream beside it in every tenth place."""
    names = ["gemm_bf16<128, 64>(float const*, float*)", "void ns::softmax<float>(float*)", "layer_norm", "gelu", "add"]
    nodes, clock = [], 0
    for i in range(count):
        before = [i - 1] if i else []
        if i % 10 == 9:
            before = [i - 3]
        elif i and i % 10 == 0:
            before = [i - 2, i - 1]
        address = 0x7F0000000000 + 8192 * (i % 23)
        words = [word("x", 0, address, True, held=i % 3 != 0), word("y", 8, 0x7E0000000000 + 65536 * (i % 7), False, size=65536)]
        node = kernel(i, names[i % len(names)], before, words)
        if i % 50 == 49:
            node.update(kind="memset", name="memset", dst=hex(address), value=0, value_size=4, bytes=4096)
            for key in ("grid", "block", "shared_bytes", "args_size", "args"):
                del node[key]
            node["words"] = [word("dst", 0, address, True)]
        if annotated and i % 40 < 38:
            node["annotation"] = {"name": "attention" if i % 40 < 20 else "mlp", "layer": i // 40, "autograd_phase": "forward"}
        if timed:
            took = 500 + 137 * (i % 29)
            node["profile"] = {"start_ns": clock, "run_ns": took, "median_ns": took, "least_ns": took - 100, "most_ns": took + 300, "slack_ns": 0 if i % 10 != 9 else 400,
                               "lane": int(i % 10 == 9), "critical": i % 10 != 9}
            clock += took if i % 10 != 9 else 0
        nodes.append(node)
    made = record(nodes)
    made["blocks"] = [{"base": hex(0x7F0000000000 + 8192 * i), "bytes": 4096} for i in range(23)]
    if timed:
        made["profile"] = {"source": "device", "replays": 10, "lane_count": 2, "replay_ns": clock, "busy_ns": clock, "idle_ns": 0,
                           "work_ns": sum(node["profile"]["median_ns"] for node in nodes), "critical_ns": clock}
    return made


PAYLOADS = [
    "<img src=x onerror=window.harmed=1>", "</script><script>window.harmed=1</script>", "<!--<script>", "]]>", "\u2028window.harmed=1//\u2029",
    "\"><svg onload=window.harmed=1>", "javascript:window.harmed=1", "${window.harmed=1}", "__proto__", "constructor", "\u202egnp.exe", "\x1b[2J", "\x9b2J", "'-alert(1)-'", "\U0001F600" * 50,
    "&lt;script&gt;", "\\u003cscript\\u003e", "a" * 5000, "",
]


def shown(text):
    """As the page has it: what would not be seen is written out (cli/main.c)."""
    hidden = lambda code: code < 0x20 or 0x7F <= code <= 0x9F or code in (0x061C, 0x200E, 0x200F) or 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return "".join((f"\\x{ord(c):02x}" if ord(c) < 0x80 else f"\\u{ord(c):04x}") if hidden(ord(c)) else c for c in text)


def hostile():
    """A payload wherever a record holds text."""
    nodes = []
    for i, text in enumerate(PAYLOADS):
        node = kernel(i, text, [i - 1] if i else [], [word(text, 0, 0x7F0000000000, True)])
        node["annotation"] = {"name": text, **({text: text} if text and text != "name" else {}), "layer": i}
        nodes.append(node)
    nodes[3]["profile"] = {"start_ns": 2**53 - 1, "run_ns": 2**53 - 1, "median_ns": 2**53 - 1, "least_ns": 0, "most_ns": 2**53 - 1, "slack_ns": 2**53 - 1, "lane": 2**32 - 1, "critical": True}
    nodes[4]["grid"] = nodes[4]["block"] = [2**32 - 1] * 3
    nodes[5]["words"] = [word("far", 7, 2**64 - 1, True, size=2**63 - 1)]
    made = record(nodes)
    made["profile"] = {"source": PAYLOADS[1], "replays": 3}
    return made


def nested(depth):
    """Graph nodes in graph nodes."""
    inner = record([kernel(0, "innermost", [])])
    for _ in range(depth):
        inner = record([kernel(0, "first", []), {"index": 1, "kind": "graph", "name": "graph", "dependencies": [0], "dependents": [], "words": [], "body": inner}])
    return inner


EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**53 - 1, 2**63 - 1, -1, 1.5, "", "0x0", "0xffffffffffffffff", "<b>", True, False, None, [], {}]


def places(value):
    """Every place in a JSON value that can be given another one."""
    found = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, inside in found:
        yield value, key
        yield from places(inside)


def changed(random):
    """A record with a few values that may or may not be ones."""
    made = random.choice([network(12), hostile(), nested(3)])
    for _ in range(random.randint(1, 3)):
        value, key = random.choice(list(places(made)))
        value[key] = random.choice(EXTREMES)
    return made


def write(path, made):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file)
    return path
