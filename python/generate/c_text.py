# SPDX-License-Identifier: MIT
"""C again, out of what was read: a program that holds the reading against the compiler.

It compiles only if each function has the type that was read. It prints a line for each struct, each
member, and each constant, which the tests hold against what Python has.
"""

from declarations import Constant, Enum, Function, FunctionType, Struct


def declare(type_, name):
    """The C declaration of a name of that type."""
    kind = type_[0]
    if kind == "name":
        return f"{type_[1]} {name}".rstrip()
    if kind == "const":
        inner = type_[1]
        if inner[0] == "pointer":
            return declare(inner[1], f"*const {name}".rstrip())
        return f"const {declare(inner, name)}"
    if kind == "pointer":
        inner = type_[1]
        return declare(inner, f"(*{name})" if inner[0] in ("function", "array") else f"*{name}")
    if kind == "array":
        return declare(type_[1], f"{name}[{type_[2]}]")
    _, result, parameters, variadic = type_
    texts = [declare(parameter, "") for _, parameter in parameters] + ["..."] * variadic
    return declare(result, f"{name}({', '.join(texts) or 'void'})")


def _print_struct(struct):
    lines = [f'    printf("struct {struct.name} %zu\\n", sizeof({struct.name}));']
    for field in struct.fields:
        place = f"offsetof({struct.name}, {field.name}), sizeof((({struct.name} *)0)->{field.name})"
        lines.append(f'    printf("field {struct.name} {field.name} %zu %zu\\n", {place});')
    return lines


def _print_constant(constant):
    return f'    printf("constant {constant.name} %llu\\n", (unsigned long long){constant.name});'


def check_program(headers):
    """The text of the program."""
    checks, prints = [], []
    for header in headers:
        for item in header.declarations:
            if isinstance(item, Function):
                checks.append(f"{declare(('pointer', item.type), 'read_' + item.name)} = {item.name};")
            elif isinstance(item, FunctionType):
                checks.append(f"{declare(('pointer', item.type), 'read_' + item.name)} = ({item.name})0;")
            elif isinstance(item, Struct) and item.fields is not None:
                prints += _print_struct(item)
            elif isinstance(item, Enum):
                prints += [_print_constant(member) for member in item.members]
            elif isinstance(item, Constant):
                prints.append(_print_constant(item))
    includes = [f"#include <{header.path}>" for header in headers]
    return "\n".join(
        ["#include <stdio.h>", *includes, "", *checks, "", "int main(void)", "{", *prints, "    return 0;", "}", ""]
    )
