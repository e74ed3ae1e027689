# SPDX-License-Identifier: MIT
"""python3 python/generate --include DIR --output DIR --nn HEADER...: from the public headers to Python.

Writes core.py and nn.py (ctypes), their stubs core.pyi and nn.pyi, and check.c, a C program that holds all of it against
the compiler. A file that would be the same is not written again.
"""

import argparse
import re
from pathlib import Path

from c_text import check_program
from declarations import read_header
from python_text import Names, module_text, stub_text


def in_order(include):
    """All headers by name, those that a header includes before it."""
    order, seen = [], set()

    def visit(name):
        if name in seen:
            return
        seen.add(name)
        for used in re.findall(r"^#include <(phonograph/[^>]+)>", (include / name).read_text(encoding="utf-8"), re.M):
            visit(used)
        order.append(name)

    for path in sorted((include / "phonograph").rglob("*.h")):
        visit(path.relative_to(include).as_posix())
    return order


def write(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--nn", nargs="*", default=[], help="the headers of libphonograph_nn, without folder and .h")
    arguments = parser.parse_args()

    constants = {}
    headers = [read_header(arguments.include / name, name, constants) for name in in_order(arguments.include)]
    names = Names(headers)
    of_nn = {f"phonograph/{name}.h" for name in arguments.nn}
    core = [header for header in headers if header.path not in of_nn]
    nn = [header for header in headers if header.path in of_nn]
    arguments.output.mkdir(parents=True, exist_ok=True)
    for part, library, some, before in (("core", "phonograph", core, None), ("nn", "phonograph_nn", nn, "core")):
        write(arguments.output / f"{part}.py", module_text(some, names, library, before))
        write(arguments.output / f"{part}.pyi", stub_text(some, names, library, before))
    write(arguments.output / "check.c", check_program(headers))


if __name__ == "__main__":
    main()
