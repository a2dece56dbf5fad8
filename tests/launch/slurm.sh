#!/usr/bin/env bash
# Slurm as Debian packages it, on this host alone: a controller and two nodes, as this user, in a folder of
# their own, that are gone at the end. Scripts are taken by sbatch, launch starts ranks on both nodes, and a
# job that is told that its time is up is queued again and ends with the hash of a run in one go.
#     tests/launch/slurm.sh PROGRAM SOURCE
# Exit code 77: Slurm is not installed, or this is not root, which its daemons must be.
set -euo pipefail
program=$(realpath "$1")
source=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)

finish() {
    local code=$?
    trap - EXIT
    if [ $code != 0 ] && [ $code != 77 ]; then tail -n 40 "$folder"/slurm/log/* "$folder"/*.out 2>/dev/null || true; fi
    "$here/../dist/slurm.sh" stop "$folder/slurm"
    rm -rf "$folder" || true
    exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() { echo "$*"; exit 1; }

# Waits until a job's state is this.
await() { # job, states
    local state
    for _ in $(seq 300); do
        state=$(scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p')
        case " $2 " in *" $state "*) return 0 ;; esac
        [ "$state" != FAILED ] || break
        sleep 0.1
    done
    fail "job $1 is '$state', expected $2"
}

scripts_are_taken() {
    local file
    "$program" slurm "$folder/c.yaml" --nodes 2 --ntasks-per-node 2 --time 20 >generated.sh
    "$program" slurm "$folder/c.yaml" --cpus-per-task 4 --partition all --time 0-1:00:00 -- --lr 0.2 >one.sh
    for file in generated.sh one.sh "$source"/examples/slurm/*.sh; do
        bash -n "$file"
        sbatch --test-only "$file" >taken.txt 2>&1 || { cat taken.txt; fail "sbatch does not take $file"; }
    done
}

launch_reaches_both_nodes() {
    cat >rank.sh <<'END'
case $1 in
hello) echo "rank $SLURM_PROCID on $SLURMD_NODENAME" ;;
fail) [ "$SLURM_PROCID" = 1 ] && { echo broken >&2; exit 7; }; sleep 60 ;;
esac
END
    export LKS_MODULES=$folder/modules
    mkdir modules
    touch modules/liblockstep-openmpi.so
    salloc -Q -N 2 -n 2 -c 1 "$program" launch --log-dir logs --program bash -- rank.sh hello >hello.out
    grep -q 'rank 0 on n1' hello.out || { cat hello.out; fail 'rank 0 did not talk'; }
    grep -q 'rank 1 on n2' logs/rank-1.log || fail 'rank 1 was not on the other node'
    local code=0
    salloc -Q -N 2 -n 2 -c 1 "$program" launch --program bash -- rank.sh fail 2>fail.out || code=$?
    [ $code = 7 ] || fail "exit code $code, expected 7"
    grep -q 'lockstep: rank 1 .* ended with exit code 7' fail.out || { cat fail.out; fail 'no name'; }
    grep -q 'lockstep: rank 1: broken' fail.out || fail 'no last line'
}

ranks_train_to_one_hash() { # with the module of this build, by srun
    local modules
    modules=$(dirname "$program")/../modules
    [ -e "$modules/liblockstep-openmpi.so" ] || return 0
    local expected found
    expected=$("$program" train c.yaml --quiet | tail -n 1)
    found=$(LKS_MODULES=$modules salloc -Q -N 2 -n 2 -c 1 "$program" launch -- train c.yaml --workers 1 --quiet |
        tail -n 1)
    [ "$found" = "$expected" ] || fail "'$found', expected '$expected'"
}

a_job_goes_on_to_the_same_hash() {
    local job expected found steps=2500
    sed "s/epochs: 2/steps: $steps/; s/samples: 500/samples: 20000/; s/interval: 5/interval: 100/" \
        c.yaml >long.yaml
    expected=$("$program" train long.yaml --quiet | tail -n 1)
    sed "s/^#SBATCH --time.*/#SBATCH --time=5/" "$source/examples/slurm/requeue.sh" >requeue.sh
    job=$(PATH=$(dirname "$program"):$PATH CONFIG=long.yaml sbatch --parsable -c 1 requeue.sh)
    for _ in $(seq 300); do
        ! grep -qs 'Train Epoch' "long-$job.out" || break
        sleep 0.1
    done
    scancel --signal=USR1 "$job" # as Slurm does when the time is up: to the steps of the job
    for _ in $(seq 300); do
        ! grep -qs 'and saved in' "long-$job.out" || break
        sleep 0.1
    done
    await "$job" "PENDING RUNNING COMPLETING"
    # It would wait for two minutes, and a node refuses it in the second in which it ended there.
    sleep 2
    scontrol update JobId="$job" StartTime=now 2>/dev/null || true
    await "$job" "COMPLETED"
    found=$(grep '^hash ' "long-$job.out" | tail -n 1)
    grep -q 'continuing from step' "long-$job.out" || fail 'it did not go on'
    [ "$found" = "$expected" ] || fail "'$found', expected '$expected'"
}

"$here/../dist/slurm.sh" start "$folder/slurm"
. "$folder/slurm/env"
cd "$folder"
cat >c.yaml <<'END'
data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}
model: {name: mlp, hidden: [16], dropout: 0.1}
train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3, hash_every: 4}
optimizer: {name: sgd, lr: 0.1, momentum: 0.9}
log: {interval: 5}
END
scripts_are_taken
launch_reaches_both_nodes
ranks_train_to_one_hash
a_job_goes_on_to_the_same_hash
