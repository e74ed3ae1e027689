#!/bin/sh
# SPDX-License-Identifier: MIT
# format.sh SOURCE_DIR CLANG_FORMAT: the C files are as .clang-format says, and no line of code has more than 100 columns: characters, not
# bytes. Rows of data, which begin with a brace or a quotation mark, may be longer.
set -eu
cd "$1"
failed=0
files=$(find src include tests bench cli examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' -o -name '*.hpp' | sort)
# shellcheck disable=SC2086
changed=$("$2" --dry-run --Werror $files 2>&1 | sed -n "s/:[0-9]*:[0-9]*: error:.*//p" | sort -u)
[ -z "$changed" ] || { printf 'not as clang-format writes them:\n%s\n' "$changed"; failed=1; }
# shellcheck disable=SC2086
long=$(LC_ALL=C.UTF-8 grep -nE '^.{101}' $files /dev/null | grep -vE '^[^:]*:[0-9]+: *[{"]' | cut -c1-160 || true)
[ -z "$long" ] || { printf 'lines above 100 columns:\n%s\n' "$long"; failed=1; }
exit "$failed"
