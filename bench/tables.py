#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of docs/measurements from the JSON lines that benchmarks wrote.

usage: bench/tables.py [--check] [ROOT]

bench/results/PAGE.jsonl has the lines of docs/measurements/PAGE.md. A line without "what" is the
head of a run: bench, machine, driver, date, commit, rounds. The lines below it are that run's
measurements, as the benchmark wrote them. A later run of a benchmark takes the place of an earlier
one. The table stands between two lines of the page, BEGIN and END below. --check writes nothing,
and fails where a page has another table than its lines give.

In a line, ns, or cpu_ns and whole_ns, is a median; p10 and p90 are its spread. Of lines with equal
"what" and "nodes" the first side is the library's; in the benchmarks of OWN all are. Those of a
torch_* benchmark stand beside them. A limit of the library's own line is a time, that of another
side a ratio.
"""
import json
import pathlib
import sys

BEGIN = "<!-- table of bench/results/%s.jsonl, written by bench/tables.py -->"
END = "<!-- end of table -->"
TORCH = {"torch_replay": ("cuda_replay",), "torch_graphed": ("nn_graphed", "nn_buckets"),
         "torch_nn": ("nn_mlp", "nn_gpt2", "nn_kernels"), "torch_scaler": ("nn_scaler",),
         "torch_parallel": ("nn_parallel",)}
OWN = ("nn_mlp", "nn_gpt2", "nn_kernels", "nn_scaler", "nn_parallel", "nn_graphed", "nn_buckets",
       "cuda_demotion")
FIGURES = (("ns", ""), ("cpu_ns", "host"), ("whole_ns", "to the end"), ("bytes_per_s", "rate"))
NEEDED = ("bench", "machine", "date", "commit")
COLUMNS = ("what", "size", "figure", "library", "10 % to 90 %", "beside it", "ratio", "PyTorch",
           "instructions", "exponent", "at most", "run")


class Fault(Exception):
    """Lines that cannot be right."""


def runs_of(path):
    """The last run of each benchmark, in the place of its first one: a list of (head, lines)."""
    found, lines, key = {}, None, None
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise Fault(f"{path}:{number}: {error}") from error
        if "what" not in line:
            missing = [name for name in NEEDED if name not in line]
            if missing:
                raise Fault(f"{path}:{number}: a head without {', '.join(missing)}")
            lines, key = [], (line["bench"], line.get("device"))
            found[key] = (line, lines)
        elif lines is None or line.get("bench") != key[0]:
            raise Fault(f"{path}:{number}: a line without the head of its benchmark")
        else:
            lines.append(line)
    return list(found.values())


def show(value, figure):
    """A median in the unit that suits it."""
    if figure == "bytes_per_s":
        return f"{value / 1e9:.4g} GB/s"
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.3g} ns"


def show_ratio(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def show_size(nodes):
    return f"{nodes:,}" if nodes else ""


def torch_sides(runs):
    """(bench of the library, date, what, nodes, side or None) -> line of PyTorch: of one day alone."""
    found = {}
    for head, lines in runs:
        for line in lines:
            side = line["side"]
            side = side[len("torch "):] if side.startswith("torch ") else None
            for bench in TORCH.get(head["bench"], ()):
                found[bench, head["date"], line["what"], line.get("nodes"), side] = line
    return found


def judge(value, limit, text):
    return f"{text}: " + ("yes" if value <= limit else "**no**")


def rows_of_line(bench, ours, other, torch, date=None):
    """One row for each figure that the line has."""
    own, base = bench in OWN, {"what": ours["what"], "size": show_size(ours.get("nodes"))}
    if own:
        base["what"] += f", {ours['side']}"
    for name in ("instructions", "exponent"):
        if name in ours:
            base[name] = f"{ours[name]:,}" if name == "instructions" else f"{ours[name]:.2f}"
    if "ratio" in ours:
        row = dict(base, ratio=show_ratio(ours["ratio"]))
        if "limit" in ours:
            row["at most"] = judge(ours["ratio"], ours["limit"], f"{ours['limit']:g}")
        yield row
    elif "instructions" in ours and not any(figure in ours for figure, _ in FIGURES):
        yield base
    for figure, name in FIGURES:
        if figure not in ours:
            continue
        value, row = ours[figure], dict(base, figure=name)
        row["library"] = show(value, figure)
        if "p10" in ours and figure == "ns":
            row["10 % to 90 %"] = f"{show(ours['p10'], figure)} to {show(ours['p90'], figure)}"
        if "limit" in ours:
            row["at most"] = judge(value, ours["limit"], show(ours["limit"], figure))
        if other and figure in other:
            row["beside it"] = f"{show(other[figure], figure)}, {other['side']}"
            row["ratio"] = show_ratio(value / other[figure])
            if "limit" in other:
                row["at most"] = judge(value / other[figure], other["limit"], f"{other['limit']:g}")
        key = (bench, date, ours["what"], ours.get("nodes"), ours["side"] if own else None)
        beside = torch.get(key)
        if beside and figure in beside:
            row["PyTorch"] = f"{show(beside[figure], figure)}, {show_ratio(value / beside[figure])}"
        yield row


def rows_of_run(head, lines, torch):
    bench, groups = head["bench"], {}
    for line in lines:
        groups.setdefault((line["what"], line.get("nodes")), []).append(line)
    for sides in groups.values():
        if bench in OWN:
            for line in sides:
                yield from rows_of_line(bench, line, None, torch, head["date"])
            continue
        yield from rows_of_line(bench, sides[0], sides[1] if len(sides) > 1 else None, torch,
                                head["date"])
        for other in sides[2:]:
            for row in rows_of_line(bench, sides[0], other, {}):
                yield dict(row, **{"10 % to 90 %": "", "instructions": "", "exponent": ""})


def describe(letter, head):
    parts = [f"`{head['commit']}`", head["date"], head["machine"]]
    if "driver" in head:
        parts.append(f"driver {head['driver']}")
    if "rounds" in head:
        parts.append(f"medians of {head['rounds']:,} rounds")
    parts += [f"PyTorch {head['torch']}"] if "torch" in head else []
    parts += ["host device"] if head.get("device") == "host" else []
    parts += [head["note"]] if "note" in head else []
    return f"* {letter}: `{head['bench']}`, " + ", ".join(parts) + "."


def table_of(path):
    runs = runs_of(path)
    torch = torch_sides(runs)
    rows, notes = [], []
    for index, (head, lines) in enumerate(runs):
        letter = chr(ord("a") + index)
        notes.append(describe(letter, head))
        if head["bench"] not in TORCH:
            rows += [dict(row, run=letter) for row in rows_of_run(head, lines, torch)]
    columns = [name for name in COLUMNS if any(row.get(name) for row in rows)]
    text = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    text += ["| " + " | ".join(row.get(name, "") for name in columns) + " |" for row in rows]
    return "\n".join(text + ["", "Runs:", ""] + notes)


def write_page(page, path, check):
    """Puts the table into its page; whether the page had it already."""
    begin, old = BEGIN % path.stem, page.read_text()
    if old.count(begin) != 1 or old.count(END) != 1:
        raise Fault(f"{page}: not one line each of '{begin}' and '{END}'")
    head, rest = old.split(begin)
    new = f"{head}{begin}\n\n{table_of(path)}\n\n{END}{rest.split(END)[1]}"
    if new != old and not check:
        page.write_text(new)
    return new == old


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    rest = [one for one in arguments if one != "--check"]
    root = pathlib.Path(rest[0] if rest else pathlib.Path(__file__).resolve().parent.parent)
    paths = sorted((root / "bench" / "results").glob("*.jsonl"))
    try:
        if not paths:
            raise Fault("bench/results has no lines")
        stale = [path.stem for path in paths
                 if not write_page(root / "docs" / "measurements" / f"{path.stem}.md", path, check)]
    except (Fault, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for name in stale if check else []:
        print(f"docs/measurements/{name}.md is not as bench/tables.py writes it", file=sys.stderr)
    print(f"{len(paths)} tables" + ("" if check else f", {len(stale)} written"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
