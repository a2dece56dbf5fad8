#!/usr/bin/env bash
# Messages and bytes of a step between hosts are what docs/scaling.md says, exactly.
#   counts.sh SOURCE BUILD
# Exit code 77: this system gives no namespaces, there is no Open MPI, or the build is one of a sanitizer, which
# wants to be loaded before all else.
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2")
[ -z "${LKT_SANITIZE-}" ] || { echo "a build of a sanitizer: skipped"; exit 77; }
for file in "$(command -v mpirun.openmpi || true)" "$build/tests/libbench_count_openmpi.so"; do
    [ -e "$file" ] || { echo "there is no Open MPI: skipped"; exit 77; }
done
"$source/tools/hosts" 1 -- true 2>/dev/null || { echo "no hosts here: skipped"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/cli/lockstep" data digits --out "$folder/digits" >"$folder/said"
"$source/bench/scaling" --counts 3x3,2x6 --data "$folder/digits" --build "$build" \
    --program "$build/cli/lockstep"
