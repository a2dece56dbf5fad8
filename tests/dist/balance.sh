#!/usr/bin/env bash
# Two ranks, of which one computes with other instructions, which are slower: `balance: auto` gives it fewer replicas,
# says so, and the run stays that of one process.
#   balance.sh MPIEXEC BUILD
set -euo pipefail
[ $# = 2 ] || { echo "this build has no module for MPICH: skipped"; exit 77; }
mpiexec=$1 build=$(cd "$2" && pwd) here=$(cd "$(dirname "$0")" && pwd) name=balance
. "$here/launchers.sh"
own_program "$build"
cat >net.yaml <<'END2'
data: {name: digits, samples: 480, test_samples: 20}
model:
  layers:
    - conv2d: {filters: 8, kernel: 3}
    - relu
    - conv2d: {filters: 16, kernel: 3}
    - relu
    - max_pool: 2
    - flatten
    - dense: 10
train: {epochs: 100000, batch_size: 48, hash_every: 8, replicas: 12, balance: auto, workers: 1}
validation: {every_epochs: 100000}
checkpoint: {every_epochs: 100000}
END2
"$program" train net.yaml --steps 1 --record record.json --quiet >said
! grep -q '"fingerprint": ".*portable' record.json || { echo "this processor has no faster ones: skipped"; exit 77; }
timeout -k 5 60 "$mpiexec" -n 1 "$program" train net.yaml --out run --record record.json --quiet : \
    -n 1 env LKS_ISA=portable "$program" train net.yaml --out run --record record.json --quiet >said 2>errors </dev/null &
launcher=$!
line='^lockstep: balance: after step [0-9]* the workers take [0-9]* + [0-9]* replicas, not 6 + 6: a step should be'
for try in {1..500}; do
    ! grep -q "$line" errors || break
    sleep 0.1
done
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe")" != "$program" ] || kill -USR1 "${process#/proc/}"
done 2>/dev/null || true
wait $launcher || true
nobody "$program"
step=$(sed -n 's/^lockstep: stopped after step \([0-9]*\) and saved in run;.*/\1/p' errors)
grep -q "$line" errors && grep -q '"replicas": \[[0-9]*, [0-9]*\]' record.json && [ -n "$step" ] ||
    { echo "$name: no other ranges, or no end:"; cat said errors; exit 1; }
expect 0 "^$(tail -n 1 said)\$" "$program" train net.yaml --steps "$step" --quiet --workers 2
expect 0 "^hash [0-9a-f]* step $((step + 20))\$" "$program" train net.yaml --steps $((step + 20)) --quiet --out run --resume
cp "$folder/out" resumed
expect 0 "^$(grep ^hash resumed)\$" "$program" train net.yaml --steps $((step + 20)) --quiet
exit $failed
