#!/usr/bin/env bash
# Trainings of several processes by the program itself, started by one MPI's own launcher: they print what
# one process prints, to the last digit, however they end.
#   train.sh NAME                    this build has no module for it
#   train.sh NAME MPIEXEC BUILD
set -euo pipefail
name=$1
[ $# -ge 3 ] || { echo "this build has no module for $name: skipped"; exit 77; }
mpiexec=$2 build=$(cd "$3" && pwd)
command -v "$mpiexec" >/dev/null || { echo "there is no $mpiexec: skipped"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/launchers.sh"
own_program "$build"

cp "$here/dense.yaml" .
# Two parts of four replicas.
cat >conv.yaml <<'END'
data: {name: digits, samples: 114, test_samples: 20, augment: [{crop: {fill: reflect}}, {flip: alternating}]}
model: {layers: [{conv2d: {filters: 6, kernel: 3}}, batch_norm, relu, max_pool: 4, flatten, {dense: 10}]}
train: {epochs: 2, batch_size: 40, hash_every: 2, replicas: 4, accumulate: 2}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9}
log: {interval: 1}
END
# SC20's smallest: its network and all its settings, with less data.
"$program" train "$here/../../configs/sc20_cifar100.yaml#bs128" --print-config --batch-size 8 --epochs 1 --log-interval 1 \
    --set data.name=dummy --set data.shape=[32,32,3] --set data.classes=100 --set data.samples=16 \
    --set data.test_samples=4 --set checkpoint.path=null --set checkpoint.resume=false --set log.tensorboard=false >sc20.yaml
# On a small machine ranks share cores, which is all that standard error may say.
shared='workers wait for each other; give\|workers, which wait for each other; give'
# Standard error for itself: MPICH's launcher may put it into the middle of a line of the other.
apart() { "$@" 2>"$folder/errors"; }

for net in dense conv sc20; do "$program" train $net.yaml --workers 1 >$net.one; done

# check NET WHAT ARGUMENTS...: of the launcher, behind which the log is that of one process.
check() {
    local net=$1 what=$2
    shift 2
    expect 0 '^hash ' apart timeout -k 5 60 "$mpiexec" "$@"
    ! cmp -s <(alike "$folder/out") <(alike $net.one) || grep -qv "$shared" "$folder/errors" || return 0
    echo "$name: $what of $net: not what one process says:"
    diff <(alike "$folder/out") <(alike $net.one) || true
    cat "$folder/errors"
    failed=1
}

# Ranks of one host have memory in common; with another name this host is two, where we may give it one.
printf '#!/bin/sh\nhostname elsewhere\nexec "$@"\n' >bin/apart
chmod +x bin/apart
elsewhere="unshare --uts $folder/bin/apart"
$elsewhere true 2>/dev/null || elsewhere=

avx2='env LKS_ISA=avx2'
$avx2 "$program" info dense.yaml >/dev/null 2>&1 || avx2= # another processor

# Networks, the workers of each rank ("portable", "avx2": one, with other instructions; "apart": one, on another
# host), and options. Of a part each MPI tries every fourth line, the other one others.
line=0
case $name in *mpich*) line=2 ;; esac
while IFS='|' read -r net layout options; do
    line=$((line + 1))
    [ -z "${LKT_PART:-}" ] || [ $((line % 4)) = 0 ] || continue
    arguments=() colon=
    for workers in $layout; do
        how=
        case $workers in
        portable) how='env LKS_ISA=portable' workers=1 ;;
        avx2) how=$avx2 workers=1 ;;
        apart) how=$elsewhere workers=1 ;;
        esac
        arguments+=($colon -n 1 $how "$program" train ${net// /}.yaml --workers $workers $options)
        colon=:
    done
    check ${net// /} "$layout" "${arguments[@]}"
done <<'END'
dense | 2        |
dense | 1 1      | --set train.bucket_bytes=64
dense | 1 1 1    | --verify-comm
dense | 2 2      | --set train.overlap=off
dense | 1 1 1 1  |
dense | 2 1      |
dense | portable 1 |
dense | 1 apart  | --set train.bucket_bytes=64 --verify-comm
dense | 2 apart 1 | --set train.overlap=off
dense | 1 1 apart apart | --set train.bucket_bytes=1000
conv  | 2 apart portable |
sc20  | 1 1      |
dense | 1 apart  | --set train.shard_optimizer=true --verify-comm
dense | 2 1 apart | --set train.shard_optimizer=true --set train.bucket_bytes=3000 --set train.overlap=off
conv  | apart 2 1 | --set train.shard_optimizer=true --set train.bucket_bytes=64
conv  | 1 1      | --set train.balance=[3,1]
conv  | 3 avx2 portable |
conv  | 2 2 2    | --set data.threads=0
END

# What is spread over hosts is saved as one process has it.
spread="$program train dense.yaml --workers 1 --out spread --epochs 1 --set train.shard_optimizer=true"
expect 0 '^hash ' timeout 60 "$mpiexec" -n 1 $spread : -n 2 $elsewhere $spread
expect 0 "^$(grep '^hash ' dense.one)\$" "$program" train dense.yaml --workers 2 --out spread --resume

# With MPI's own sums the bits may be others, which is said, the losses of some steps hardly are.
expect 0 '^Using 2 workers in 2 processes .*; the bits may depend on how' ranks 2 "$program" train \
    conv.yaml --workers 1 --set train.reduction=library --record library.json
lines 1 '^hash '
grep -q '"bits_depend_on_processes": true' library.json || { echo "$name: the record does not say it"; failed=1; }
cmp -s <(grep -c Loss "$folder/out") <(grep -c Loss conv.one) &&
    [ "$(sed -n 's/^Train Epoch: 1.*Loss: \(....\).*/\1/p' "$folder/out")" = \
      "$(sed -n 's/^Train Epoch: 1.*Loss: \(....\).*/\1/p' conv.one)" ] ||
    { echo "$name: other losses than those of one process:"; diff "$folder/out" conv.one; failed=1; }

# Processes that step alone: equal ranges have one hash, and a stop at a point goes on to it, with these alone.
alone="$program train dense.yaml --set train.average_every=3 --set train.hash_every=12 --quiet"
expect 0 '^{"event": "start", .*"bits_depend_on_processes": true}$' ranks 2 "$program" train conv.yaml --workers 1 \
    --set train.average_every=9 --steps 2 --format json
expect 0 '^Using 2 workers in 2 processes .*, which average their models' ranks 2 "$program" train conv.yaml --workers 1 \
    --set train.average_every=9 --dry-run
expect 0 '^hash ' ranks 2 $alone --workers 1
hash=$(grep '^hash ' "$folder/out")
expect 0 "^$hash\$" ranks 2 $alone --workers 3 --verify-comm
expect 0 "^$hash\$" timeout 60 "$mpiexec" -n 1 $alone --workers 2 --set train.balance=[3,2] : \
    -n 1 $elsewhere $alone --workers 3 --set train.balance=[3,2]
expect 0 '^hash ' ranks 2 $alone --workers 1 --out alone --epochs 1
expect 5 'average_every 3, replicas 3 \+ 3, this run has average_every 3, replicas 2 \+ 2 \+ 2' \
    ranks 3 $alone --workers 1 --out alone --resume
expect 0 "^$hash\$" ranks 2 $alone --workers 1 --out alone --resume
expect 0 '^bits of       average_every 3, replicas 3 \+ 3$' "$program" info alone

# pid_of RANK: of the training under way.
pid_of() {
    local process
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" = "$program" ] || continue
        grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1$" "$process/environ" || continue
        echo "${process#/proc/}"
        return
    done 2>/dev/null
}

# begin RANKS OPTION...: a training without an end in the folder `run`, until it has come to epoch 3; "1 1": by
# two commands of one rank each. `again` is what continues it.
begin() {
    local ranks command=() colon=
    for ranks in $1; do
        command+=($colon -n $ranks "$program" train dense.yaml --workers 1 --out run --epochs 100000 "${@:2}")
        colon=:
    done
    again="$mpiexec ${command[*]} --resume"
    again=${again// : / --resume : }
    rm -rf run
    : >said
    timeout -k 5 60 "$mpiexec" "${command[@]}" >said 2>errors </dev/null &
    launcher=$!
    begun
}

begun() {
    local try
    for try in {1..300}; do
        ! grep -q '^Train Epoch: 3' said || return 0
        sleep 0.05
    done
    echo "$name: a training does not begin:"
    cat said errors
    failed=1
}

# ended CODE: "any".
ended() {
    local code=0
    wait $launcher || code=$?
    [ "$1" = any ] || [ "$1" = $code ] || { echo "$name: $2 ended with $code, expected $1"; cat errors; failed=1; }
    nobody "$program"
}

# goes_on RANKS STEP WHAT: a copy of the folder, with so many ranks to that step: the hash of one process.
goes_on() {
    [ -e one.$2 ] || "$program" train dense.yaml --workers 1 --epochs 100000 --steps $2 --quiet >one.$2
    rm -rf copy
    cp -r run copy
    expect 0 "^$(cat one.$2)\$" ranks $1 "$program" train dense.yaml --workers 1 --epochs 100000 --steps $2 \
        --out copy --resume --quiet || echo "$name: that was after $3"
}

sentences() { grep '^lockstep: ' "$1" | grep -v "$shared"; }

# saved WHAT: by the step that rank 0 says; sets `step`.
saved() {
    step=$(sed -n 's/^lockstep: stopped after step \([0-9]*\) and saved in run; to continue: .*/\1/p' errors)
    grep -qF "; to continue: $again" errors || { echo "$name: expected '$again' to continue with:"; failed=1; }
    [ "$(sentences errors | wc -l)" = 1 ] && [ -n "$step" ] && [ -e run/step-$(printf %08d $step).safetensors ] &&
        [ -z "$(grep -L '^hash ' said run/ranks/rank-*.log)" ] &&
        [ "$(grep -h '^hash ' said run/ranks/rank-*.log | sort -u | wc -l)" = 1 ] && return
    echo "$name: $1 did not save the step that all stopped behind:"
    tail -n 5 errors said run/ranks/*
    ls run
    failed=1
    step=1
}

# A signal to one rank is one to all: they stop behind the same step, which any number of ranks goes on from.
begin 3
expect 3 'lockstep: .*run.* (in use|is being|another)' "$program" train dense.yaml --workers 1 --out run
expect not0 'lockstep: .*run.* (in use|is being|another)' ranks 2 "$program" train dense.yaml --workers 1 --out run
lines 1 '^lockstep: '
kill -USR1 "$(pid_of 2)"
ended 138 "SIGUSR1 to rank 2"
saved "SIGUSR1 to rank 2"
for n in 1 2 4; do goes_on $n $((step + 5)) "SIGUSR1 to rank 2"; done

# And so is one to the launcher that it passes on; behind SIGTERM Open MPI kills within a second.
case $name in *mpich*) signal=TERM ;; *) signal=USR1 ;; esac
begin "1 1"
kill -$signal $(ps -o pid= --ppid $launcher)
ended any
saved "SIG$signal to the launcher"

# A rank that is killed: nobody is left, and what was saved last goes on.
begin 3
kill -KILL "$(pid_of 1)"
ended any
step=$(ls run | sed -n 's/^step-0*\([0-9]*\)\.json$/\1/p' | sort -n | tail -n 1)
goes_on 2 $((step + 9)) "SIGKILL of rank 1"

# A rank that freezes makes no other wait for minutes: it is named by host, process and step, once, and what it
# froze in the middle of goes on.
begin 3
stopped=$(pid_of 1)
sleep 1 # it says twice in a second where it is
kill -STOP $stopped
ended any
named="^lockstep: rank 1 \\(host .*, pid $stopped\\): it has not been heard of for [0-9.]* s; it was last seen in step"
[ "$(grep -cE "$named" errors)" = 1 ] && [ "$(sentences errors | wc -l)" = 1 ] ||
    { echo "$name: one sentence should name rank 1, which froze:"; cat errors; failed=1; }
step=$(ls run | sed -n 's/^step-0*\([0-9]*\)\.json$/\1/p' | sort -n | tail -n 1)
goes_on 2 $((step + 9)) "SIGSTOP of rank 1"

# A launcher that is killed leaves no process behind that holds the machine.
begin 3
kill -KILL $(ps -o pid= --ppid $launcher)
ended any

# By our own launcher it is that one's command that goes on.
again="$program launch -n 2 --by ${name%%-*} -- train dense.yaml --workers 1 --out run --epochs 100000"
rm -rf run
: >said
timeout -k 5 60 $again >said 2>errors </dev/null &
launcher=$! again="$again --resume"
begun || true
kill -USR1 $(ps -o pid= --ppid $launcher)
ended 138 "lockstep launch"
saved "lockstep launch"

# What one process does is done once; what is wrong with a command is said once; and all evaluate together.
"$program" eval dense.yaml --out run >eval.one
expect 0 '' timeout 60 "$mpiexec" -n 3 "$program" eval dense.yaml --workers 1 --out run
cmp -s <(grep -v '^lockstep: ' out) eval.one || { echo "$name: eval differs:"; cat out eval.one; failed=1; }
expect 0 '' ranks 2 "$program" predict dense.yaml --out run --count 3 --format csv
lines 4 '^[0-9s]'
lines 1 '^lockstep: predict is done by one process'
expect 0 '^lockstep: data is done by one process' ranks 2 "$program" data digits --samples 20 --test-samples 10 --out one
lines 1 '^lockstep: '
for i in $(seq 60); do echo "line $i of a text"; done >text.txt
echo 'data: {text: text.txt, level: char, context: 8, cache: none}
model: {name: tiny, layers: [{embedding: {units: 8}}, {gru: {hidden: 12}}, {dense: 21}]}
train: {batch_size: 8, replicas: 2, steps: 3}' >text.yaml
"$program" train text.yaml --workers 1 --out texts --quiet
"$program" sample texts --prompt line --tokens 30 >text.one
expect 0 '^lockstep: sample is done by one process' ranks 2 "$program" sample texts --prompt line --tokens 30
cmp -s <(grep -v '^lockstep: ' out) text.one || { echo "$name: sample differs:"; cat out text.one; failed=1; }
# Of an embedding of many words rows travel, where a rank is elsewhere.
for i in $(seq 200); do echo "word$i is not word$((7 * i % 90))"; done >words.txt
echo 'data: {text: words.txt, level: word, context: 4, cache: none}
model: {name: lstm_lm, embedding_size: 8, hidden_size: 12, num_layers: 1}
train: {batch_size: 8, replicas: 2, steps: 9}' >words.yaml
"$program" train words.yaml --workers 1 --quiet | grep '^hash ' >words.one
expect 0 "^$(cat words.one)" timeout 60 "$mpiexec" -n 1 "$program" train words.yaml --workers 1 --quiet : \
    -n 1 $elsewhere "$program" train words.yaml --workers 1 --quiet
expect 0 '^lockstep [0-9]' ranks 2 "$program" --version
lines 1 '^lockstep '
expect 2 "^lockstep: unknown verb 'trian'" ranks 2 "$program" trian
lines 1 '^lockstep: '
expect 2 '^lockstep: --comm-timeout is' ranks 2 "$program" train dense.yaml --comm-timeout soon
lines 1 '^lockstep: '
expect not0 '^lockstep: rank 1 .*unknown option --bogus' timeout 60 "$mpiexec" -n 1 "$program" train dense.yaml --workers 1 : \
    -n 1 "$program" train dense.yaml --workers 1 --bogus
lines 1 '^lockstep: '
expect 3 '^lockstep: there is no checkpoint in nowhere' ranks 2 "$program" eval dense.yaml --workers 1 --out nowhere
lines 1 '^lockstep: '

# The doctor looks at all ranks; one that has another name for this host has no memory in common with it.
found=0
"$program" doctor --launch --nproc_per_node 2 --workers 99 --by ${name%%-*} --format json >doctor.json 2>errors || found=$?
[ $found = 10 ] && [ ! -s errors ] && grep -q '"numerics": ' doctor.json && [ "$(grep -c '"watched": true' doctor.json)" = 2 ] &&
    [ "$(grep -c '"workers": 99,' doctor.json)" = 2 ] && grep -q '"name": "cores",' doctor.json &&
    [ "$(grep -c '"latency": [0-9.e-]*,$' doctor.json)" = 1 ] && grep -q '"common": true' doctor.json ||
    { echo "$name: doctor --launch ends with $found and says:"; cat errors doctor.json; failed=1; }
expect 10 '^ *warning  *cores  *ranks 0 and 1 of host ' timeout 60 "$mpiexec" -n 2 "$program" doctor --workers 99 : \
    -n 1 $elsewhere "$program" doctor --workers 1
grep -qE '^3 processes, started by m.*; [A-Z]' out && grep -qE '^Bandwidth in GB/s' out &&
    grep -qE '^   2 .* yes$' out && ! grep -qE '.{81}' <(grep -v '^ *\(Process\|Exit\)\|process' out) ||
    { echo "$name: doctor says:"; cat out; failed=1; }
[ -z "$elsewhere" ] || grep -q '^memory in common: 1 of 1 pairs' out || { cat out; failed=1; }
expect 2 '^lockstep: -n is about several processes: give --launch too' "$program" doctor -n 2

# Ranks that are bound have the cores that they are bound to (comm/cores has those that are not).
case $name in *mpich*) bound='-bind-to core' ;; *) bound='--bind-to core --map-by core' ;; esac
threads=$(lscpu -p=core | grep -v '#' | sort | uniq -c | awk '{print $1}' | sort -n | tail -n 1)
if [ "$(lscpu -p=core | grep -v '#' | sort -u | wc -l)" -gt 1 ]; then
    timeout 60 "$mpiexec" -n 2 $bound "$program" doctor --format json >doctor.json 2>errors || [ $? = 10 ] || cat errors
    [ "$(grep '"cpus"' doctor.json | sort -u | wc -l)" = 2 ] && [ "$(grep -c "\"workers\": $threads," doctor.json)" = 2 ] ||
        { echo "$name: bound ranks:"; cat doctor.json; failed=1; }
fi

# Workers that share a core are said once, however the ranks were started.
expect 0 "^lockstep: ranks 0 and 1 of host .* share CPU [0-9]*, where their 2 workers wait for each other; give" \
    timeout 60 "$mpiexec" -n 2 taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$program" train dense.yaml --workers 1
lines 1 'wait for each other'

# What differs is said once.
expect not0 "^lockstep: .*rank 1 .*optimizer.lr.*0.1.*0.002" timeout 60 "$mpiexec" -n 1 "$program" train dense.yaml \
    --workers 1 : -n 1 "$program" train dense.yaml --workers 1 --lr 0.1
lines 1 '^lockstep: '
"$program" data digits --samples 300 --test-samples 70 --out first >/dev/null
"$program" data digits --samples 300 --test-samples 70 --out second --seed 5 >/dev/null
expect not0 "^lockstep: training data: rank 1 .* has .*, rank 0 " timeout 60 "$mpiexec" -n 1 "$program" train dense.yaml \
    --workers 1 --set data.name=first --data first : \
    -n 1 "$program" train dense.yaml --workers 1 --set data.name=first --data second
lines 1 '^lockstep: '

# Another version of the program: its number, which stands in it once or more, with other digits.
version=$("$program" --version | sed -n 's/^lockstep //p')
sed "s/${version//./\\.}/${version//[0-9]/8}/g" "$program" >bin/other
chmod +x bin/other
expect not0 "rank 1 .* runs Lockstep ${version//[0-9]/8}, .* runs $version" timeout 60 "$mpiexec" -n 1 "$program" train \
    dense.yaml --workers 1 : -n 1 bin/other train dense.yaml --workers 1
lines 1 '^lockstep: '

# What waits says for whom: rank 1 is stopped.
begin 2 --comm-timeout 1 # within which ranks join, and sooner than who is not heard of is given up
stopped=$(pid_of 1)
kill -STOP $stopped
for try in {1..100}; do
    ! grep -q '^lockstep: ' errors || break
    sleep 0.05
done
kill -KILL $stopped
ended any
grep -qE "^lockstep: .*rank 1 \(host .*, pid $stopped\) has not come within 1 s" errors ||
    { echo "$name: it is not said who has stopped:"; cat errors; failed=1; }

expect 0 '' ranks 2 "$program" bench dense.yaml --workers 1 --steps 10 --format json
lines 1 '"processes": 2'
nobody "$folder"
exit $failed
