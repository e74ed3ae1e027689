# SPDX-License-Identifier: MIT
"""The wheels: their names and contents, and the demo in virtual environments that have nothing else, of every Python here."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SOURCE, BUILD = Path(os.environ["PH_TEST_SOURCE"]), Path(os.environ["PH_TEST_BUILD"])
COMPILED = (BUILD / "python" / "phonograph" / "_calls.abi3.so").exists()
KINDS = ["py3-none"] + ["cp311-abi3"] * COMPILED


def clean_environment(**more):
    """Without the package of the build tree."""
    return {**{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PHONOGRAPH"))}, **more}


def pythons():
    """Each Python from 3.11 on that runs here, one of a version."""
    found, places = {}, [Path(sys.executable)]
    for minor in range(11, 20):
        places += [Path(path) for path in [shutil.which(f"python3.{minor}")] if path]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        places += sorted(Path(root).glob("versions/3.*/bin/python3")) if root else []
    for place in places:
        ask = "import sys, ensurepip; print(sys.version_info[0] * 100 + sys.version_info[1], sys.implementation.name)"
        done = subprocess.run([place, "-c", ask], capture_output=True, text=True, check=False, env=clean_environment())
        if done.returncode == 0 and int(done.stdout.split()[0]) >= 311:
            found.setdefault(done.stdout.strip(), place)
    return found


PYTHONS = pythons()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    for module in ("setuptools", "wheel"):
        pytest.importorskip(module, reason=f"no {module} (the Debian package python3-{module})")
    folder = tmp_path_factory.mktemp("wheels")
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "python" / "make_wheel.py", "--build", BUILD, "--output", folder],
        capture_output=True, text=True, check=False, env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = {kind: next(folder.glob(f"*-{kind}-*.whl")) for kind in KINDS}
    assert sorted(done.stdout.splitlines()[-len(KINDS):]) == sorted(str(path) for path in made.values())
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_contents(wheels, kind):
    wheel = wheels[kind]
    assert re.fullmatch(rf"phonograph-[0-9.]+-{kind}-manylinux_2_[0-9]+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert ("phonograph/_calls.abi3.so" in names) == (kind == "cp311-abi3")
    for path in (SOURCE / "python" / "phonograph").rglob("*.py"):
        assert path.relative_to(SOURCE / "python").as_posix() in names
    for name in ("core.py", "core.pyi", "nn.py", "nn.pyi"):
        assert f"phonograph/bindings/{name}" in names
    assert {"phonograph/py.typed", "phonograph/lib/libphonograph.so.0.1", "phonograph/lib/libphonograph_nn.so.0.1"} <= names
    assert any(name.endswith("/LICENSE") for name in names)
    assert "Requires-Python: >=3.11" in metadata and "Requires-Dist" not in metadata


CHECK = """
import phonograph, phonograph.bindings.nn, sys
from phonograph import hot
assert "site-packages" in phonograph.__file__, phonograph.__file__
device = phonograph.Device("host:threads=1")
stream = device.stream()
x = stream.zeros(100)
graph = phonograph.Graph()
with graph.capture(stream):
    stream.fill(x, 1)
    stream.call(lambda: None)
for turn in range(100):
    graph.replay(stream)
stream.synchronize()
print(hot.COMPILED, len(graph.record()))
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", PYTHONS)
def test_demo_in_a_virtual_environment(wheels, tmp_path, version, kind):
    """pip takes the wheel by its tag, and the package needs nothing but Python."""
    environment, clean = tmp_path / "venv", clean_environment()
    subprocess.run([PYTHONS[version], "-m", "venv", environment], check=True, env=clean)
    subprocess.run([environment / "bin/pip", "install", "-q", "--no-index", wheels[kind]], check=True, env=clean, capture_output=True)
    python = environment / "bin/python"
    done = subprocess.run([python, "-c", CHECK], capture_output=True, text=True, check=False, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(kind == "cp311-abi3"), "2"]
    done = subprocess.run([python, "-m", "phonograph.demo"], capture_output=True, text=True, check=False, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "saxpy: captured once, replayed" in done.stdout and "the stale input is found: ph_graph_replay: refused" in done.stdout
    assert (tmp_path / "phonograph-demo.html").exists() or "no page: " in done.stdout


def test_setup_alone_says_what_to_do():
    done = subprocess.run(
        [sys.executable, "-B", SOURCE / "python" / "setup.py", "--version"], capture_output=True, text=True, check=False,
        env=clean_environment(),
    )  # fmt: skip
    assert done.returncode != 0 and "./build.sh wheel" in done.stderr + done.stdout
