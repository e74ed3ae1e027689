# SPDX-License-Identifier: MIT
"""The declarations of public headers: constants, enums, structs, function types and functions.

Types are tuples:
    ("name", NAME)                       a name of C, of a typedef, or "struct X"
    ("pointer", TYPE), ("const", TYPE)
    ("array", TYPE, LENGTH)
    ("function", RESULT, [(NAME, TYPE)], VARIADIC)
"""

from typing import NamedTuple

from source import HeaderError, comment_text, preprocess, tokens_of

_ATTRIBUTES = {"PH_API", "PH_CALL", "PH_MUST_USE"}
_TYPE_WORDS = {"unsigned", "signed", "long", "short", "int", "char"}


class Constant(NamedTuple):
    name: str
    value: int
    doc: str


class Enum(NamedTuple):
    name: str  # "" for an enum without one
    members: list  # of Constant
    doc: str


class Field(NamedTuple):
    name: str
    type: tuple
    doc: str


class Struct(NamedTuple):
    name: str
    fields: list  # of Field; None: the header does not show them
    doc: str


class FunctionType(NamedTuple):
    name: str
    type: tuple
    doc: str


class Function(NamedTuple):
    name: str
    type: tuple  # a "function"
    doc: str


class Header(NamedTuple):
    path: str
    doc: str
    declarations: list


class _Parser:
    def __init__(self, path, tokens, constants):
        self.path, self.tokens, self.at = path, tokens, 0
        self.constants = constants  # of all headers read so far; enums add theirs
        self.group_doc, self.group_end = "", 0  # the comment before this group of declarations

    # ---- tokens ----

    def fail(self, text):
        token = self.tokens[min(self.at, len(self.tokens) - 1)]
        raise HeaderError(f"{self.path}:{token.line}: {text} at {token.text!r}")

    def skip_comments(self):
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "comment":
            self.at += 1

    def peek(self, ahead=0):
        at = self.at
        while True:
            while at < len(self.tokens) and self.tokens[at].kind == "comment":
                at += 1
            if at >= len(self.tokens):
                return ""
            if ahead == 0:
                return self.tokens[at].text
            ahead -= 1
            at += 1

    def take(self, expected=None):
        self.skip_comments()
        if self.at >= len(self.tokens):
            self.fail("the header ends")
        token = self.tokens[self.at]
        if expected is not None and token.text != expected:
            self.fail(f"{expected!r} is expected")
        self.at += 1
        return token

    def take_if(self, text):
        if self.peek() != text:
            return False
        self.take()
        return True

    def skip_parentheses(self, opening, closing):
        depth = 0
        while True:
            text = self.take().text
            depth += (text == opening) - (text == closing)
            if depth == 0:
                return

    # ---- comments ----

    def trailing_comment(self):
        """The comment behind what was just read, on its line."""
        if 0 < self.at < len(self.tokens):
            token, before = self.tokens[self.at], self.tokens[self.at - 1]
            if token.kind == "comment" and token.line == before.end:
                self.at += 1
                return comment_text(token.text)
        return ""

    def leading_comment(self):
        """The last comment before the next declaration, which may stand for a group of them."""
        doc = ""
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "comment":
            doc = comment_text(self.tokens[self.at].text)
            self.at += 1
        line = self.tokens[self.at].line if self.at < len(self.tokens) else 0
        if doc:
            self.group_doc = doc
        elif line > self.group_end + 1:
            self.group_doc = ""
        return self.group_doc

    def end_declaration(self, doc):
        self.group_end = self.tokens[self.at - 1].end
        trailing = self.trailing_comment()
        return f"{doc}\n\n{trailing}".strip() if trailing and trailing != doc else doc

    # ---- types ----

    def specifiers(self):
        words, constant = [], False
        while True:
            text = self.peek()
            if text == "const":
                constant = True
            elif text in ("struct", "enum"):
                self.take()
                words.append(f"{text} {self.peek()}")
            elif text in _TYPE_WORDS or (not words and text[:1].isidentifier()):
                words.append(text)
            else:
                break
            self.take()
        if not words or any(word.startswith("PH_") for word in words):
            self.fail("no type")
        named = ("name", " ".join(words))
        return ("const", named) if constant else named

    def declarator(self, base):
        """(name, type): a name may be missing, as that of a parameter."""
        while self.take_if("*"):
            base = ("pointer", base)
            if self.take_if("const"):
                base = ("const", base)
        if self.peek() == "(" and self.peek(1) == "*":
            self.take("(")
            self.take("*")
            name = self.take().text
            self.take(")")
            return name, ("pointer", self.function_suffix(base))
        name = self.take().text if self.peek()[:1].isidentifier() else ""
        lengths = []
        while self.take_if("["):
            lengths.append(0 if self.peek() == "]" else self.value())
            self.take("]")
        for length in reversed(lengths):
            base = ("array", base, length)
        return name, base

    def function_suffix(self, result):
        self.take("(")
        parameters, variadic = [], False
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        while not self.take_if(")"):
            if self.take_if("..."):
                variadic = True
            else:
                name, type_ = self.declarator(self.specifiers())
                if type_[0] == "array":  # a parameter of C is the address of the first
                    type_ = ("pointer", type_[1])
                parameters.append((name, type_))
            if self.peek() != ")":
                self.take(",")
        return ("function", result, parameters, variadic)

    def value(self):
        negative = self.take_if("-")
        text = self.take().text
        if text in self.constants:
            number = self.constants[text]
        elif text[0].isdigit():
            number = int(text.rstrip("uUlL"), 0)
        else:
            self.fail(f"{text} has no known value")
        return -number if negative else number

    # ---- declarations ----

    def enum(self, doc):
        name = "" if self.peek() == "{" else self.take().text
        self.take("{")
        members, next_value = [], 0
        while self.peek() != "}":
            comment = self.leading_comment()
            member = self.take().text
            if self.take_if("="):
                next_value = self.value()
            self.take_if(",")
            comment = self.trailing_comment() or comment
            self.group_doc = ""
            members.append(Constant(member, next_value, comment))
            self.constants[member] = next_value
            next_value += 1
        self.take("}")
        return name, members

    def struct_fields(self):
        self.take("{")
        fields = []
        while self.peek() != "}":
            comment = self.leading_comment()
            base = self.specifiers()
            names = [self.declarator(base)]
            while self.take_if(","):
                names.append(self.declarator(base))
            self.take(";")
            comment = self.trailing_comment() or comment
            self.group_doc = ""
            fields += [Field(name, type_, comment) for name, type_ in names]
        self.take("}")
        return fields

    def typedef(self, doc):
        self.take("typedef")
        if self.peek() == "enum":
            self.take()
            name, members = self.enum(doc)
            self.take(name)
            self.take(";")
            return Enum(name, members, self.end_declaration(doc))
        if self.peek() == "struct" and self.peek(2) == "{":
            self.take()
            name = self.take().text
            fields = self.struct_fields()
            self.take(name)
            self.take(";")
            return Struct(name, fields, self.end_declaration(doc))
        name, type_ = self.declarator(self.specifiers())
        self.take(";")
        doc = self.end_declaration(doc)
        if type_[0] == "pointer" and type_[1][0] == "function":
            return FunctionType(name, type_[1], doc)
        if type_ == ("name", f"struct {name}"):
            return Struct(name, None, doc)
        return self.fail(f"a typedef {name} of an unknown form")

    def function(self, doc):
        is_call = False
        while self.peek() in _ATTRIBUTES:
            is_call |= self.take().text == "PH_CALL"
        result = ("name", "ph_status") if is_call else self.specifiers()
        while self.take_if("*"):
            result = ("pointer", result)
        name = self.take().text
        if name.startswith("PH_"):
            self.fail(f"an unknown word {name}")
        type_ = self.function_suffix(result)
        if self.take_if("PH_PRINTF"):
            self.skip_parentheses("(", ")")
        self.take(";")
        return Function(name, type_, self.end_declaration(doc))

    def skip_inline(self):
        while self.peek() != "{":
            self.take()
        self.skip_parentheses("{", "}")
        self.group_end = self.tokens[self.at - 1].end

    def declaration(self):
        doc = self.leading_comment()
        text = self.peek()
        if text in ("PH_BEGIN_DECLS", "PH_END_DECLS"):
            self.take()
        elif text == "static":
            self.skip_inline()
        elif text == "typedef":
            return self.typedef(doc)
        elif text == "enum":
            self.take()
            name, members = self.enum(doc)
            self.take(";")
            return Enum(name, members, self.end_declaration(doc))
        elif text == "struct":  # struct X; another library's
            self.take()
            name = f"struct {self.take().text}"
            self.take(";")
            return Struct(name, None, self.end_declaration(doc))
        elif text in _ATTRIBUTES:
            return self.function(doc)
        elif text:
            self.fail("a declaration of an unknown form")
        return None

    def header(self):
        doc = ""
        for token in self.tokens[:2]:  # the licence, then what the header is for
            if token.kind == "comment":
                doc = comment_text(token.text)
        found = []
        self.at = min(2, len(self.tokens))
        while self.peek():
            declared = self.declaration()
            if declared is not None:
                found.append(declared)
        return Header(self.path, doc, found)


def read_header(path, name, constants):
    """Reads one header. constants grows by its own."""
    with open(path, encoding="utf-8") as file:
        text, defined = preprocess(file.read(), name)
    constants.update(defined)
    header = _Parser(name, tokens_of(text, name), constants).header()
    numbers = [Constant(key, value, "") for key, value in defined.items()]
    return header._replace(declarations=numbers + header.declarations)
