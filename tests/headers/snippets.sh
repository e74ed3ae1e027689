#!/bin/sh
# SPDX-License-Identifier: MIT
# snippets.sh SOURCE_DIR CC [CXX]: the C and C++ code in every page compiles against include/, warnings are errors.
#   ```c            functions and declarations, or a whole program, which gets nothing that it does not show
#   ```c fragment   statements: they are compiled inside a function that returns ph_status
#   ```cpp          the same in C++17 (as are fragments, of a function that returns nothing); without CXX it is passed over
#   ...             alone, or before a comment: a line is left out there
#   <!-- with       lines up to "-->", right before the fence: declarations that the page does not show
set -eu
cd "$1"
cc=$2
cxx=${3:-}
root=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# extract_code FOLDER PAGE...: writes a file for each block, with #line, so that the compiler names page and line.
# shellcheck disable=SC2016
extract_code()
{
    folder=$1
    shift
    LC_ALL=C awk -v folder="$folder" '
        function complain(text) { print FILENAME ":" FNR ": " text; faults = 1 }
        function finish_block(    path, whole)
        {
            whole = code ~ /(^|\n)int main\(/
            if (whole && (with != "" || kind == "fragment"))
                complain("a whole program is ```c alone, with nothing before it")
            path = sprintf("%s/%03d.%s", folder, ++blocks, is_cxx ? "cpp" : "c")
            if (!whole && is_cxx) {
                print "#include <cstdio>\n#include <phonograph/nn.hpp>\n#include <vector>" >path
                printf "%s", with >path
            } else if (!whole) {
                print "#include <inttypes.h>\n#include <phonograph/cuda.h>\n#include <phonograph/nn.h>" >path
                print "#include <phonograph/phonograph.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>" >path
                printf "%s", with >path
            }
            if (kind == "fragment")
                print (is_cxx ? "static void fragment()" : "static ph_status fragment(void)") "\n{" >path
            printf "#line %d \"%s\"\n%s", first, FILENAME, code >path
            if (kind == "fragment")
                print (is_cxx ? "}" : "    return PH_OK;\n}") >path
            close(path)
        }
        FNR == 1 { fenced = 0; with = ""; hidden = 0 }
        !fenced && /^<!-- with$/ { hidden = 1; with = sprintf("#line %d \"%s\"\n", FNR + 1, FILENAME); next }
        hidden && /^-->$/ { hidden = 0; next }
        hidden { with = with $0 "\n"; next }
        !fenced && /^[ \t]*```/ {
            fenced = 1
            kind = $0
            sub(/^[ \t]*```[ \t]*/, "", kind)
            is_cxx = kind ~ /^cpp( |$)/
            is_c = is_cxx || kind ~ /^c( |$)/
            sub(is_cxx ? "^cpp ?" : "^c ?", "", kind)
            if (is_c && kind != "" && kind != "fragment")
                complain("a C block is ```c or ```c fragment")
            code = ""
            first = FNR + 1
            next
        }
        fenced && /^[ \t]*```[ \t]*$/ {
            if (is_c)
                finish_block()
            else if (kind !~ /^(sh|text|json|cmake|python)$/ && code ~ /(^|\n) *(PH_TRY|ph_[a-z0-9_]+)\([^\n]*;/)
                complain("C code in a block without a language: write ```c")
            fenced = 0
            with = ""
            next
        }
        fenced && /^ *\.\.\.( |$)/ { code = code "\n"; next }
        fenced { code = code $0 "\n"; next }
        with != "" && !/^$/ { complain("<!-- with stands right before the block that it is for"); with = "" }
        END { exit faults }
    ' "$@"
}

# compile_code FOLDER: says what does not compile, and fails then.
compile_code()
{
    failed=0
    for block in "$1"/*.c; do
        "$cc" -std=c11 -fsyntax-only -Wall -Wextra -Wno-unused -Wno-unused-parameter \
            -Wno-misleading-indentation -Werror -I"$root/include" "$block" || failed=1
    done
    for block in "$1"/*.cpp; do
        [ -e "$block" ] && [ -n "$cxx" ] || continue
        "$cxx" -std=c++17 -fsyntax-only -Wall -Wextra -Wno-unused -Wno-unused-parameter \
            -Wno-misleading-indentation -Werror -I"$root/include" "$block" || failed=1
    done
    return "$failed"
}

# The test of the test: a name that no header declares is found.
mkdir "$work/wrong" "$work/right"
printf '```c fragment\nPH_TRY(ph_device_opened(NULL, "host", NULL));\n```\n' >"$work/wrong.md"
extract_code "$work/wrong" "$work/wrong.md"
if compile_code "$work/wrong" 2>/dev/null; then
    echo "a call that no header declares was not found"
    exit 1
fi

find . \( -name .git -o -name 'build*' -type d \) -prune -o -type f -name '*.md' -print | LC_ALL=C sort >"$work/pages"
# Names of pages have no spaces.
# shellcheck disable=SC2046
extract_code "$work/right" $(cat "$work/pages")
compile_code "$work/right"

lines=$(awk '/^```c$/ { n = 1; next } n && /^```/ { print n - 1; exit } n { n++ }' README.md)
if [ -z "$lines" ] || [ "$lines" -gt 15 ] || ! awk '/^```c$/ { p = 1 } /^```$/ { exit } p' README.md | grep -q '^int main('; then
    echo "README.md: the first C block is not a whole program of at most 15 lines (${lines:-none})"
    exit 1
fi
echo "$(find "$work/right" -name '*.c*' | wc -l) blocks of code, all compile"
