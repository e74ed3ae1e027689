# SPDX-License-Identifier: MIT
"""inspect: the nodes of a graph of torch, with each word of each kernel resolved to torch's memory."""

import functools
import html
import weakref

import torch

from ..bindings import core
from ..device import Device
from ..errors import StateError
from ..graph import Graph
from ..nodes import Memory, nodes_of
from ..words import pack, words_in
from . import allocator
from .blocks import Blocks, index_of
from .live import Live
from .storages import place_of


@functools.cache
def device_of(index):
    """The phonograph.Device of torch's GPU of that number: that of use_allocator, else one of its own."""
    return allocator.device_of(index) or Device(f"cuda:{index}")


def template_of(graph, call):
    """The CUgraph of a graph of torch, or of a handle as an integer."""
    if isinstance(graph, int):
        return graph
    try:
        return graph.raw_cuda_graph()
    except RuntimeError as error:
        raise StateError(
            f"{call}: torch does not show the graph ({str(error).splitlines()[0]}); capture it first, with "
            "torch.cuda.CUDAGraph(keep_graph=True) or phonograph.torch.CUDAGraph()",
            core.PH_ERROR_STATE,
        ) from error


def import_graph(graph, *, device=None, **options):
    """A phonograph.Graph of a copy of a torch graph, with slots, diff, races, profile and replays of its own.

    - graph: a CUDAGraph of torch with keep_graph, or of phonograph.torch, or a CUgraph as an integer.
    - It keeps `graph` alive, whose memory the copy uses. Replays of both must not overlap.
    - Its replays do not advance torch's random generators: use torch's replay() for graphs that draw
      random numbers, as with dropout.
    - options: as of phonograph.Graph.import_cuda. With check_input_liveness torch's blocks are
      announced first (announce_blocks): a replay whose input was freed since raises StaleInput.
    """
    from .announced import announce_blocks

    if options.get("check_input_liveness"):
        announce_blocks(device)
    index = index_of(device)
    options.setdefault("scopes", getattr(graph, "scopes", ()))
    imported = Graph.import_cuda(device_of(index), template_of(graph, "import_graph"), **options)
    imported.template_owner = graph
    return imported


def names_of(things):
    """{address of a storage: (name, weak reference to it)}, of tensors, and of modules, whose parameters and buffers have theirs."""
    found = {}
    for name, thing in things.items():
        if isinstance(thing, torch.Tensor):
            tensors = [(name, thing)]
        elif isinstance(thing, torch.nn.Module):
            tensors = [(f"{name}.{path}", tensor) for path, tensor in (*thing.named_parameters(), *thing.named_buffers())]
        else:
            raise TypeError(f"inspect: {name} must be a tensor or a module, not {type(thing).__name__}")
        for path, tensor in tensors:
            place = place_of(tensor)
            if place:
                found.setdefault(place[0], (path, weakref.ref(tensor.untyped_storage())))
    return found


def scope_text(node):
    """The annotation of a node in words: "forward, layer=3"; "" for none."""
    pairs = node.get("annotation") or {}
    return ", ".join(str(value) if key == "name" else f"{key}={value}" for key, value in pairs.items())


def _frame_text(frame):
    return f"{frame['filename']}:{frame['line']} {frame['name']}"


class Report:
    """A graph of torch, as it was captured. The graph was not launched and not changed.

    graph: a phonograph.Graph of a copy, for diff, races, profile and the like; it must not be reset. pool: the pair of numbers of the
    graph's pool, or None. nodes: the dicts of phonograph.Record.nodes, where each word has "torch":
    None, or a dict with
    - address, bytes: of torch's block; offset: of the word's value in it
    - state, pool: of the block, as torch names them; own: it is in the graph's own pool
    - tensors: the live tensors of Python with that storage, as "float32[8, 64] model.weight", of the
      moment at which somebody first asks for tensors, or for the text
    - frames: that allocated it, while torch.cuda.memory._record_memory_history is on
    """

    def __init__(self, graph, pool, blocks, live):
        """live: a Live of the same blocks."""
        self.graph, self.pool = graph, pool
        self.blocks, self._live = blocks, live
        self._record, self._resets = graph.record_handle(), graph.resets
        self._resolved = {}

    def _need_record(self):
        if self.graph.handle is None or self.graph.resets != self._resets or self.graph.record_handle() != self._record:
            raise StateError("Report: its graph was closed or reset, and the nodes went with it; inspect again", core.PH_ERROR_STATE)
        return self._record

    @functools.cached_property
    def record(self):
        """The phonograph.Record of the graph."""
        self._need_record()
        return self.graph.record()

    @functools.cached_property
    def nodes(self):
        self._need_record()
        return self._make_nodes()

    def _make_nodes(self):
        return nodes_of(self.graph, self.blocks.ranges, self._memory)

    def words_in(self, ranges, no_kernels=False):
        """The words that lie in ranges of memory, of phonograph.words.pack, as tuples: phonograph.words.words_in."""
        return words_in(self._need_record(), ranges, no_kernels)

    def _is_own(self, block):
        return self.pool is not None and block.pool == self.pool

    def _memory(self, value):
        known = self._resolved.get(value)
        if known is None:
            block = self.blocks.find(value)
            if block is not None:
                members = {
                    "address": block.address, "bytes": block.requested, "offset": value - block.address,
                    "state": block.state, "pool": block.pool, "own": self._is_own(block), "frames": block.frames,
                }  # fmt: skip
                known = self._resolved[value] = Memory(members, functools.partial(self._live.at, value))
        return known

    def tensors_at(self, address):
        """The live tensors of Python whose storage has the address, in words, each once."""
        return self._live.at(address)

    def words(self):
        """Each (node, word) that lies in torch's memory, of nested graphs too."""
        return self._words_of(self.nodes)

    def _words_of(self, nodes):
        for node in nodes:
            yield from ((node, word) for word in node["words"] if word["torch"] is not None)
            yield from self._words_of((node.get("body") or {}).get("nodes", []))

    @property
    def inputs(self):
        """Blocks outside of the graph's pool that its nodes address: dicts of address, bytes, state, pool, tensors,
        frames, uses (pairs of a node's index and a word's name), and kind: "proved" where a use is a field of a copy or
        fill, else "suspected"."""
        outside = ((block.address, block.address + block.size) for block in self.blocks if not self._is_own(block))
        found, known = {}, self._resolved
        for path, _, value, proved, _, _, name in self.words_in(pack(outside)):
            memory = known.get(value)
            if memory is None:
                memory = self._memory(value)
            address = memory["address"]
            entry = found.get(address)
            if entry is None:
                members = {key: memory[key] for key in ("address", "bytes", "state", "pool", "frames")}
                entry = found[address] = Memory(members | {"kind": "suspected", "uses": []}, functools.partial(self._live.at, value))
            entry["uses"].append((path[-1], name))
            if proved and entry["kind"] != "proved":
                entry["kind"] = "proved"
        return sorted(found.values(), key=lambda entry: entry["address"])

    def races(self):
        """Nodes that use the same memory with no order between them, as Graph.races."""
        return self.graph.races()

    def diff(self, other):
        """The differences to another report, as text, a line each."""
        return self.graph.diff(other.graph)

    # ---- text and HTML ----

    @staticmethod
    def _shape(node):
        if "grid" in node:
            return "grid ({}, {}, {}) block ({}, {}, {})".format(*node["grid"], *node["block"])
        return f"{node['bytes']} bytes" if "bytes" in node else ""

    def _memory_text(self, memory):
        where = "the graph's pool" if memory["own"] else "torch's default pool" if memory["pool"] == (0, 0) else f"pool {memory['pool']}"
        state = "" if memory["state"] == "active_allocated" else f", {memory['state']}"
        at = f" at +{memory['offset']}" if memory["offset"] else ""
        tensors = "; ".join(memory.known_tensors() or self._live.at(memory["address"] + memory["offset"]))
        return f"{memory['bytes']} bytes{at} of {where}{state}{tensors and ': '}{tensors}"

    def _memory_lines(self, memory):
        frames = (f"\n        allocated at {_frame_text(frame)}" for frame in memory["frames"][:3])
        return self._memory_text(memory) + "".join(frames)

    def __str__(self):
        nodes, known = self.nodes, {}
        lines = [f"{len(nodes)} nodes, {len(self.inputs)} inputs"]
        for node in nodes:
            scope = f" {{{scope_text(node)}}}" if "annotation" in node else ""
            lines.append(f"node {node['index']} {node['kind']} {node['name']} {self._shape(node)}".rstrip() + scope)
            for word in node["words"]:
                memory = word["torch"]
                if memory is None:
                    continue
                text = known.get(word["value"])
                if text is None:
                    text = known[word["value"]] = self._memory_lines(memory)
                lines.append(f"    {word['name']} {word['kind']} {word['value']}: {text}")
        return "\n".join(lines)

    def __repr__(self):
        return f"<phonograph.torch.Report of {len(self.nodes)} nodes, {len(self.inputs)} inputs>"

    def _html_of(self, word, known):
        text = known.get(word["value"])
        if text is None:
            text = known[word["value"]] = html.escape(self._memory_text(word["torch"]))
        return text

    def html(self):
        """The nodes as a table of HTML, which needs no network."""
        rows, known = [], {}
        for node in self.nodes:
            memory = "<br>".join(
                html.escape(f"{word['name']} {word['kind']}: ") + self._html_of(word, known) for word in node["words"] if word["torch"] is not None
            )
            cells = [str(node["index"]), node["kind"], node["name"], scope_text(node), self._shape(node)]
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + f"<td>{memory}</td></tr>")
        head = "".join(f"<th>{title}</th>" for title in ("node", "kind", "name", "scope", "size", "memory"))
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>"

    _repr_html_ = html


def inspect(graph, *, device=None, **names):
    """A Report of any graph of torch. It launches nothing, and does not change the graph.

    - graph: a CUDAGraph of torch with keep_graph, or of phonograph.torch, or a CUgraph as an integer.
    - names: tensors and modules, by the names that the report gives them: inspect(g, x=x, model=model).
    - device: the GPU; else torch's current one.
    - Call it on the thread that captured, or after the capture; kernels must still be loaded.
    - StateError: nothing was captured, or torch keeps no template (keep_graph=False).
    """
    imported = import_graph(graph, device=device, keep_graph=True)
    pool = None if isinstance(graph, int) else tuple(graph.pool())
    blocks, index = Blocks(allocator.torch_snapshot(imported.device.ordinal)), imported.device.ordinal
    return Report(imported, pool, blocks, Live(blocks, names_of(names), functools.partial(allocator.allocations, index)))
