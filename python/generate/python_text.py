# SPDX-License-Identifier: MIT
"""Python out of what was read: the module of ctypes declarations of one library, and its stub."""

from declarations import Constant, Enum, Function, FunctionType, Struct
from short_calls import SHORT_CALLS

_SCALARS = {
    "bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "unsigned int": "c_uint",
    "int8_t": "c_int8", "uint8_t": "c_uint8", "int16_t": "c_int16", "uint16_t": "c_uint16", "int32_t": "c_int32",
    "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "size_t": "c_size_t",
    "ptrdiff_t": "c_ssize_t", "float": "c_float", "double": "c_double",
}  # fmt: skip


class Names:
    """The types that all headers declare, by kind."""

    def __init__(self, headers):
        self.enums, self.structs, self.opaque, self.functions = set(), set(), set(), set()
        for header in headers:
            for item in header.declarations:
                if isinstance(item, Enum) and item.name:
                    self.enums.add(item.name)
                elif isinstance(item, FunctionType):
                    self.functions.add(item.name)
                elif isinstance(item, Struct):
                    (self.opaque if item.fields is None else self.structs).add(item.name)
        self.opaque -= self.structs

    def python(self, type_):
        """The ctypes type, as Python text."""
        kind = type_[0]
        if kind == "const":
            return self.python(type_[1])
        if kind == "name":
            return self._named(type_[1])
        if kind == "array":
            return f"({self.python(type_[1])} * {type_[2]})"
        if kind == "function":
            return self.function(type_)
        inner = type_[1][1] if type_[1][0] == "const" else type_[1]
        if inner[0] == "function":
            return self.function(inner)
        if inner == ("name", "char"):
            return "c_char_p" if type_[1][0] == "const" else "c_void_p"
        if inner[0] == "name" and (inner[1] == "void" or inner[1] in self.opaque or inner[1].startswith("struct ")):
            return "c_void_p"
        return f"POINTER({self.python(inner)})"

    def _named(self, name):
        if name in _SCALARS:
            return _SCALARS[name]
        if name in self.enums:
            return "c_int"
        if name == "void":
            return "None"
        if name in self.structs or name in self.functions:
            return name
        raise KeyError(f"{name}: no header that was read declares this type")

    def function(self, type_):
        _, result, parameters, _ = type_
        return f"CFUNCTYPE({', '.join([self.python(result)] + [self.python(p) for _, p in parameters])})"

    def stub(self, type_):
        """What a parameter of that type takes, as Python text of a stub."""
        text = self.python(type_)
        if text in ("c_bool",):
            return "bool"
        if text in ("c_float", "c_double"):
            return "float"
        if text == "c_char_p":
            return "bytes | None"
        if text == "c_void_p":
            return "Handle"
        if text == "None":
            return "None"
        if text.startswith(("POINTER(", "CFUNCTYPE(")) or text in self.functions:
            return "Any"
        return text if text in self.structs else "int"


def _docstring(text, indent=""):
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text += " "
    return f'{indent}"""' + text.replace("\n", "\n" + indent).replace(indent + "\n", "\n") + '"""'


def _struct_doc(struct):
    lines = [struct.doc, ""] + [f"{field.name}: {field.doc}" for field in struct.fields if field.doc]
    return "\n".join(lines).strip() or struct.name


def _enum_text(enum):
    lines = []
    if enum.name:
        lines += ["", f"class {enum.name}(_Named):", _docstring(enum.doc or enum.name, "    ")]
        lines += [f"    {member.name} = {member.value}" for member in enum.members]
        lines.append("")
    for member in enum.members:
        value = f"{enum.name}.{member.name}" if enum.name else member.value
        lines.append(f"{member.name} = {value}")
    return lines


def _struct_text(struct, names):
    lines = ["", f"class {struct.name}(Structure):", _docstring(_struct_doc(struct), "    "), "    _fields_ = ["]
    lines += [f'        ("{field.name}", {names.python(field.type)}),' for field in struct.fields]
    return lines + ["    ]", ""]


def _function_text(function, names):
    _, result, parameters, variadic = function.type
    types = "".join(names.python(type_) + ", " for _, type_ in parameters)
    flags = ", short=True" if function.name in SHORT_CALLS and not variadic else ""
    words = "".join(f'"{name}", ' for name, _ in parameters)
    return [
        f'{function.name} = _library.function("{function.name}", {names.python(result)}, ({types}), ({words}){flags})',
        f"{function.name}.__doc__ = " + _docstring(function.doc or function.name),
    ]


def module_text(headers, names, library, before):
    """The module of the library; before: the module whose names it takes too, or None."""
    lines = [
        "# SPDX-License-Identifier: MIT",
        _docstring(f"The calls of lib{library}, by ctypes: generated from its public headers."),
        "from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int16,",
        "    c_int32, c_int64, c_size_t, c_ssize_t, c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p)",
        "",
        "from .library import Library as _Library",
        "from .library import Named as _Named",
    ]
    if before:
        lines.append(f"from .{before} import *")
    lines += ["", f'_library = _Library("{library}")']
    for header in headers:
        lines += ["", f"# ---- {header.path} ----"]
        for item in header.declarations:
            if isinstance(item, Enum):
                lines += _enum_text(item)
            elif isinstance(item, Struct):
                lines += _struct_text(item, names) if item.fields is not None else []
            elif isinstance(item, FunctionType):
                lines += [f"{item.name} = {names.function(item.type)}", f"# {' '.join(item.doc.split())}" if item.doc else ""]
            elif isinstance(item, Function):
                lines += _function_text(item, names)
            elif isinstance(item, Constant):
                lines.append(f"{item.name} = {item.value}")
    return "\n".join(lines) + "\n"


def _python_name(name):
    return name + "_" if name in ("from", "in", "is", "lambda", "def", "class", "pass", "with") else name


def stub_text(headers, names, library, before):
    """The stub of the same module."""
    lines = [
        "# SPDX-License-Identifier: MIT",
        f"# The calls of lib{library}, by ctypes: generated from its public headers.",
        "from ctypes import Structure, c_void_p",
        "from enum import IntEnum",
        "from typing import Any, Union",
        "",
    ]
    lines += [f"from .{before} import *"] if before else []
    lines += ["Handle = Union[int, c_void_p, None]"]
    for header in headers:
        lines += ["", f"# ---- {header.path} ----"]
        for item in header.declarations:
            if isinstance(item, Enum):
                if item.name:
                    lines.append(f"class {item.name}(IntEnum):")
                    lines += [f"    {member.name} = {member.value}" for member in item.members]
                lines += [f"{member.name}: int" for member in item.members]
            elif isinstance(item, Struct) and item.fields is not None:
                lines += [f"class {item.name}(Structure):", _docstring(_struct_doc(item), "    ")]
                lines += [f"    {field.name}: Any" for field in item.fields]
            elif isinstance(item, FunctionType):
                lines.append(f"{item.name}: Any")
            elif isinstance(item, Function):
                _, result, parameters, variadic = item.type
                texts = [f"{_python_name(name)}: {names.stub(type_)}" for name, type_ in parameters]
                texts += ["*arguments: Any"] * variadic
                lines.append(f"def {item.name}({', '.join(texts)}) -> {names.stub(result)}:")
                lines.append(_docstring(item.doc or item.name, "    "))
            elif isinstance(item, Constant):
                lines.append(f"{item.name}: int")
    return "\n".join(lines) + "\n"
