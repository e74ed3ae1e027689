# SPDX-License-Identifier: MIT
"""Packs a staged package into a wheel. python/make_wheel.py runs it, and stages first: ./build.sh wheel is the command.

PH_WHEEL_STAGE: the folder that has phonograph/ and LICENSE. PH_WHEEL_TAG: "cp311-abi3-PLATFORM" or
"py3-none-PLATFORM". PH_WHEEL_VERSION: the version.
"""

import os
from pathlib import Path

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

if "PH_WHEEL_STAGE" not in os.environ:
    raise SystemExit("setup.py: the package has compiled libraries: ./build.sh wheel builds them and it")
stage = Path(os.environ["PH_WHEEL_STAGE"])
os.chdir(stage)


class Tagged(bdist_wheel):
    def get_tag(self):
        return tuple(os.environ["PH_WHEEL_TAG"].split("-"))


class Compiled(Distribution):
    def has_ext_modules(self):
        return True


setup(
    name="phonograph",
    version=os.environ["PH_WHEEL_VERSION"],
    description="Record GPU work once, replay it with a single launch",
    long_description=(stage / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=["phonograph", "phonograph.bindings", "phonograph.torch"],
    package_data={"phonograph": ["py.typed", "*.so", "lib/*", "bin/*"], "phonograph.bindings": ["*.pyi"]},
    cmdclass={"bdist_wheel": Tagged},
    distclass=Compiled,
    zip_safe=False,
    script_args=["-q", "bdist_wheel", "--dist-dir", os.environ["PH_WHEEL_OUTPUT"]],
)
