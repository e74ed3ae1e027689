#!/bin/sh
# SPDX-License-Identifier: MIT
# recipes.sh SOURCE VERSION ABI CMAKE: the recipes of packaging/ are of this version and soname, can be parsed, and name options that there are.
set -eu
packaging=$1/packaging version=$2 abi=$3 cmake=$4
fails()
{
    echo "$1"
    exit 1
}
grep -q "^phonograph ($version)" "$packaging/debian/changelog" || fails "debian/changelog is of another version"
grep -qx "Package: libphonograph$abi" "$packaging/debian/control" || fails "debian/control: no libphonograph$abi"
grep -qx "Package: libphonograph-nn$abi" "$packaging/debian/control" || fails "debian/control: no libphonograph-nn$abi"
for list in "libphonograph$abi" "libphonograph-nn$abi" libphonograph-dev phonograph-tools; do
    [ -s "$packaging/debian/$list.install" ] || fails "debian/$list.install is missing"
done
printf 'file(READ "%s/vcpkg/vcpkg.json" text)\nstring(JSON found GET "${text}" version)\nmessage("${found}")\n' "$packaging" >"${TMPDIR:-/tmp}/ph_json_$$.cmake"
found=$("$cmake" -P "${TMPDIR:-/tmp}/ph_json_$$.cmake" 2>&1) || found="not JSON: $found"
rm -f "${TMPDIR:-/tmp}/ph_json_$$.cmake"
[ "$found" = "$version" ] || fails "vcpkg.json: '$found', not $version"
grep -qx "  version: \"$version\"" "$packaging/conda/meta.yaml" || fails "conda/meta.yaml is of another version"
! grep -q "$(printf '\t')" "$packaging/conda/meta.yaml" || fails "conda/meta.yaml has tabs, which are no YAML"
for name in phonograph phonograph_nn; do
    grep -q "lib/lib$name.so.$abi\$" "$packaging/conda/meta.yaml" || fails "conda/meta.yaml: no lib$name.so.$abi"
done
for option in $(grep -ohE '\bPH_[A-Z]+=' "$packaging/debian/rules" "$packaging/vcpkg/portfile.cmake" "$packaging/conda/meta.yaml" | tr -d = | sort -u); do
    grep -q "^option($option " "$1/CMakeLists.txt" || fails "there is no option $option"
done
if python3 -c 'import yaml' 2>/dev/null; then
    # What conda reads first are its templates.
    sed 's/{{[^}]*}}/template/' "$packaging/conda/meta.yaml" | python3 -c 'import sys, yaml; assert yaml.safe_load(sys.stdin)["about"]["license"] == "MIT"' ||
        fails "conda/meta.yaml is no YAML"
fi
echo "recipes of $version"
