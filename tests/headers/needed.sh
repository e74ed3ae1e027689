#!/bin/sh
# SPDX-License-Identifier: MIT
# needed.sh LIBRARY READELF SONAME [MORE...]: the shared library has that SONAME and needs libc, pthreads and libdl alone, and those named.
# Its thread-local data take nothing of the static block, in which a process has room for few libraries that are loaded late.
set -eu
library=$1 readelf=$2 soname=$3
shift 3

dynamic=$(LC_ALL=C "$readelf" --dynamic --wide "$library")
found=$(printf '%s\n' "$dynamic" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
[ "$found" = "$soname" ] || { echo "SONAME is '$found', expected '$soname'"; exit 1; }

foreign=$(printf '%s\n' "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' |
    grep -v -e '^libc\.so' -e '^libpthread\.so' -e '^libdl\.so' -e '^ld-linux' || true)
for allowed in "$@"; do
    foreign=$(printf '%s\n' "$foreign" | grep -v "^$allowed\.so" || true)
done
[ -z "$foreign" ] || { printf 'needs more than libc, pthreads, libdl %s:\n%s\n' "$*" "$foreign"; exit 1; }
! printf '%s\n' "$dynamic" | grep -q STATIC_TLS || { echo "$soname has thread-local data of the initial-exec model"; exit 1; }
echo "$soname needs libc, pthreads, libdl $* alone"
