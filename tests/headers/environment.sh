#!/bin/sh
# SPDX-License-Identifier: MIT
# environment.sh SOURCE_DIR: the library reads the environment through ph__environment (base/environment.h) alone, which believes no variable where
# the program has more rights than whoever started it. Left out: OpenBLAS's own settings, numbers and names that are looked at and never opened.
set -eu
cd "$1"
found=$(grep -rnE '\b(secure_)?getenv[[:space:]]*\(' src --include='*.[ch]' |
    grep -vE '^src/base/environment\.c:|getenv\("OPENBLAS_(NUM_THREADS|CORETYPE)"\)' |
    grep -vE '^src/tensor/products/products_host\.c:[0-9]+:[[:space:]]*const char \*value = getenv\(name\);$' || true)
[ -z "$found" ] || { echo "use ph__environment:"; echo "$found"; exit 1; }

# Each variable of the library's own is listed by `phonograph info` and on the page.
for name in $(grep -rhoE 'ph__environment\("PH_[A-Z_]+"' src --include='*.c' | grep -oE 'PH_[A-Z_]+' | sort -u); do
    grep -q "\"$name\"" cli/info.c || { echo "cli/info.c does not list $name"; exit 1; }
    grep -q "\`$name\`" docs/reference/debugging.md || { echo "docs/reference/debugging.md does not list $name"; exit 1; }
done
