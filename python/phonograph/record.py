# SPDX-License-Identifier: MIT
"""The record of a captured graph, as dicts and as a page."""

import html
import json

from . import page


class Record:
    """What a graph captured (docs/reference/record.md): a copy, which does not need the graph any more."""

    def __init__(self, text):
        self.text = text
        self.data = json.loads(text)

    @classmethod
    def load(cls, path):
        """A record from a file of dump(), of the library, or of `phonograph dump --json`."""
        with open(path, encoding="utf-8") as file:
            return cls(file.read())

    @property
    def nodes(self):
        """A dict for each node, in topological order."""
        return self.data["nodes"]

    def __len__(self):
        return len(self.nodes)

    def __repr__(self):
        return f"<phonograph.Record of {len(self)} nodes>"

    def dump(self, path):
        """Writes the JSON to a file, for the command phonograph."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def html(self):
        """The page of `phonograph view`, one file that needs no network. FileNotFoundError: the package has no command."""
        return page.page_of(self.text)

    def _repr_html_(self):
        try:
            return page.frame(self.html())
        except FileNotFoundError:
            return self.table()

    def table(self):
        """The nodes as a table of HTML."""
        rows = []
        for node in self.nodes:
            cells = (node["index"], node["kind"], node["name"], " ".join(str(n) for n in node.get("dependencies", [])))
            rows.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>")
        head = "<tr><th>node</th><th>kind</th><th>name</th><th>after</th></tr>"
        return f"<table>{head}{''.join(rows)}</table>"
