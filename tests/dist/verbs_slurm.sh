#!/usr/bin/env bash
# Verbs beside `train` under a real Slurm with two nodes (slurm.sh), by srun: what they leave is what one process leaves.
#   verbs_slurm.sh BUILD MPI...    the MPIs that there are modules for
. "${0%/*}/in_slurm.sh" "$@"
needs_mpi
begin cli/lockstep
two() { timeout -k 5 60 srun --quiet --mpi=$1 -N2 -n2 "${@:2}"; }

# ---- data shard: two ranks make the files of one, and each makes its part.
"$program" data columns --rows 100 --out drawn >log
arrays="drawn/data/processed/flattened-1000/x/0.npy drawn/data/processed/flattened-1000/y/0.npy"
"$program" data shard $arrays --out one --rows 3 >log # 34 shards
# What rank 1 makes nobody else may read, so it can be told.
cat >rank.sh <<'END_OF_RANK'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || umask 077
[ "$SLURM_PROCID" = 0 ] || [ -z "$KILL_AT" ] || export LD_PRELOAD="$SHIM" LKT_FAULT="$KILL_AT kill"
exec "$@"
END_OF_RANK
chmod +x rank.sh
# same FOLDER WHAT: the folder `two` has the files of that one, and nothing else.
same() {
    diff -r "$1" two >differences && return
    echo "slurm: $2: not the shards of one process:"
    head -n 5 differences
    failed=1
}
# made_by_second N: so many files are of rank 1.
made_by_second() {
    local found
    found=$(find two -name '*.npy' -perm 600 | wc -l)
    [ "$found" != "$1" ] || return 0
    echo "slurm: rank 1 has made $found files, expected $1"
    failed=1
}
for mpi in pmix:openmpi pmi2:mpich; do
    [[ $mpis == *" ${mpi#*:} "* ]] || continue
    expect 0 '^two: 100 rows of 4,128 inputs and 552 targets in 34 shards' two ${mpi%:*} ./rank.sh \
        "$program" data shard $arrays --out two --rows 3
    lines 1 'shards'
    same one "${mpi#*:}"
    made_by_second 34
    rm -r two
done
# Rank 1 is killed before one of its calls: what is not whole does not count, and the next two go on.
export SHIM=$build/tests/liblkt_shim_files.so
partly=0
"$program" data shard $arrays --out each --rows 1 >log
for at in 60 150 240 330; do
    KILL_AT=$at expect not0 '' two $way --kill-on-bad-exit=1 ./rank.sh "$program" data shard $arrays --out two --rows 1
    [ ! -e two/metadata.json ] || { echo "slurm: killed at $at: the shards count as made"; failed=1; }
    [ ! -e two ] || [ -z "$(find two -name '*.npy' -perm 600)" ] || partly=$((partly + 1))
    expect 0 'in 100 shards' two $way ./rank.sh "$program" data shard $arrays --out two --rows 1
    same each "killed at $at"
    rm -r two
done
[ $partly -gt 0 ] || { echo "slurm: no rank was killed behind its first shard"; failed=1; }

# ---- sample: one process does it, with one text, and says so; also where ranks could not join.
for i in {1..60}; do echo 'to be or not to be'; done >text.txt
cat >text.yaml <<'END_OF_YAML'
data: {text: text.txt, level: char, context: 8, cache: none}
model: {name: tiny, layers: [{embedding: {units: 8}}, {lstm: {hidden: 12}}, {dense: 8}]}
train: {batch_size: 8, replicas: 2, steps: 20}
optimizer: {name: adam, lr: 0.02}
END_OF_YAML
"$program" train text.yaml --out text --quiet >log
sample="sample text --prompt to --tokens 40 --seed 3"
"$program" $sample >one.txt
for mpi in none:none pmix:openmpi pmi2:mpich; do
    [[ " none$mpis" == *" ${mpi#*:} "* ]] || continue
    expect 0 '^lockstep: sample is done by one process, so of the 2 that srun( --mpi=[a-z0-9]+)? started the others end at once; ' \
        two ${mpi%:*} "$program" $sample
    lines 1 '^lockstep: '
    grep -v '^lockstep: ' out | cmp -s - one.txt ||
        { echo "slurm: --mpi=${mpi%:*}: not the text of one process:"; cat out; failed=1; }
done

end
