# SPDX-License-Identifier: MIT
"""Tokens of a C header: names, numbers, strings, signs, and comments, each with its lines.

The preprocessor's part is small. A header is read as C: what depends on __cplusplus is left out.
Macros without parameters are kept as constants where their value is a number.
"""

import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str  # "name", "number", "string", "sign", "comment"
    text: str
    line: int  # of its first character, from 1
    end: int  # of its last character


class HeaderError(Exception):
    """A header has a form that the generator does not know: it says which, and where."""


_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<sign>\.\.\.|[^\sA-Za-z0-9_"])
      | (?P<space>\s+)""",
    re.VERBOSE | re.DOTALL,
)
_DEFINE = re.compile(r"#\s*define\s+([A-Za-z_]\w*)\s+(.*)", re.DOTALL)
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*$")


def _mask_comments(text):
    """The text with comments as spaces, so that no directive is found in one."""
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)


class _Conditions:
    """The nest of #if that a line stands in. Known: __cplusplus, which C does not have, and guards."""

    def __init__(self, path):
        self.path = path
        self.taken = []

    def directive(self, line, number):
        words = line[1:].split()
        if words[0] in ("ifdef", "ifndef"):
            is_guard = words[1].endswith("_H")
            if not is_guard and words[1] != "__cplusplus":
                raise HeaderError(f"{self.path}:{number}: a condition on {words[1]}")
            self.taken.append(words[0] == "ifndef")
        elif words[0] == "else":
            self.taken[-1] = not self.taken[-1]
        elif words[0] == "endif":
            self.taken.pop()
        elif words[0] in ("if", "elif"):
            raise HeaderError(f"{self.path}:{number}: #{words[0]}, whose condition is not read")

    def here(self):
        return all(self.taken)


def _constant(text):
    if text == "SIZE_MAX":
        return 2**64 - 1
    match = _NUMBER.match(text)
    return int(match.group(1), 0) if match else None


def preprocess(text, path):
    """(the text without directives and without C++, its lines kept; {name: number})."""
    lines = text.split("\n")
    masked = _mask_comments(text).split("\n")
    conditions, constants, number = _Conditions(path), {}, 0
    while number < len(lines):
        first = number
        while masked[number].rstrip().endswith("\\") and masked[first].lstrip().startswith("#"):
            number += 1
        number += 1
        if masked[first].lstrip().startswith("#"):
            whole = " ".join(part.rstrip().rstrip("\\") for part in masked[first:number]).strip()
            conditions.directive(whole, first + 1)
            define = _DEFINE.match(whole)
            if define and conditions.here():
                value = _constant(define.group(2).strip())
                if value is not None:
                    constants[define.group(1)] = value
            lines[first:number] = [""] * (number - first)
        elif not conditions.here():
            lines[first] = ""
    return "\n".join(lines), constants


def tokens_of(text, path):
    """The tokens of a preprocessed text."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise HeaderError(f"{path}:{line}: {text[at:at + 20]!r} is no token of C")
        end = line + match.group().count("\n")
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), line, end))
        at, line = match.end(), end
    return found


def comment_text(comment):
    """The sentences of a comment, without its frame."""
    lines = comment[2:-2].split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line.strip() for i, line in enumerate(lines)]
    return "\n".join(line.rstrip() for line in lines).strip()
