#!/usr/bin/env bash
# Builds Lockstep and runs all tests; installs what is missing first (Debian packages).
#   ./test.sh        the release build's tests, the longest with a part of their cases, and the checks of the
#                    sources: under 10 minutes on 2 cores
#   ./test.sh change what every change passes: these, again with sanitizers, as one static file, and as a program
#                    for another processor; under an hour
#   ./test.sh all    every case of them, and another compiler too: before a release
# The last lines are those of the release build's tests. What the jobs are: tools/ci
set -euo pipefail
cd "$(dirname "$0")"
checks='format layers size headers symbols docs'
case "${1:-}" in
'') jobs="$checks run gcc" ;;
change) jobs="$checks run asan tsan static arm gcc" ;;
all) jobs=all ;;
*) echo "./test.sh: '$1' is not an argument; there are 'change' and 'all'" >&2; exit 2 ;;
esac
tools/install-packages test
[ "$jobs" = all ] || export LKT_PART=1
# shellcheck disable=SC2086  # a list of words
exec tools/ci $jobs
