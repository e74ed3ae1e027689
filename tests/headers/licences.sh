#!/bin/sh
# SPDX-License-Identifier: MIT
# licences.sh SOURCE_DIR: every source, script and page says its licence in one of its first three lines.
set -eu
cd "$1"

# Not looked at: build folders, carried packages, and formats without comments (JSON, data, pictures) or written by programs.
bad=$(find . \( -name .git -o -name .carry -o -name 'build*' -type d -o -name fuzz-corpora \) -prune -o -type f \( \
    -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' \
    -o -name '*.in' -o -name '*.def' -o -name '*.md' -o -name '*.yml' -o -name CMakeLists.txt -o -path './.ci/*' \
    -o -name .clang-format -o -name .editorconfig -o -name .gitignore \) -print | LC_ALL=C sort |
    while IFS= read -r file; do
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || printf '%s\n' "$file"
    done)
[ -z "$bad" ] || { printf 'no SPDX line among the first three (files of your own belong elsewhere):\n%s\n' "$bad"; exit 1; }
grep -q '^MIT License$' LICENSE || { echo "LICENSE does not hold the MIT licence"; exit 1; }
