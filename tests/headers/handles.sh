#!/bin/sh
# SPDX-License-Identifier: MIT
# handles.sh SOURCE: each object that a public header has a destroy, release, remove or free call for has a handle in the C++ headers.
set -eu
include=$1/include/phonograph
count=0
failed=0
for call in $(grep -rohE --include='*.h' '^PH_API void ph_[a-z_]+_(destroy|release|free|remove)\((ph_[a-z_]+|char) \*[a-z]+\)' "$include" |
    sed 's/^PH_API void //; s/(.*//' | sort -u); do
    count=$((count + 1))
    grep -qE "\b$call\b" "$include"/cxx/*.hpp || { echo "no handle of include/phonograph/cxx calls $call"; failed=1; }
done
[ "$count" -ge 20 ] || { echo "only $count calls were found"; exit 1; }
[ "$failed" = 0 ] || exit 1
echo "$count objects have a handle"
