# SPDX-License-Identifier: MIT
"""The generated calls: every symbol of the libraries, and every struct, member and number as the compiler has them."""

import ast
import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phonograph.bindings import core, nn

sys.path.insert(0, os.environ["PH_TEST_GENERATE"])
import declarations  # noqa: E402
import short_calls  # noqa: E402
import source  # noqa: E402

FACTS = [line.split() for line in subprocess.check_output([os.environ["PH_TEST_CHECK"]], text=True).splitlines()]


def symbols(library):
    listed = subprocess.check_output(["nm", "-D", "--defined-only", "--format=posix", library], text=True)
    return {line.split("@")[0] for line in listed.splitlines() if line.split()[1] == "T"}


@pytest.mark.parametrize("module", [core, nn])
def test_every_symbol_is_there(module):
    found = symbols(module._library.path)
    assert len(found) > 100
    missing = {name for name in found if not hasattr(module, name)}
    assert not missing
    own = {name for name in vars(module) if name.startswith("ph_") and isinstance(getattr(module, name), ctypes._CFuncPtr)}
    assert found <= own | {"InitializeInjectionNvtx2"}


def test_sizes_offsets_and_numbers_are_the_compilers():
    kinds = {"struct": 0, "field": 0, "constant": 0}
    for kind, *words in FACTS:
        kinds[kind] += 1
        if kind == "struct":
            assert ctypes.sizeof(getattr(nn, words[0])) == int(words[1]), words
        elif kind == "field":
            field = getattr(getattr(nn, words[0]), words[1])
            assert (field.offset, field.size) == (int(words[2]), int(words[3])), words
        else:
            assert getattr(nn, words[0]) == int(words[1]), words
    assert kinds["struct"] > 60 and kinds["field"] > 400 and kinds["constant"] > 150


def test_structs_are_complete():
    """No struct of Python is missing in the compiler's list, and none has a member more."""
    of_c = {(words[1], words[2]) for words in FACTS if words[0] == "field"}
    classes = [value for value in vars(nn).values() if isinstance(value, type) and issubclass(value, ctypes.Structure)]
    of_python = {(value.__name__, field[0]) for value in classes for field in getattr(value, "_fields_", ())}
    assert of_python == of_c


def test_docstrings_are_the_headers():
    assert "with no lock held" in core.ph_launch_host.__doc__
    assert core.ph_graph_replay.__doc__.startswith("Launches the whole graph, asynchronously")
    assert core.ph_graph_replay.parameters == ("graph", "stream")
    assert "host device: threads that run kernels" in core.ph_device_options.__doc__
    for name in symbols(core._library.path):
        assert getattr(core, name).__doc__, name


@pytest.mark.parametrize("module", [core, nn])
def test_stubs_have_every_call(module):
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in symbols(module._library.path):
        assert name in stubs
        parameters = [argument.arg.rstrip("_") for argument in stubs[name].args.args]
        assert parameters == [word.rstrip("_") for word in getattr(module, name).parameters]


def test_short_calls_exist_and_keep_the_lock():
    for name in short_calls.SHORT_CALLS:
        assert getattr(core, name).short, name
    for name in ("ph_graph_replay", "ph_stream_synchronize", "ph_device_release", "ph_launch", "ph_graph_reset", "ph_memcpy"):
        assert not getattr(core, name).short, name


def read(tmp_path, text):
    path = tmp_path / "one.h"
    path.write_text(text, encoding="utf-8")
    return declarations.read_header(path, "one.h", {}).declarations


@pytest.mark.parametrize(
    "text",
    [
        "#if FOO\n#endif\n", "#ifdef FOO\n#endif\n", "union u { int a; };", "typedef int number;", "PH_API int ph_x(int a[N]);",
        "enum { PH_A = sizeof(int) };", "PH_API PH_WEAK int ph_x(void);", "int ph_x;", "PH_API int ph_x(void)", "@",
    ],
)  # fmt: skip
def test_forms_that_are_not_known_are_refused(tmp_path, text):
    with pytest.raises(source.HeaderError, match="one.h:"):
        read(tmp_path, "/* licence */\n/* one.h */\n" + text)


def test_declarations_are_read_as_c_means_them(tmp_path):
    found = read(
        tmp_path,
        """/* licence */
/* one.h: a header. */
#define PH_N 3
typedef struct ph_a {
    uint8_t b[PH_N][2], *c; /* both */
    const char *const *names;
    void (*call)(int, void *user);
} ph_a;
/* Makes one. */
PH_CALL ph_make(ph_a **out, int n, ...) PH_PRINTF(1, 2);
PH_API const char *ph_name(void); /* its name */
""",
    )
    number, struct, make, name = found
    assert number.value == 3
    assert [field.name for field in struct.fields] == ["b", "c", "names", "call"]
    assert struct.fields[0].type == ("array", ("array", ("name", "uint8_t"), 2), 3)
    assert struct.fields[0].doc == struct.fields[1].doc == "both"
    assert struct.fields[3].type[0] == "pointer" and struct.fields[3].type[1][0] == "function"
    assert make.doc == "Makes one." and make.type[3]
    assert name.doc == "Makes one.\n\nits name"
