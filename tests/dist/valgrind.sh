#!/usr/bin/env bash
# Valgrind's memcheck over both ranks of a short training, under MPICH, which is clean itself but for what
# valgrind.supp says: on one host, in memory that the ranks have in common, and on two, by messages.
#   valgrind.sh MPIEXEC BUILD
set -euo pipefail
[ $# = 2 ] || { echo "this build has no module for MPICH: skipped"; exit 77; }
mpiexec=$1 build=$(cd "$2" && pwd) here=$(cd "$(dirname "$0")" && pwd) name=valgrind
command -v valgrind >/dev/null || { echo "there is no valgrind: skipped"; exit 77; }
. "$here/launchers.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LKS_MODULES=$build/modules LKS_ISA=portable # what valgrind knows on any processor
export LKS_WATCH=60 # it lets one thread run at a time, for seconds where a machine is busy
cd "$folder"
hash=$("$build/cli/lockstep" train "$here/dense.yaml" --epochs 1 --quiet)
printf '#!/bin/sh\nhostname elsewhere\nexec "$@"\n' >apart
chmod +x apart
elsewhere="unshare --uts $folder/apart"
$elsewhere true 2>/dev/null || elsewhere=
checked=(valgrind --log-file=log.%p --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
    --suppressions="$here/valgrind.supp" "$build/cli/lockstep" train "$here/dense.yaml" --epochs 1 --workers 2
    --set train.bucket_bytes=1000 --quiet --out run)
for where in '' "$elsewhere"; do
    rm -rf run log.*
    code=0
    timeout -k 5 300 "$mpiexec" -n 1 "${checked[@]}" : -n 1 $where "${checked[@]}" >said 2>errors || code=$?
    [ $code = 0 ] && [ "$(cat said)" = "$hash" ] && [ "$(cat log.* | grep -c ' 0 errors from 0 contexts')" = 2 ] &&
        continue
    echo "valgrind: ended with $code:"
    cat said errors log.*
    failed=1
done
exit $failed
