#!/bin/sh
# SPDX-License-Identifier: MIT
# layers.sh SOURCE_DIR: the arrows between the layers of src/ point down only, a driver's own headers stay inside its folder, and nothing
# above driver.h asks which driver it has.
set -eu
cd "$1/src"

allowed_below()
{
    case $1 in
    base) echo 'base' ;;
    driver) echo 'base driver' ;;
    device) echo 'base driver device' ;;
    memory) echo 'base driver device memory' ;;
    record) echo 'base driver device memory record' ;;
    graph) echo 'base driver device memory record graph' ;;
    inspect) echo 'base driver device memory record graph inspect' ;;
    tensor) echo 'base tensor' ;;
    nn) echo 'base tensor nn' ;;
    esac
}

failed=0
for folder in */; do
    layer=${folder%/}
    allowed=$(allowed_below "$layer")
    [ -n "$allowed" ] || { echo "src/$layer is not a layer that this test knows"; failed=1; continue; }
    files=$(find "$layer" -name '*.[ch]')
    for file in $files; do
        headers=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file")
        for header in $headers; do
            case " $allowed " in
            *" ${header%%/*} "*) ;;
            *) echo "src/$file includes \"$header\": $layer may use $allowed"; failed=1 ;;
            esac
            case $header in
            driver/*/*)
                case $file in
                "$(echo "$header" | cut -d/ -f1,2)"/*) ;;
                *) echo "src/$file includes \"$header\": a driver is reached through driver/driver.h"; failed=1 ;;
                esac
                ;;
            esac
        done
    done
done

# As far as text can tell. The names of devices are read in one place of each library.
asked=$(grep -rnE '(cmp|strstr)\([^;]*(driver->name|"(cuda|host)")|driver *[!=]= *&?ph__driver_|#[[:space:]]*if.*CUDA' \
    device memory record graph inspect tensor nn --include='*.[ch]' | grep -v -e '^device/name\.c:' -e '^tensor/[a-z/]*backend\.c:' || true)
[ -z "$asked" ] || { printf 'asks which driver it has; driver.h has entries for what differs:\n%s\n' "$asked"; failed=1; }
exit "$failed"
