#!/usr/bin/env bash
# The examples in several processes, started by the launcher of one MPI.
#   mpi.sh NAME                  this build has no module for it
#   mpi.sh NAME MPIEXEC BUILD
set -euo pipefail
name=$1
[ $# -ge 3 ] || { echo "this build has no module for $name: skipped"; exit 77; }
mpiexec=$2 build=$(cd "$3" && pwd)
command -v "$mpiexec" >/dev/null || { echo "there is no $mpiexec: skipped"; exit 77; }
. "$(dirname "$0")/../dist/launchers.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LKS_MODULES=$build/modules

# same PATTERN: the lines of what was said last that have it are those of the first time.
same() {
    grep -E "$1" "$folder/out" >"$folder/lines" || true
    [ -s "$folder/first" ] || cp "$folder/lines" "$folder/first"
    ! cmp -s "$folder/first" "$folder/lines" || return 0
    echo "$name: lines differ from those of the first run:"
    diff "$folder/first" "$folder/lines" || true
    failed=1
}

# A loop of one's own: what it learns is the same for any ranks and shares.
loop=$build/tests/own_loop
expect 0 'trained  correct: 0\.9[0-9]* ' "$loop"
lines 1 'partitioned dataset length: 1000$'
same '  correct: '
for n in 2 3; do
    expect 0 'Time: ' ranks $n "$loop"
    lines 1 "averaged over $n ranks: [0-9.]*e-0[89] from the large-batch gradient"
    lines $n '^rank [0-9] on .* partitioned dataset length: [0-9]+$'
    same '  correct: '
done
expect 0 'without weights it would be [0-9.]*e-0[12]\)' ranks 3 "$loop" 4 1 1
lines 1 '^rank 0 on .* partitioned dataset length: 6[67]0$'
same '  correct: '
expect 0 '' ranks 3 "$loop" 1 0 2 # a rank that has no samples
same '  correct: '
expect 1 '2 shares for 3 ranks' ranks 3 "$loop" 4 1
lines 1 'own_loop: '

# A simulation and a training side by side: the error falls, and who does what changes no bit.
rm "$folder/first"
situ=$build/tests/in_situ_$name
# falls: from each third of the fields to the next.
falls() {
    sed -nE 's/^field *([0-9]+): off by ([0-9.]*),.*/\1 \2/p' "$folder/out" |
        awk '{ sum[int(($1 - 1) / 10)] += $2 } END { exit !(sum[0] > sum[1] && sum[1] > sum[2] && NR == 29) }' ||
        { echo "$name: the error does not fall:"; cat "$folder/out"; failed=1; }
}
for split in '4 2' '2 1' '4 3'; do
    read -r all training <<<"$split"
    expect 0 "^$((all - training)) simulate, $training train: hash [0-9a-f]{16}$" ranks "$all" "$situ" "$training"
    falls
    sed -i 's/.*\(hash .*\)/\1/' "$folder/out"
    same '^hash|^field'
done
expect not0 'of 2 processes 2 cannot train' ranks 2 "$situ" 2
exit $failed
