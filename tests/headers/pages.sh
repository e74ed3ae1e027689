#!/bin/sh
# SPDX-License-Identifier: MIT
# pages.sh SOURCE_DIR: pages are read in points: no paragraph, and no point of a list, has more than 120 words.
set -eu
cd "$1"
long=$(awk 'BEGIN { for (i = 0; i < 121; i++) printf "word "; print "" }' | awk -f tests/headers/pages.awk | wc -l)
[ "$long" -eq 1 ] || { echo "pages.awk does not find 121 words"; exit 1; }
find README.md CONTRIBUTING.md docs src examples -name '*.md' | sort | xargs awk -f tests/headers/pages.awk
