#!/usr/bin/env bash
# tools/hosts: hosts that are namespaces of this one, gone when it ends, however it ends; and launch, which
# reaches them without ssh.
#     tests/launch/hosts.sh PROGRAM SOURCE
# Exit code 77: this system gives no namespaces.
set -euo pipefail
program=$(realpath "$1")
hosts=$(realpath "$2")/tools/hosts
reach=$(realpath "$2")/tools/reach
"$hosts" 1 -- true 2>/dev/null || { "$hosts" 1 -- true || true; echo 'no hosts here: skipped'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export LKT_MARK="$folder"
fail() { echo "$*"; exit 1; }

marked() { # processes of this test but itself, and its shells
    local at count=0
    for at in /proc/[0-9]*; do
        [ "$(readlink "$at/ns/net")" != "$(readlink /proc/$$/ns/net)" ] &&
            tr '\0' '\n' <"$at/environ" | grep -qxF "LKT_MARK=$folder" && count=$((count + 1))
    done 2>/dev/null
    echo $count
}

expect_nobody() {
    for _ in $(seq 40); do
        [ "$(marked)" != 0 ] || return 0
        sleep 0.05
    done
    fail "$(marked) processes are left in their namespaces"
}

await() { # file, text
    for _ in $(seq 200); do
        ! grep -qs "$2" "$1" || return 0
        sleep 0.05
    done
    fail "no '$2' in $1: $(cat "$1" 2>/dev/null)"
}

hosts_have_names_and_meet() {
    # shellcheck disable=SC2016  # for the shell in there
    "$hosts" 3 -- sh -c 'echo "$LKS_HOST $(hostname) $(getent hosts host2 | tr -s " ")"' | sort >names
    diff - names <<'END'
host1 host1 10.77.0.2 host2
host2 host2 10.77.0.2 host2
host3 host3 10.77.0.2 host2
END
    # The one listens, the other connects.
    cat >listen.py <<'END'
import os, socket, time
if os.environ["LKS_HOST"] == "host2":
    server = socket.create_server(("10.77.0.2", 8000))
    server.settimeout(10)
    server.accept()[0].sendall(b"host2")
else:
    for _ in range(200):
        try:
            print(socket.create_connection(("host2", 8000)).recv(9).decode())
            break
        except OSError:
            time.sleep(0.05)
END
    [ "$("$hosts" 2 -- python3 listen.py)" = host2 ] || fail 'host1 does not reach host2'
}

mistakes_have_a_sentence() {
    local code
    for arguments in '0 -- true' '2 --on 3 -- true' '2 --rate fast -- true' '2 --what 1 -- true' '2' '300 -- true'; do
        code=0
        # shellcheck disable=SC2086  # words
        "$hosts" $arguments 2>said || code=$?
        [ $code = 2 ] && grep -q '^tools/hosts: ' said || fail "hosts $arguments: $code, $(cat said)"
    done
    code=0
    "$hosts" 2 -- sh -c 'exit 5' || code=$?
    [ $code = 5 ] || fail "exit code $code, expected 5"
    code=0
    "$hosts" 2 --delay 1ms -- true 2>said || code=$?
    [ $code = 0 ] || grep -q 'this kernel has no netem' said || fail "delay: $(cat said)"
    "$hosts" 2 --rate 1gbit --on 2 -- tc qdisc show dev eth0 | grep -q 'tbf .*rate 1Gbit' || fail 'no rate'
}

nothing_is_left() { # by each signal
    local signal pid
    for signal in TERM KILL; do
        rm -f up
        "$hosts" 2 -- sh -c 'echo up >>up; exec sleep 60' &
        pid=$!
        await up up
        kill -$signal $pid
        wait $pid 2>/dev/null || true
        expect_nobody
    done
}

launch_reaches_them() { # MPI, its program
    command -v "$2" >/dev/null || { echo "$2 is not installed: left out"; return 0; }
    cat >host-rank.sh <<'END'
R=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
case $1 in
hello) echo "rank $R on $(hostname)" ;;
fail) [ $R = 2 ] && { echo broken >&2; exit 7; }; sleep 60 ;;
stay) trap '' TERM INT USR1; echo up >>up.$R; for i in $(seq 600); do sleep 0.1; done ;;
esac
END
    mkdir -p modules
    touch "modules/liblockstep-$1.so"
    export LKS_MODULES=$folder/modules
    local launch=("$hosts" 2 --on 1 -- "$program" launch --by "$1" --agent "$reach")
    "${launch[@]}" --hosts host1:2,host2:2 --log-dir "logs-$1" --program bash -- host-rank.sh hello >said
    grep -qx 'rank 0 on host1' said || fail "$1: $(cat said)"
    grep -qx 'rank 3 on host2' "logs-$1/rank-3.log" || fail "$1: rank 3 was elsewhere"
    local code=0
    "${launch[@]}" --hosts host1:2,host2:1 --program bash -- host-rank.sh fail 2>said || code=$?
    [ $code = 7 ] && grep -q 'lockstep: rank 2 (host host2, process [0-9]*) ended with exit code 7' said ||
        fail "$1: $code, $(cat said)"
    # The launcher alone is killed: nobody is left on the other host either.
    rm -f up.*
    "$hosts" 2 --on 1 -- sh -c "'$program' launch --by $1 --agent '$reach' --hosts host1:1,host2:1 \
        --program bash -- host-rank.sh stay & echo \$! >pid; sleep 60" 2>/dev/null &
    local pid=$!
    await up.0 up
    await up.1 up
    # Its number is that of the hosts' namespace of processes.
    local launcher
    launcher=$(pgrep -f "lockstep launch --by $1 --agent $reach --hosts" | while read -r at; do
        [ "$(sed -n 's/^NSpid:.*\t//p' "/proc/$at/status")" != "$(cat pid)" ] || echo "$at"; done)
    kill -KILL "$launcher"
    for _ in $(seq 40); do
        pgrep -f 'bash host-rank.sh stay' >/dev/null || break
        sleep 0.05
    done
    ! pgrep -f 'bash host-rank.sh stay' >/dev/null || fail "$1: ranks outlive the launcher"
    kill -KILL $pid
    wait $pid 2>/dev/null || true
    expect_nobody
}

# Hosts 2 and 3 have processes and notes of their own, as real ones have, and no rank runs beside the launcher.
ps_and_stop_reach_them() {
    local modules
    modules=$(dirname "$program")/../modules
    [ -e "$modules/liblockstep-openmpi.so" ] || { echo 'no module for Open MPI: left out'; return 0; }
    cat >c.yaml <<'END'
data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}
model: {name: mlp, hidden: [16]}
train: {epochs: 1000000, batch_size: 50, replicas: 4, workers: 1}
log: {quiet: true}
END
    cat >agent <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec nsenter -t "$(cat "pid.$host")" --pid --mount --net --uts -- sh -c 'cd "$0" && eval "$1"' "$PWD" "$*"
END
    chmod +x agent
    cat >on-host1.sh <<'END'
program=$1 reach=$2 notes=$3
mkdir -m 700 "$notes"
for host in host2 host3; do
    "$reach" --words $host unshare --pid --fork --mount-proc --kill-child \
        sh -c 'mount -t tmpfs -o mode=700 none "$0" && touch "up.$LKS_HOST" && exec sleep 600' "$notes" &
    until [ -e up.$host ]; do sleep 0.02; done
    pgrep -P $! >pid.$host
done
export LKS_RUNS=$notes
"$program" launch --by openmpi --agent ./agent --hosts host2:1,host3:1 --max-restarts 1 -- \
    train c.yaml --out run >launched 2>&1 &
for _ in $(seq 200); do
    "$program" ps --agent ./agent --hosts host3,host2,host1 >seen 2>said
    [ "$(wc -l <seen)" != 3 ] || break
    sleep 0.05
done
"$program" ps >here
"$program" ps --agent ./agent --hosts host3 >part 2>missed
"$program" stop run --yes --agent ./agent --hosts host3,host2 >stopped 2>&1
echo $? >>stopped
code=0
wait %3 || code=$?
echo "code $code" >>launched
"$program" ps --agent ./agent --hosts host3,host2 >left 2>&1
hostname host1.lan # which goes by each of these
"$program" ps --agent false --hosts host1,host1.lan,localhost >own 2>&1
END
    LKS_MODULES=$modules "$hosts" 3 --on 1 -- bash on-host1.sh "$program" "$reach" "$folder/no tes"
    sed -n 2p seen | grep -q ' 0/2  host2 ' && sed -n 3p seen | grep -q ' 1/2  host3 ' && [ ! -s said ] ||
        fail "ps: $(cat seen said launched)"
    grep -qx 'No training of yours runs on this host.' here || fail "ps of host1: $(cat here)"
    grep -q 'has ranks on host2 too, where nobody has looked.*: lockstep ps --hosts host3,host2$' missed ||
        fail "ps of host3: $(cat part missed)"
    printf 'run %s has ended\n0\n' "$(sed -n '2s/^ *\([0-9]*\) .*/\1/p' seen)" | diff - stopped
    # Saved by all, who were not started again, and did not fail.
    grep -q 'lockstep: stopped after step [0-9]* and saved in run; to continue: ' launched &&
        grep -qx 'code 143' launched && ! grep -Eq 'restart [0-9]|ended with|was ended' launched &&
        ls run/step-*.safetensors >/dev/null || fail "launch: $(cat launched)"
    grep -qx 'No training of yours runs on these hosts.' left || fail "ps behind it: $(cat left)"
    diff left own || fail 'host1 is asked as others are'
}

hosts_have_names_and_meet
mistakes_have_a_sentence
nothing_is_left
launch_reaches_them openmpi mpiexec.openmpi
launch_reaches_them mpich mpiexec.hydra
ps_and_stop_reach_them
