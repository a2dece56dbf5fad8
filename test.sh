#!/usr/bin/env bash
# Builds Lockstep and runs all tests; installs what is missing first (Debian packages).
#   ./test.sh        the release build's tests, the longest with a part of their cases, and the checks of the
#                    sources: under 10 minutes on 2 cores
#   ./test.sh all    every case of them, and again with sanitizers, another compiler and another processor: what
#                    every change passes, in an hour
# The last lines are those of the release build's tests. What the jobs are: tools/ci
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
'') jobs='format layers size headers symbols docs run gcc' ;;
all) jobs=all ;;
*) echo "./test.sh: '$1' is not an argument; there is 'all'" >&2; exit 2 ;;
esac
tools/install-packages test
[ "$jobs" = all ] || export LKT_PART=1
# shellcheck disable=SC2086  # a list of words
exec tools/ci $jobs
