# SPDX-License-Identifier: MIT
"""The examples in the form of notebooks: each runs as a script, and asserts what it shows."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(os.environ["PH_TEST_SOURCE"]) / "python" / "examples").glob("*.py"))
SAID = {
    "numpy_on_the_host_device": ["three blends: [0.875 0.875 0.875]", "{'name': 'blend', 'step': 2}"],
    "stale_input": ["refused, 1 dead input", "memcpy src 512 PH_INPUT_FREED", "both remedies work"],
    "torch_slow_graph": ["'scaling': 64", "verify: PH_VERIFY_EQUAL"],
    "torch_stale_input": ["2 dead tensors", "freed at", "50 steps, the loss went down"],
}


def has_torch_with_gpu():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def test_all_are_here():
    assert [path.stem for path in EXAMPLES] == sorted(SAID)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    if path.stem.startswith("torch_") and not has_torch_with_gpu():
        pytest.skip("there is no torch with a GPU: this example was not run")
    done = subprocess.run([sys.executable, "-B", path], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for text in SAID[path.stem]:
        assert text in done.stdout, done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_form_of_a_notebook(path):
    """Cells begin with # %%; text cells have comments alone."""
    cells = path.read_text(encoding="utf-8").split("\n# %%")[1:]
    assert len(cells) >= 6 and cells[0].startswith(" [markdown]\n# # ")
    for cell in cells:
        if cell.startswith(" [markdown]"):
            assert all(not line or line.startswith("#") for line in cell.split("\n")[1:])
