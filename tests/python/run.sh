#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh PYTHON FILE: the tests of one file under pytest; 77 where pytest or numpy is missing, or torch for the files torch_*.
set -u
for module in pytest numpy; do
    if ! "$1" -c "import $module" 2>/dev/null; then
        echo "skipped: $1 has no $module (the Debian package python3-$module): the Python package was not tested"
        exit 77
    fi
done
case $2 in
*/torch_*)
    if ! "$1" -c "import importlib.util as i; assert i.find_spec('torch')" 2>/dev/null; then
        echo "skipped: $1 has no torch: phonograph.torch was not tested"
        exit 77
    fi
    ;;
esac
exec "$1" -B -X faulthandler -m pytest -q -p no:cacheprovider "$2"
