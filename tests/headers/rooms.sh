#!/bin/sh
# SPDX-License-Identifier: MIT
# rooms.sh SOURCE_DIR OBJECTS: the folders of src/. OBJECTS: a file with one object file a line.
# - The README of each folder that holds C files or CUDA texts has one line "may use:" with the folders whose headers it may include and whose
#   functions it may call, and names each C file of the folder, and no other.
# - A room has at least four files, but for those listed below.
# Fails where a file does another thing, on a circle of folders, on a circle of more than four files in a folder, and where anything above
# driver.h asks which driver it has.
set -eu
source=$(cd "$1" && pwd)
objects=$2
here=$source/tests/headers
cd "$source/src"
lines=$(mktemp)
trap 'rm -f -- "$lines"' EXIT
failed=0

# ROOM why it has under four files
small='comm/engine the table between communicators and what carries their bytes
comm/mpi a library of its own'
for folder in $(find . -mindepth 2 -type d | sed 's|^\./||' | sort); do
    files=$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.cu' | wc -l)
    rooms=$(find "$folder" -mindepth 1 -type d | wc -l)
    listed=$(printf '%s\n' "$small" | grep -c "^$folder " || true)
    if [ "$rooms" -eq 0 ] && [ "$files" -lt 4 ] && [ "$listed" -eq 0 ]; then
        echo "src/$folder: a room of $files files; a neighbour takes them in, or rooms.sh says why not"
        failed=1
    elif [ "$listed" -eq 1 ] && [ "$files" -ge 4 ]; then
        echo "tests/headers/rooms.sh: src/$folder has $files files: off the list"
        failed=1
    fi
done

for folder in $(find . \( -name '*.[ch]' -o -name '*.cu' \) -exec dirname {} \; | sort -u | sed 's|^\./||'); do
    if [ "$(grep -c '^may use:' "$folder/README.md" 2>/dev/null)" != 1 ]; then
        echo "src/$folder: no README.md with one line \"may use:\""
        failed=1
        continue
    fi
    for file in "$folder"/*.c; do
        [ ! -e "$file" ] || grep -qF -e "\`${file##*/}\`" "$folder/README.md" ||
            { echo "src/$folder/README.md does not name ${file##*/}"; failed=1; }
    done
    for file in $(grep -oE '`[a-z_0-9]+\.c`' "$folder/README.md" | tr -d '`' | sort -u); do
        [ -e "$folder/$file" ] || { echo "src/$folder/README.md names $file, which is not there"; failed=1; }
    done
    echo "M $folder $(sed -n 's/^may use://p' "$folder/README.md")" >>"$lines"
done
grep -roE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' --include='*.[ch]' . |
    sed 's|^\./\([^:]*\):.*"\(.*\)"|I \1 \2|' >>"$lines"
[ -s "$objects" ] || { echo "no object files in $objects"; exit 1; }
# Only what one file defines for others, and what others define.
xargs nm -A -g <"$objects" |
    sed -nE 's|^.*\.dir/(\./)?src/([^:]*)\.o:.* ([A-Za-z]) ([A-Za-z_][A-Za-z0-9_]*)$|\3 \2 \4|p' |
    awk '{ print ($1 == "U" || $1 == "w" ? "U" : "D"), $2, $3 }' >>"$lines"
grep -q '^D' "$lines" || { echo "no symbols in the object files"; exit 1; }
awk -f "$here/rooms.awk" "$lines" || failed=1

# As far as text can tell. The names of devices are read in one place of each library.
asked=$(grep -rnE '(cmp|strstr)\([^;]*(driver->name|"(cuda|host)")|driver *[!=]= *&?ph__driver_|#[[:space:]]*if.*CUDA' \
    device memory record graph inspect tensor nn --include='*.[ch]' | grep -v -e '#ifndef PH_[A-Z_]*_H$' -e '^device/name\.c:' -e '^tensor/backend/backend\.c:' || true)
[ -z "$asked" ] || { printf 'asks which driver it has; driver.h has entries for what differs:\n%s\n' "$asked"; failed=1; }
exit "$failed"
