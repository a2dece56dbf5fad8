#!/bin/bash
# A training that is longer than a job may be: checkpoint, exit, requeue, and on to the same hash.
#     sbatch examples/slurm/requeue.sh
#SBATCH --job-name=long
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --hint=nomultithread
#SBATCH --time=20
#SBATCH --signal=SIGUSR1@90
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=long-%j.out

# 90 seconds before the end Slurm sends SIGUSR1 to the ranks, which save after the step that is under way and
# end with 138. The job keeps its number, and so its folder.
lockstep launch --by srun -- train "${CONFIG:-configs/digits.yaml}" --out "run-$SLURM_JOB_ID" --resume
code=$?
if [ "$code" = 138 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
