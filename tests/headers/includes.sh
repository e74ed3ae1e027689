#!/bin/sh
# SPDX-License-Identifier: MIT
# includes.sh SOURCE: each C++ header includes the standard header of each standard name that it uses, rather than one that a standard
# library happens to bring along: the next version of that library may not.
set -eu
source=$1
failed=0
count=0
for file in "$source"/include/phonograph/*.hpp "$source"/include/phonograph/cxx/*.hpp; do
    while read -r header names; do
        count=$((count + 1))
        if grep -qE "std::($names)" "$file" && ! grep -q "#include <$header>" "$file"; then
            echo "${file#"$source"/}: uses std::$(grep -oE -m1 "std::($names)" "$file" | head -n 1 | sed 's/std:://') without <$header>"
            failed=1
        fi
    done <<'END'
cstdint u?int(8|16|32|64|ptr)_t\b
cstddef size_t\b|ptrdiff_t\b|nullptr_t\b|byte\b
string string\b|to_string\b
string_view string_view\b
vector vector\b
array array\b
functional function\b
utility move\b|forward\b|exchange\b|swap\b|pair\b|declval\b|index_sequence
memory unique_ptr\b|shared_ptr\b|make_unique\b|addressof\b
optional optional\b|nullopt\b
variant variant\b
tuple tuple\b|apply\b|get<
type_traits is_[a-z_]+\b|enable_if|decay|remove_|invoke_result|conditional|void_t\b|true_type|false_type
exception exception\b|exception_ptr\b|current_exception|rethrow_exception|uncaught_exceptions
stdexcept runtime_error\b|logic_error\b
new bad_alloc\b
initializer_list initializer_list\b
atomic atomic\b
mutex mutex\b
cstring mem(cpy|set|cmp)\b|str(len|cmp|ncmp)\b
cstdlib getenv\b|malloc\b|free\b
cstdio snprintf\b
END
done
[ "$count" -gt 0 ] || { echo "no C++ header was found"; exit 1; }
exit $failed
