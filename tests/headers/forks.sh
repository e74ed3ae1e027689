#!/bin/sh
# SPDX-License-Identifier: MIT
# forks.sh SOURCE_DIR: every file of the library with a lock of the process has a part of the handler of fork() (base/fork.h).
set -eu
cd "$1"
failed=0
for file in $(grep -rlE 'PTHREAD_MUTEX_INITIALIZER|^static ph__(spinlock|mutex) ' src --include='*.c'); do
    grep -q '^PH__FORK_' "$file" || { echo "$file: a lock of the process, and no PH__FORK_LOCK or PH__FORK_PART"; failed=1; }
done
exit $failed
