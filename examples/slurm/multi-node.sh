#!/bin/bash
# Two nodes with 2 ranks each:
#     sbatch examples/slurm/multi-node.sh
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --hint=nomultithread
#SBATCH --time=20
#SBATCH --output=lockstep-%j.out

# The same command as on one node, and the same hash: what a run computes does not depend on where.
lockstep launch --by srun -- train "${CONFIG:-configs/digits.yaml}" --out "run-$SLURM_JOB_ID"
