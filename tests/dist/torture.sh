#!/usr/bin/env bash
# What one rank starts fails, or changes on its way, in trainings by the program itself under one MPI: all end,
# with one sentence and the exit code that says so, nothing is half there, and what was saved goes on to the
# hash of one process.
#   torture.sh NAME                          this build has no module for it
#   torture.sh NAME MPIEXEC BUILD SAMPLE     so many numbers, or all of them, and how often each end was seen
set -euo pipefail
name=$1
[ $# = 4 ] || { echo "this build has no module for $name: skipped"; exit 77; }
[ -z "${LKT_SANITIZE:-}" ] || { echo "with a sanitizer over threads alone, ranks/torture: skipped"; exit 77; }
mpiexec=$2 build=$(cd "$3" && pwd) sample=$4
command -v "$mpiexec" >/dev/null || { echo "there is no $mpiexec: skipped"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/launchers.sh"
own_program "$build"
cp "$build/tests/failing/liblockstep-$name.so" bin
export LKS_MODULES=$folder/bin
cat >short.yaml <<'END'
data: {name: digits, samples: 80, test_samples: 20}
model: {layers: [flatten, {dense: 8}, batch_norm, relu, {dense: 10}]}
train: {epochs: 1, batch_size: 16, hash_every: 2, replicas: 4, bucket_bytes: 8192}
optimizer: {name: adam, lr: 0.01}
checkpoint: {every_steps: 2}
log: {interval: 1}
END
# With another name this host is two, and sums travel; otherwise ranks have memory in common.
printf '#!/bin/sh\nhostname elsewhere\nexec "$@"\n' >bin/apart
chmod +x bin/apart
apart="unshare --uts $folder/bin/apart"
$apart true 2>/dev/null || apart=

# training WHERE OPTION...: of two ranks, the second of them there.
training() {
    local where=$1
    shift
    timeout -k 5 60 "$mpiexec" -n 1 "$program" train short.yaml --workers 1 "$@" \
        : -n 1 $where "$program" train short.yaml --workers 1 "$@" >said 2>errors </dev/null
}
wrong() {
    echo "$name: $*:"
    tail -n 5 said errors
    ls run 2>/dev/null || true
    failed=1
}

hash=$("$program" train short.yaml --workers 1 --quiet)
declare -A ends

# checked WHAT N CODE: what training() left, which ended with that. Until they have joined each speaks for itself.
checked() {
    local what="$1 $2" file end="$1: ends with $3"
    [ "$1 $2" = "FAIL 1" ] || [ "$1 $2" = "FAIL 2" ] || [ "$(grep -c '^lockstep: ' errors)" = 1 ] ||
        wrong "$what: not one sentence"
    ! find . -path ./bin -prune -o -name '*.tmp*' -print | grep . || wrong "$what: an unfinished file"
    for file in run/step-*.json; do
        [ ! -e "$file" ] || [ -e "${file%.json}.safetensors" ] || wrong "$what: $file has no tensors"
    done
    if ls run/step-*.json >/dev/null 2>&1; then
        LKT_FAIL_RANK=-1 training "" --out run --resume --quiet || wrong "$what: does not go on"
    else
        end+=", before anything was saved"
        rm -rf run
        LKT_FAIL_RANK=-1 training "" --out run --quiet || wrong "$what: does not begin again"
    fi
    [ "$(cat said)" = "$hash" ] || wrong "$what: not the hash of one process"
    ends[$end]=$((${ends[$end]:-0} + 1))
}

# number WHAT WHERE RANK N: N is FAIL_AT or FLIP_AT.
number() {
    local what=$1 where=$2 rank=$3 n=$4 code=0
    rm -rf run
    export LKT_FAIL_RANK=$rank LKT_${what}_AT=$n
    training "$where" --out run || code=$?
    unset LKT_FAIL_RANK LKT_${what}_AT
    [ $code = 12 ] || wrong "$what $n on rank $rank ended with $code, expected 12"
    if [ $what = FAIL ]; then
        grep -q '^lockstep: .*rank '$rank' .*failed as it was told to$' errors || wrong "$what $n on rank $rank: not named"
    else
        grep -qE '^lockstep: .*(a message from rank '$rank' .* to rank |the parameters of rank .* rank )' errors ||
            wrong "$what $n on rank $rank: not named"
    fi
    checked $what $n $code
}

# numbers WHAT WHERE RANK N: of 1 to N those of the sample, the first and the last among them.
numbers() {
    local count=$sample n i
    [ $count != all ] && [ $count -lt $4 ] || count=$4
    for ((i = 0; i < count; i++)); do
        n=$((1 + i * ($4 - 1) / (count > 1 ? count - 1 : 1)))
        number $1 "$2" $3 $n
    done
}

for where in "" "$apart"; do
    for rank in 0 1; do
        # Of a sample, one of each.
        [ $sample = all ] || [ $rank = $([ -z "$where" ] && echo 0 || echo 1) ] || continue
        rm -rf run
        LKT_FAIL_RANK=$rank LKT_COUNT=$folder/count training "$where" --out run --quiet || wrong "does not run"
        read -r calls messages <count
        echo "$name: rank $rank${where:+ on another host}: $calls calls, $messages messages"
        numbers FAIL "$where" $rank $calls
        # What ranks have in common does not travel.
        [ -z "$where" ] || numbers FLIP "$where" $rank $messages
    done
done
nobody "$program"
for end in "${!ends[@]}"; do echo "$name: ${ends[$end]} times $end"; done | sort
exit $failed
