#!/usr/bin/env bash
# Valgrind's memcheck over every kernel, at small shapes (test_clean.c), with the largest instruction set that valgrind knows.
#   valgrind.sh TEST_PROGRAM_CLEAN
set -euo pipefail
command -v valgrind >/dev/null || { echo "there is no valgrind: skipped"; exit 77; }
[ -z "${LKT_SANITIZE:-}" ] || { echo "valgrind and a sanitizer exclude each other: skipped"; exit 77; }
isa=portable
grep -qw avx2 /proc/cpuinfo && isa=avx2 # it knows no more
program=$1
if readelf -p .comment "$program" | grep -q clang; then # whose debug information valgrind 3.19 cannot read
    program=$(mktemp)
    trap 'rm -f "$program"' EXIT
    strip --strip-debug -o "$program" "$1"
fi
LKS_ISA=$isa valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$program"
