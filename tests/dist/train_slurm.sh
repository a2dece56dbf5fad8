#!/usr/bin/env bash
# Trainings under a real Slurm with two nodes (slurm.sh): by srun, and as the job that `lockstep slurm` prints,
# which saves when its time is up, is queued again, and ends with the hash of one process.
#   train_slurm.sh BUILD MPI...    the MPIs that there are modules for
. "${0%/*}/in_slurm.sh" "$@"
needs_mpi
begin cli/lockstep
cp "$here/dense.yaml" .

"$program" train dense.yaml --workers 1 >log
alike log >one
# check WAY: two ranks on two nodes, whose log is that of one process.
check() {
    expect 0 '^Using 2 workers in 2 processes' timeout -k 5 60 srun --quiet --mpi=$1 -N2 -n2 \
        "$program" train dense.yaml --set 'train.bucket_bytes=512' --workers 1 --out $1
    alike out >many
    cmp -s many one && [ -e $1/ranks/rank-1.log ] && return
    echo "slurm: --mpi=$1: not what one process says:"
    diff many one || true
    failed=1
}
[[ $mpis != *' openmpi '* ]] || check pmix
[[ $mpis != *' mpich '* ]] || check pmi2

# Each rank has the cores that srun was asked for, also where no plugin binds it to them; and the doctor sees that.
srun --quiet --mpi=$way -N2 -n2 --cpus-per-task=1 "$program" doctor --format json >out 2>&1 || [ $? = 10 ] || failed=1
lines 2 '"workers": 1,'
lines 2 '"library": "(Open MPI|MPICH) '
srun --quiet --mpi=$way -N2 -n2 --cpus-per-task=1 "$program" info dense.yaml >out 2>&1 || failed=1
lines 1 '^lockstep: info is done by one process, so of the 2 that srun'
lines 1 'batches of'

# state JOB STATE...: waits until the job has one of these.
state() {
    local job=$1 try found
    shift
    for try in {1..300}; do
        found=$(scontrol show job "$job" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p')
        [[ " $* " != *" $found "* ]] || return 0
        [ $found != FAILED ] || break
        sleep 0.1
    done
    echo "slurm: job $job is '$found', expected $*"
    failed=1
}

# said PATTERN: waits until the job's file has it.
said() {
    local try
    for try in {1..300}; do
        ! grep -qsE "$1" dense-$job.out || return 0
        sleep 0.1
    done
    echo "slurm: the job does not say '$1'"
    failed=1
}

steps=$(($(nproc) * 500))
"$program" slurm dense.yaml --nodes 2 --ntasks-per-node 1 --time 5 -- --steps $steps --set log.interval=200 >job.sh
job=$(sbatch --parsable job.sh)
said '^Train Epoch: 3'
scancel --signal=USR1 "$job" # as Slurm does when the time is up: to the steps of the job
said 'stopped after step [0-9]* and saved in dense; to continue: .*lockstep launch --by srun -- train .*dense.yaml .*--resume$'
state "$job" PENDING RUNNING COMPLETING
sleep 2 # a node refuses it in the second in which it ended there; and it would wait for two minutes
scontrol update JobId="$job" StartTime=now 2>/dev/null || true
said '^hash .* step '$steps'$'
state "$job" COMPLETED
expected=$("$program" train dense.yaml --steps $steps --quiet)
grep -qx "$expected" dense-$job.out && grep -q 'continuing from step' dense-$job.out && [ -e dense/ranks/rank-1.log ] ||
    { echo "slurm: the job does not end with '$expected'"; failed=1; }
end dense-*.out
