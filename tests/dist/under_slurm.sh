#!/usr/bin/env bash
# Ranks under a real Slurm with two nodes (slurm.sh), by srun, mpirun and sbatch.
#   under_slurm.sh BUILD MPI...    the MPIs that there are modules for
. "${0%/*}/in_slurm.sh" "$@"
begin tests/lkt_ranks
by_srun() { timeout -k 5 60 srun --quiet "$@"; }

expect 0 '^n1$' by_srun -N2 -n2 printenv SLURMD_NODENAME
lines 1 '^n2$'
if [[ $mpis == *' openmpi '* ]]; then
    expect 0 '^rank 1 of 2, .*, Open MPI [0-9.]*$' by_srun --mpi=pmix -N2 -n2 "$program" join
    expect 0 '' by_srun --mpi=pmix -N2 -n2 "$program" transport
    expect not0 '' by_srun --mpi=pmix --kill-on-bad-exit=1 -N2 -n3 "$program" kill 1
    expect 0 '^rank 2 of 3, .*, Open MPI' timeout 60 salloc -Q -N2 -n3 "$mpiexec" "$program" join
    LKS_MODULES=$folder expect 13 'srun --mpi=pmix started 2 processes .*there is no module for Open MPI' \
        by_srun --mpi=pmix -N2 -n2 "$program" join
fi
if [[ $mpis == *' mpich '* ]]; then
    expect 0 '^rank 1 of 2, .*, MPICH [0-9.]*$' by_srun --mpi=pmi2 -N2 -n2 "$program" join
    expect 0 '' by_srun --mpi=pmi2 -N2 -n3 "$program" exchange
fi
expect 13 'srun started 2 processes .*without a way for MPI to join them; .*--mpi=pmix' \
    by_srun --mpi=none -N2 -n2 "$program" join
expect 0 '^rank 0 of 1' by_srun -N1 -n1 "$program" join
# The script of a batch job has several tasks, and is one process.
printf '#!/bin/sh\n%s join\n' "$program" >"$folder/job"
expect 0 '' timeout 60 sbatch --quiet --wait -N2 -n4 -o "$folder/job.out" "$folder/job"
grep -q '^rank 0 of 1, ' "$folder/job.out" || { echo "sbatch: $(cat "$folder/job.out")"; failed=1; }
end
