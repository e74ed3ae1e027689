#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh SOURCE BUILD CMAKE CC FLAGS: installs a build into a prefix, moves that prefix, and builds and runs a program against it:
# with find_package, with pkg-config, and with pkg-config against the static library.
set -eu
source=$1 build=$2 cmake=$3 cc=$4 flags=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source" "$work/source"
# What is installed is what the target "installable" builds, which `./build.sh install` takes.
if [ -f "$build/build.ninja" ]; then
    ninja -C "$build" -t query installable >"$work/inputs"
    for file in manual lib/libphonograph.a lib/libphonograph_nn.a; do
        grep -q " $file\$" "$work/inputs" || { echo "the target installable does not build $file"; exit 1; }
    done
fi
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved here"
prefix="$work/moved here"

echo "== find_package"
"$cmake" -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON
"$cmake" --build "$work/build"
grep -q "^phonograph_DIR:PATH=$prefix/" "$work/build/CMakeCache.txt" || { echo "another copy was found"; exit 1; }
"$work/build/consumer"
"$work/build/consumer_static"
"$work/build/consumer_nn"
"$work/build/consumer_nn_static"

echo "== pkg-config"
pc=$(find "$prefix" -name phonograph.pc)
PKG_CONFIG_PATH=${pc%/*}
export PKG_CONFIG_PATH
# Found through a link without spaces: the shell splits what pkg-config prints.
ln -s "$prefix" "$work/linked"
PKG_CONFIG_PATH="$work/linked/${PKG_CONFIG_PATH#"$prefix"/}"
library_dir=$(pkg-config --variable=libdir phonograph)
# shellcheck disable=SC2046,SC2086
"$cc" $flags $(pkg-config --cflags phonograph) -o "$work/shared" "$work/source/consumer.c" \
    $(pkg-config --libs phonograph) -Wl,-rpath,"$library_dir"
"$work/shared"
# shellcheck disable=SC2046,SC2086
"$cc" $flags $(pkg-config --cflags phonograph) -o "$work/static" "$work/source/consumer.c" \
    -Wl,-Bstatic $(pkg-config --libs phonograph) -Wl,-Bdynamic $(pkg-config --static --libs-only-other phonograph)
"$work/static"
# shellcheck disable=SC2046,SC2086
"$cc" $flags $(pkg-config --cflags phonograph_nn) -o "$work/shared_nn" "$work/source/consumer_nn.c" \
    $(pkg-config --libs phonograph_nn) -Wl,-rpath,"$library_dir"
"$work/shared_nn"
# shellcheck disable=SC2046,SC2086
"$cc" $flags $(pkg-config --cflags phonograph_nn) -o "$work/static_nn" "$work/source/consumer_nn.c" \
    -Wl,-Bstatic $(pkg-config --libs phonograph_nn) -Wl,-Bdynamic $(pkg-config --static --libs-only-other phonograph) -lm
"$work/static_nn"

echo "== the pages that the headers name"
doc="$prefix/share/doc/phonograph"
for page in $(grep -rohE 'docs/[A-Za-z0-9/-]+\.md' "$prefix/include/phonograph" | sort -u) README.md CHANGELOG.md LICENSE \
    docs/pictures/digits-report.png; do
    [ -s "$doc/$page" ] || { echo "$page is not installed"; exit 1; }
done
grep -rq 'docs/[A-Za-z0-9/-]*\.md' "$prefix/include/phonograph" || { echo "no header names a page"; exit 1; }
sh "$source/../headers/links.sh" "$doc"

echo "== the command"
if [ -e "$build/bin/phonograph" ]; then
    "$prefix/bin/phonograph" info
    for file in bash-completion/completions/phonograph zsh/site-functions/_phonograph fish/vendor_completions.d/phonograph.fish; do
        [ -s "$prefix/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
    done
fi
if [ -d "$build/man" ]; then
    for page in man3/ph_graph_replay.3 man3/ph_abs.3 man7/phonograph.7 man7/phonograph-stream.7; do
        [ -s "$prefix/share/man/$page" ] || { echo "share/man/$page is not installed"; exit 1; }
    done
fi
