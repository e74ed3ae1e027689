# SPDX-License-Identifier: MIT
"""python3 python/make_wheel.py --build DIR --output DIR: the wheels of a build whose targets installable and python are there.

Two wheels, each with both libraries and the command: cp311-abi3, with the compiled module, and py3-none, with ctypes
alone. The first is left out where the build has no such module. Prints their paths.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent


def oldest_glibc(files):
    """The newest version of glibc's symbols that a file asks for: (major, minor)."""
    found = set()
    for path in files:
        found |= {tuple(map(int, m.split(b"."))) for m in re.findall(rb"GLIBC_(2\.[0-9]+)\b", path.read_bytes())}
    return max(found, default=(2, 17))


def jansson_of(command):
    """The library that the command needs beside ours: (its path, its licence or None)."""
    for line in subprocess.check_output(["ldd", command], text=True).splitlines():
        match = re.match(r"\s*libjansson\.so\.4 => (\S+)", line)
        if match:
            licence = Path("/usr/share/doc/libjansson4/copyright")
            return Path(match.group(1)), licence if licence.exists() else None
    return None, None


def stage_package(build, stage):
    """Puts the package, the libraries and the command together."""
    package = stage / "phonograph"
    shutil.copytree(build / "python" / "phonograph", package, ignore=shutil.ignore_patterns("lib", "bin", "__pycache__", "*.so"))
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.check_call(
            ["cmake", "--install", build, "--component", "wheel", "--prefix", prefix, "--strip"], stdout=subprocess.DEVNULL
        )
        (package / "lib").mkdir()
        (package / "bin").mkdir()
        for name in ("phonograph", "phonograph_nn"):
            soname = min(Path(prefix, "lib").glob(f"lib{name}.so.*"), key=lambda path: len(path.name))
            shutil.copy(soname, package / "lib" / soname.name)  # the file behind the link
        command = Path(prefix, "bin", "phonograph")
        if command.exists():
            shutil.copy(command, package / "bin" / "phonograph")
            jansson, licence = jansson_of(command)
            if jansson:
                shutil.copy(jansson, package / "lib" / "libjansson.so.4")
            if licence:
                shutil.copy(licence, package / "lib" / "libjansson-copyright.txt")
    for name in ("LICENSE", "README.md"):
        shutil.copy(SOURCE / name, stage / name)
    return package


def pack(stage, tag, version, output):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}  # it warns of that
    environment |= {
        "PH_WHEEL_STAGE": str(stage), "PH_WHEEL_TAG": tag, "PH_WHEEL_VERSION": version,
        "PH_WHEEL_OUTPUT": str(output),
    }  # fmt: skip
    subprocess.check_call([sys.executable, "-W", "ignore", SOURCE / "python" / "setup.py"], env=environment, cwd=stage)
    shutil.rmtree(stage / "build", ignore_errors=True)
    return next(output.glob(f"phonograph-{version}-{tag}.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    build, output = arguments.build.resolve(), arguments.output.resolve()
    numbers = re.findall(
        r"#define PH_VERSION_(?:MAJOR|MINOR|PATCH) ([0-9]+)", (SOURCE / "include/phonograph/version.h").read_text(encoding="utf-8")
    )
    version = ".".join(numbers)
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("phonograph-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        package = stage_package(build, stage)
        files = [*(package / "lib").glob("*.so*"), *(package / "bin").iterdir()]
        compiled = build / "python" / "phonograph" / "_calls.abi3.so"
        glibc = oldest_glibc(files + [compiled] * compiled.exists())
        where = f"manylinux_{glibc[0]}_{glibc[1]}_{platform.machine()}"
        print(pack(stage, f"py3-none-{where}", version, output))
        if compiled.exists():
            shutil.copy(compiled, package)
            print(pack(stage, f"cp311-abi3-{where}", version, output))


if __name__ == "__main__":
    main()
