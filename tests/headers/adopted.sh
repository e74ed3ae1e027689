#!/bin/sh
# SPDX-License-Identifier: MIT
# adopted.sh SOURCE: the CUDA programs that adopt the library do so in as few lines as the pages say; each such line is marked with +.
set -eu
source=$1
failed=0

# FILE MARK MOST
expect_lines()
{
    lines=$(grep -cE -- "$2" "$source/$1" || true)
    if [ "$lines" -lt 1 ] || [ "$lines" -gt "$3" ]; then
        echo "$1 has $lines lines marked with +; at least 1 and at most $3"
        failed=1
    fi
}

expect_lines examples/existing_cuda/existing_cuda.c '/\* \+' 3
expect_lines examples/existing_cuda_cpp/existing_cuda_cpp.cu '// \+' 12
exit $failed
