#!/usr/bin/env bash
# The transport over one MPI, started by its own launcher.
#   mpi.sh NAME                          this build has no module for it
#   mpi.sh NAME MPIEXEC BUILD [OTHER]    OTHER: another MPI that there is a module for
set -euo pipefail
name=$1
[ $# -ge 3 ] || { echo "this build has no module for $name: skipped"; exit 77; }
mpiexec=$2 build=$(cd "$3" && pwd) other=${4:-}
command -v "$mpiexec" >/dev/null || { echo "there is no $mpiexec: skipped"; exit 77; }
. "$(dirname "$0")/launchers.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "$build/tests/lkt_ranks" "$folder/bin/ranks"
cp "$build/tests/lkt_own_$name" "$folder/bin/own"
program=$folder/bin/ranks own=$folder/bin/own
export LKS_MODULES=$build/modules

# The program itself has nothing to do with MPI.
expect 0 'libc\.' ldd "$build/cli/lockstep"
lines 0 'mpi|pmi|ucp|fabric'

for n in 1 2 4; do
    LKT_TRANSPORT=mpi expect 0 '' ranks $n "$program" transport
done
expect 0 '^rank 2 of 3, 2 of 3 on its host, .*[0-9]$' ranks 3 "$program" join
lines 3 '^rank [012] of 3, '
LKS_MODULES=$build/tests/short/liblockstep-$name.so expect 0 '' ranks 3 "$program" transport

# The library's own tests of ranks, each process a rank. The theorem takes another number of them by each MPI. With
# a sanitizer they run over threads alone.
LKT_SOURCE=$(cd "$(dirname "$0")/../.." && pwd)
export LKT_SOURCE LKT_BUILD=$build
cases='comm_exchange:2 comm_exchange:3 comm_collectives:3 comm_average:3 comm_verify:3 comm_tally:3 reduce_ranks:2'
cases+=' ranks_library:3 ranks_average:3 ranks_alone:3'
[ "$name" = mpich ] && cases+=' ranks_theorem:3' || cases+=' ranks_theorem:2'
[ -z "${LKT_SANITIZE:-}" ] || cases=
number=0 # of a part, each MPI takes every other one
case $name in *mpich*) number=1 ;; esac
for case in $cases; do
    number=$((number + 1))
    [ -z "${LKT_PART:-}" ] || [ $((number % 2)) = 0 ] || continue
    patience=200 LKT_TRANSPORT=mpi expect 0 ' ran a case$' \
        timeout -k 5 200 env -u LKT_PART "$mpiexec" -n "${case#*:}" "$build/tests/test_${case%:*}"
done

# One fails: all say why and end, and nobody is left.
expect 6 'there is no disk' ranks 3 "$program" fail 1
lines 2 '^failed: rank 1 \(host .*, pid [0-9]*\): there is no disk$'
lines 1 '^failed: there is no disk$'
LKT_TIMEOUT=2 expect not0 '^failed: agreement: rank 1 .*has not come within 2 s' ranks 3 "$program" late 1
expect not0 '' ranks 3 "$program" exit 1

# A heartbeat beside MPI, which itself hangs or waits for minutes, names whoever is gone or frozen, in time;
# an MPI that ends all ranks with the first may be faster, if it is not told to wait.
said='(failed|lost [0-9]*): rank'
gone='its process has ended; it was last seen before the first step, computing$'
[[ $name != openmpi* ]] ||
    OMPI_MCA_odls_base_sigkill_timeout=2 expect not0 "$said 2 \(host .*, pid [0-9]*\): $gone" \
        ranks 3 "$program" kill 2
[[ $name == openmpi* ]] || expect not0 '' ranks 3 "$program" kill 2
# How long, a busy machine makes longer.
silent='it has not been heard of for (0.[89]|[1-9].[0-9]) s; it was last seen'
LKT_WATCH=0.9 expect not0 "$said 1 .*: $silent in step 12, computing$" ranks 3 "$program" stop 1
LKT_WATCH=0.9 expect not0 "$said 0 .*: $silent in step 12, computing$" ranks 3 "$program" stop 0
LKT_WATCH=0.9 expect not0 "^ends without 1: rank 1 .*: $silent before" ranks 3 "$program" stuck 1
nobody "$folder"

# No rank outlives its launcher, however that ends. (Hydra may keep for half a minute and more what ranks have said.)
: >"$folder/said"
LKT_WATCH=0.8 LKT_SAID=$folder/said "$mpiexec" -n 3 "$program" stuck 9 >"$folder/launcher" 2>&1 </dev/null &
launcher=$!
for try in {1..300}; do
    [ "$(grep -c waits "$folder/said")" != 3 ] || break
    sleep 0.1
done
cat "$folder/launcher" "$folder/said" >"$folder/out"
lines 3 '^rank . waits$'
[ "$(grep -c waits "$folder/said")" = 3 ] || doing "$program"
kill -KILL $launcher
nobody "$folder"
wait $launcher 2>/dev/null || true
expect not0 '' ranks 3 "$program" abort 1
expect 0 '^failed: rank 1 sent 50 bytes, and 100 were expected$' ranks 2 "$program" unequal 50
expect 0 '^failed: rank 1 cannot be received from: MPI says .*truncated' ranks 2 "$program" unequal 150

# A program that has started MPI itself keeps it.
expect 0 '^rank 4 of 5 is well$' ranks 5 "$own" halves
lines 5 '^rank [0-4] of 5 is well$'
expect 0 '^(refused: .*start it with MPI_Init_thread\(\)|served)' ranks 1 "$own" single
expect 0 '^refused: .*has finalized MPI' ranks 1 "$own" late

# No module, one of another MPI, one that is none, the launcher of another MPI.
unset LKS_MODULES
expect 13 "started 2 processes \(.*=2\), but there is no module for .*liblockstep-$name.so" ranks 2 "$program" join
: >"$folder/liblockstep-$name.so"
LKS_MODULES=$folder expect 13 'cannot be loaded .*; install the MPI that it needs' ranks 2 "$program" join
if [ -n "$other" ]; then
    mkdir "$folder/only"
    cp "$build/modules/liblockstep-$other.so" "$folder/only"
    LKS_MODULES=$folder/only expect 13 "there is no module for .*or start by .*, for which there is $other" \
        ranks 2 "$program" join
    LKS_MODULES=$folder/only/liblockstep-$other.so expect 13 'finds 1: the launcher is another' \
        ranks 2 "$program" join
fi
nobody "$folder"
exit $failed
