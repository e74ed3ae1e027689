#!/bin/sh
# SPDX-License-Identifier: MIT
# assertions.sh SOURCE_DIR: each test program asserts something itself, or stands below with what asserts for it.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# PROGRAM what asserts for it
cat >"$work/by_others" <<'END'
tests/fault/driver.c t_sweep_all, in tests/support/scenes.c
tests/fault/host_memory.c t_sweep_all, in tests/support/scenes.c
END

asserts='(assert_[a-z_]+|fail|fail_msg|t_all|t_check|T_SWEEP)[[:space:]]*\('
failed=0
programs=0
for program in tests/*/*.c; do
    case $program in tests/support/* | tests/fake/* | tests/oracle/* | tests/headers/* | tests/install/* | tests/fuzz-corpora/*) continue ;; esac
    programs=$((programs + 1))
    if grep -q "^$program " "$work/by_others"; then
        ! grep -qE "$asserts" "$program" || { echo "$program: it asserts something, and is listed as if it did not"; failed=1; }
    elif ! grep -qE "$asserts" "$program"; then
        echo "$program: no assertion"
        failed=1
    fi
done
[ "$programs" -gt 100 ] || { echo "only $programs programs were found"; failed=1; }
[ "$failed" -eq 0 ] && echo "$programs programs assert something"
exit $failed
