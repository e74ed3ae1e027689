#!/bin/sh
# SPDX-License-Identifier: MIT
# needed.sh LIBRARY READELF SONAME: the shared library has that SONAME and needs libc, pthreads and libdl alone.
set -eu
library=$1 readelf=$2 soname=$3

dynamic=$(LC_ALL=C "$readelf" --dynamic --wide "$library")
found=$(printf '%s\n' "$dynamic" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
[ "$found" = "$soname" ] || { echo "SONAME is '$found', expected '$soname'"; exit 1; }

foreign=$(printf '%s\n' "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' |
    grep -v -e '^libc\.so' -e '^libpthread\.so' -e '^libdl\.so' -e '^ld-linux' || true)
[ -z "$foreign" ] || { printf 'needs more than libc, pthreads and libdl:\n%s\n' "$foreign"; exit 1; }
echo "$soname needs libc, pthreads and libdl alone"
