# SPDX-License-Identifier: MIT
"""The page of a record, which the command phonograph of the package writes."""

import html
import subprocess
import tempfile
from pathlib import Path

from .errors import Error

COMMAND = Path(__file__).resolve().parent / "bin" / "phonograph"


def page_of(text):
    """The page of a record in JSON. Error: what the command said."""
    if not COMMAND.exists():
        raise FileNotFoundError(f"{COMMAND} is not there: this package was made without the command phonograph")
    with tempfile.TemporaryDirectory(prefix="phonograph-") as folder:
        record, page = Path(folder, "record.json"), Path(folder, "record.html")
        record.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [COMMAND, "view", record, "--output", page], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise Error(f"phonograph view: {done.stderr.strip()}")
        return page.read_text(encoding="utf-8")


def frame(page, height=600):
    """A page inside another, as notebooks show it: its scripts are kept from the rest."""
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:{height}px;border:0" '
        f'srcdoc="{html.escape(page, quote=True)}"></iframe>'
    )
