#!/bin/sh
# SPDX-License-Identifier: MIT
# bare_root.sh SOURCE [PACKAGES [ROOT]]: the Debian packages are built (or taken from PACKAGES), are clean to lintian, and are installed into
# a bare Debian (or into ROOT, one that is there), in which a C, a C++ and a CMake program are built against them and run.
set -eu
source=$1 packages=${2:-} bare=${3:-}
skip()
{
    echo "skipped: $1: the packages were not installed in a bare root"
    exit 77
}
[ "${PH_TEST_TIER:-}" = nightly ] || skip "not the nightly tier"
[ "$(id -u)" -eq 0 ] || skip "not root"
for tool in debootstrap lintian dpkg-buildpackage dh; do
    command -v "$tool" >/dev/null 2>&1 || skip "no $tool was found"
done

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
if [ -z "$bare" ]; then
    bare=$work/root
    debootstrap --variant=minbase --include=gcc,g++,libc6-dev,cmake,ninja-build,pkg-config bookworm "$bare" >"$work/log" 2>&1 ||
        skip "debootstrap failed ($(tail -n 1 "$work/log"))"
fi
if [ -z "$packages" ]; then
    packages=$work/packages
    "$source/build.sh" deb "$packages"
fi
echo "== lintian"
lintian --allow-root --fail-on error,warning "$packages"/*.changes

echo "== installed"
rm -rf "$bare/phonograph"
mkdir "$bare/phonograph"
find "$packages" -name '*.deb' ! -name '*dbgsym*' -exec cp {} "$bare/phonograph/" \;
cp -r "$source/tests/install" "$bare/phonograph/use"
cat >"$bare/phonograph/use/program.cpp" <<'END'
#include <phonograph/phonograph.hpp>
#include <cstdio>
int main() { return std::puts(ph_version()) < 0; }
END
chroot "$bare" env DEBIAN_FRONTEND=noninteractive sh -eux -c '
    cd /phonograph
    dpkg -i libphonograph*.deb
    dpkg --unpack phonograph-tools*.deb
    apt-get -q -y -f --no-install-recommends install
    dpkg --configure -a
    cc use/consumer.c -o c $(pkg-config --cflags --libs phonograph) && ./c
    cc use/consumer_nn.c -o nn $(pkg-config --cflags --libs phonograph_nn) -lm && ./nn
    c++ -std=c++17 use/program.cpp -o cxx $(pkg-config --cflags --libs phonograph) && ./cxx
    cmake -S use -B build -G Ninja && cmake --build build
    build/consumer && build/consumer_static && build/consumer_nn && build/consumer_nn_static
    phonograph info
    ls -l /usr/lib/*/libphonograph*.so.0.1 /usr/share/man/man3/ph_graph_replay.3.gz /usr/share/man/man1/phonograph.1.gz
'
