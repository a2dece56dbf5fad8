#!/bin/bash
# One node, 4 ranks of 4 cores each:
#     sbatch examples/slurm/single-node.sh
# `lockstep slurm configs/mnist.yaml --ntasks-per-node 4 --cpus-per-task 4` prints such a script.
#SBATCH --job-name=lockstep
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --hint=nomultithread
#SBATCH --time=20
#SBATCH --output=lockstep-%j.out

# launch is srun with what srun does not take over from sbatch by itself (the cores of a task), a log for each
# rank, and the name of the one that fails first.
lockstep launch --by srun -- train "${CONFIG:-configs/digits.yaml}" --out "run-$SLURM_JOB_ID"
