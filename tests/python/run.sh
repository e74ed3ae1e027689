#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh PYTHON FILE: the tests of one file under pytest; 77 where pytest or numpy is missing.
set -u
for module in pytest numpy; do
    if ! "$1" -c "import $module" 2>/dev/null; then
        echo "skipped: $1 has no $module (the Debian package python3-$module): the Python package was not tested"
        exit 77
    fi
done
exec "$1" -B -X faulthandler -m pytest -q -p no:cacheprovider "$2"
