#!/bin/bash
# How much more cores help: the same training with 4, 8 and 10 of them, as an array of jobs:
#     sbatch examples/slurm/sweep.sh
#     lockstep report sweep-*/run.json
#SBATCH --job-name=sweep
#SBATCH --array=4,8,10
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=10
#SBATCH --hint=nomultithread
#SBATCH --time=20
#SBATCH --output=sweep-%a.out

# All jobs of an array ask for the same; each uses as many as its number says.
export SLURM_CPUS_PER_TASK=$SLURM_ARRAY_TASK_ID
mkdir -p "sweep-$SLURM_ARRAY_TASK_ID"
lockstep launch --by srun -- train "${CONFIG:-configs/digits.yaml}" \
    --record "sweep-$SLURM_ARRAY_TASK_ID/run.json"
