#!/bin/sh
# SPDX-License-Identifier: MIT
# abi.sh SOURCE NAME LIBRARY CC [--write]: the library's ABI against the committed dump, tests/abi/NAME.abi.gz: abidiff of libabigail. What
# is added is compatible; --write makes the dump anew, at a release or where docs/guide/abi.md allows the change.
set -eu
source=$1 name=$2 library=$3 cc=$4
skip()
{
    echo "skipped: $1: the ABI of $name was not held against its dump"
    exit 77
}
command -v abidiff >/dev/null 2>&1 || skip "no abidiff was found (the Debian package abigail-tools)"
[ "$(uname -m)" = x86_64 ] || skip "the dump is of x86-64"
"$cc" --version | grep -qi 'free software foundation' || skip "the dump is of GCC, whose debug information differs from that of others"
readelf -SW "$library" | grep -q '\.debug_info' || skip "the library has no debug information"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
abidw --suppressions "$source/tests/abi/private.suppr" --headers-dir "$source/include" --drop-private-types --no-corpus-path \
    --no-comp-dir-path --no-show-locs --no-elf-needed --drop-undefined-syms "$library" >"$work/new.abi"
if [ "${5:-}" = --write ]; then
    gzip -9n <"$work/new.abi" >"$source/tests/abi/$name.abi.gz"
    exit
fi
gzip -dc "$source/tests/abi/$name.abi.gz" >"$work/old.abi"
status=0
abidiff --no-added-syms "$work/old.abi" "$work/new.abi" || status=$?
[ "$status" -eq 0 ] || { echo "the ABI of $name differs (docs/guide/abi.md says what may)"; exit 1; }
echo "the ABI of $name is that of the dump"
