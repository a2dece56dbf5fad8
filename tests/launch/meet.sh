#!/usr/bin/env bash
# The rendezvous: the same command typed on hosts that tools/hosts makes, with all that can come to the
# endpoint beside it.
#     tests/launch/meet.sh PROGRAM SOURCE
# Exit code 77: this system gives no namespaces, or there is no MPI or no libsodium.
set -euo pipefail
program=$(realpath "$1")
hosts=$(realpath "$2")/tools/hosts
"$hosts" 1 -- true 2>/dev/null || { echo 'no hosts here: skipped'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export HOME=$folder LKS_MODULES=$folder/modules
unset XDG_RUNTIME_DIR LKS_RDZV_SECRET
mkdir modules
touch modules/liblockstep-{openmpi,mpich}.so
fail() { echo "$*"; tail -n 20 said.* 2>/dev/null; exit 1; }

cat >meet-rank.sh <<'END'
R=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
case $1 in
hello) echo "rank $R on $(hostname)" ;;
fail) [ $R = 2 ] && { echo broken >&2; exit 7; }; sleep 60 ;;
save) trap 'sleep 0.2; echo saved; exit 143' TERM; trap 'sleep 0.2; echo saved; exit 138' USR1
    echo up >up.$R; for i in $(seq 600); do sleep 0.1; done ;;
stay) trap '' TERM INT USR1; echo up >up.$R; for i in $(seq 600); do sleep 0.1; done ;;
esac
END
cat >agent.sh <<'END'
# agent.sh MPI NODES OPTIONS... -- RANK'S: says what it does in said.HOST, its code in code.HOST
mpi=$1 nodes=$2
shift 2
"$PROGRAM" launch --by "$mpi" --nnodes "$nodes" --nproc_per_node=2 --rdzv_endpoint host1:48123 --rdzv_id 456 \
    --rdzv-backend=c10d --program bash "$@" >"said.$LKS_HOST" 2>&1 &
echo $! >"pid.$LKS_HOST"
code=0
wait $! || code=$?
echo $code >"code.$LKS_HOST"
END
export PROGRAM=$program

clean() { rm -f said.* code.* pid.* up.*; }
expect() { # host, code, text
    [ "$(cat "code.$1")" = "$2" ] || fail "$1 ended with $(cat "code.$1"), expected $2"
    [ -z "${3-}" ] || grep -q -- "$3" "said.$1" || fail "$1 did not say '$3'"
}
await() {
    local file
    for file in "$@"; do
        for _ in $(seq 200); do
            [ ! -e "$file" ] || continue 2
            sleep 0.05
        done
        fail "there is no $file"
    done
}
await_text() { # file, pattern
    for _ in $(seq 200); do
        ! grep -qs "$2" "$1" || return 0
        sleep 0.05
    done
    fail "$1 does not say '$2'"
}
expect_nobody() {
    for _ in $(seq 40); do
        pgrep -f 'bash meet-rank.sh' >/dev/null || return 0
        sleep 0.05
    done
    fail 'ranks are left'
}

all_ranks_start() { # MPI
    clean
    "$hosts" 3 -- bash agent.sh "$1" 3 --log-dir "logs-$1" -- meet-rank.sh hello
    expect host1 0 'rank 0 on host1'
    expect host2 0
    expect host3 0
    grep -qx 'rank [2-5] on host3' "logs-$1"/rank-[2-5].log || fail 'no rank on host3'
    [ ! -e .lockstep-host1-48123.secret ] || fail 'the secret is left'
    clean
    "$hosts" 2 -- bash agent.sh "$1" 2 -- meet-rank.sh fail
    expect host1 7 'lockstep: rank 2 (host host2, process [0-9]*) ended with exit code 7'
    expect host2 7
    expect_nobody
}

begin_stay() { # MPI, what: a pair of hosts whose ranks stay
    clean
    "$hosts" 2 -- bash agent.sh "$1" 2 -- meet-rank.sh "$2" &
    both=$!
    await up.0 up.1 up.2 up.3
}

# The process of an agent, by its number inside.
agent_of() {
    local at
    for at in $(pgrep -f "lockstep launch --by .* --nnodes 2 --nproc_per_node=2"); do
        [ ! "/proc/$at/cwd" -ef "$folder" ] ||
            [ "$(sed -n 's/^NSpid:.*\t//p' "/proc/$at/status")" != "$(cat "pid.$1")" ] || echo "$at"
    done
}

signals_reach_all() { # MPI
    begin_stay "$1" save
    kill -TERM "$(agent_of host1)"
    wait $both
    expect host1 143 saved
    expect host2 143
    begin_stay "$1" save
    kill -USR1 "$(agent_of host2)" # on any node
    wait $both
    expect host1 138 saved
    expect host2 138
    expect_nobody
}

a_node_that_goes_ends_all() { # MPI
    begin_stay "$1" stay
    kill -KILL "$(agent_of host2)"
    wait $both
    expect host2 137
    expect host1 12 'a host is lost, and so all ranks were ended'
    grep -q 'lockstep: the agent of host host2 (process [0-9]*) is lost' said.host1 || fail 'host2 is not named'
    expect_nobody
    begin_stay "$1" stay
    kill -KILL "$(agent_of host1)"
    wait $both
    expect host2 12 'is lost'
    expect_nobody
    [ "$1" = openmpi ] || return 0
    begin_stay "$1" stay
    kill -STOP "$(agent_of host2)" # it says nothing, as a host whose plug was pulled
    await code.host1
    grep -q 'nothing has come from it for 2 s' said.host1 || fail 'silence is not noticed'
    kill -CONT "$(agent_of host2)"
    wait $both
    expect_nobody
}

# A host that goes is left out with --elastic, and waited for without; the command typed there again joins.
a_node_may_come_back() { # MPI
    clean
    cat >each.sh <<'END'
bash agent.sh $1 2 $2 $3 -- meet-rank.sh stay
[ "$LKS_HOST" = host2 ] || exit 0
until [ -e again ]; do sleep 0.05; done
mv said.host2 said.host2.first
exec bash agent.sh $1 2 -- meet-rank.sh stay
END
    rm -f again
    "$hosts" 2 -- bash each.sh "$1" --max-restarts 1 &
    both=$!
    await up.0 up.1 up.2 up.3
    kill -KILL "$(agent_of host2)"
    await_text said.host1 '^lockstep: 1 of 2 hosts is there; waiting 600 s for the same command on another'
    rm up.*
    touch again
    await up.0 up.1 up.2 up.3
    grep -q '^lockstep: restart 1 of 1 from the beginning, as nothing is saved' said.host1 || fail 'it is not counted'
    rm up.*
    kill -KILL "$(agent_of host2)"
    wait $both
    expect host1 12 'there was 1 restart, and no more'
    expect_nobody
    clean
    rm -f again # whoever waits can be told to stop
    "$hosts" 2 -- bash each.sh "$1" --max-restarts 1 &
    both=$!
    await up.0 up.1 up.2 up.3
    kill -KILL "$(agent_of host2)"
    await_text said.host1 '^lockstep: 1 of 2 hosts is there'
    kill -TERM "$(agent_of host1)"
    await code.host1
    expect host1 143
    kill $both
    wait $both || true
    clean
    rm -f again
    "$hosts" 2 -- bash each.sh "$1" --elastic &
    both=$!
    await up.0 up.1 up.2 up.3
    rm up.*
    kill -KILL "$(agent_of host2)"
    await_text said.host1 '^lockstep: it goes on with 1 of 2 hosts: 2 ranks'
    await up.0 up.1
    [ ! -e up.2 ] || fail 'a rank of a host that is gone'
    touch again
    await_text said.host1 '^lockstep: host host2 has come to the rendezvous (process [0-9]*), and joins at the next start'
    kill -TERM "$(agent_of host1)"
    sleep 0.1
    kill -TERM "$(agent_of host1)"
    wait $both
    expect host1 143
    expect host2 143
    expect_nobody
}

# What comes to the endpoint while host1 waits there for host2.
cat >stranger.py <<'END'
import os, socket, struct, time
def endpoint():
    for _ in range(200):
        try:
            return socket.create_connection(("host1", 48123))
        except OSError:
            time.sleep(0.05)
silent = [endpoint() for _ in range(3)]
def refused(data, end=True):
    s = endpoint()
    s.settimeout(5)
    s.sendall(data)
    if end:
        s.shutdown(socket.SHUT_WR)
    try:
        return s.recv(1000)
    except ConnectionResetError:
        return b""
assert refused(os.urandom(4096)) == b""
assert refused(b"GET / HTTP/1.0\r\n\r\n") == b""
assert refused(struct.pack(">2sBBI", b"LK", 2, 1, 32) + bytes(32)) == b""  # another version
assert refused(struct.pack(">2sBBI", b"LK", 1, 1, 1 << 31) + bytes(32)) == b""  # too long
assert refused(struct.pack(">2sBBI", b"LK", 1, 12, 20) + bytes(20)) == b""  # sealed, without a proof
s = endpoint()
s.sendall(struct.pack(">2sBBI", b"LK", 1, 1, 32) + bytes(32))
challenge = s.recv(1000)
assert len(challenge) == 8 + 64 and challenge[3] == 2
s.sendall(struct.pack(">2sBBI", b"LK", 1, 3, 32) + challenge[40:])  # its own proof, sent back
s.settimeout(5)
assert s.recv(1000) == b""
END

strangers_are_refused() {
    clean
    cat >each.sh <<'END'
if [ "$LKS_HOST" = host1 ]; then exec bash agent.sh openmpi 2 -- meet-rank.sh hello; fi
python3 stranger.py >stranger.out 2>&1 || { cat stranger.out >said.stranger; }
try() { # number, options: an agent that is not wanted
    LKS_HOST=$1; shift
    export LKS_HOST
    bash agent.sh "$@" -- meet-rank.sh hello
}
LKS_RDZV_SECRET=0123456789abcdef try secret openmpi 2
LKS_RDZV_SECRET=short try short openmpi 2
try id openmpi 2 --rdzv-id 457
try nodes openmpi 3
try mpi mpich 2
try zero openmpi 2 --node-rank 0
cp .lockstep-host1-48123.secret open.secret
chmod 644 open.secret
try open openmpi 2 --rdzv-secret open.secret
chmod 640 open.secret
try group openmpi 2 --rdzv-secret open.secret
HOME=$PWD/modules try nowhere openmpi 2
LKS_HOST=host2 exec bash agent.sh openmpi 2 -- meet-rank.sh hello
END
    "$hosts" 2 -- bash each.sh
    [ ! -e said.stranger ] || fail 'a stranger was heard'
    expect host1 0 'rank 0 on host1'
    expect host2 0
    grep -q 'lockstep: [0-9]* connections to the rendezvous had no proof of the secret' said.host1 ||
        fail 'they are not counted'
    expect secret 12 'the rendezvous at host1:48123 has another secret'
    expect short 2 'has 5 bytes, expected 16 to 256'
    expect id 12 "refuses this agent: --rdzv-id is '456' here, and '457' there"
    expect nodes 12 '--nnodes is 2 here, and 3 there'
    expect mpi 12 'the ranks are started by openmpi here, and by mpich there'
    expect zero 12 'nobody can listen at --rdzv-endpoint host1:48123 from here'
    expect open 2 'can be read by others; make it yours alone: chmod 600'
    expect group 2 'can be read by others'
    expect nowhere 2 'but no secret for it here; set LKS_RDZV_SECRET'
}

late_and_missing_nodes_are_named() {
    clean
    cat >each.sh <<'END'
if [ "$LKS_HOST" != host3 ]; then exec bash agent.sh openmpi 2 -- meet-rank.sh save; fi
until [ -e up.0 ] && [ -e up.3 ]; do sleep 0.05; done
LKS_HOST=host3 bash agent.sh openmpi 2 -- meet-rank.sh hello
kill -TERM $(cat pid.host1)
END
    "$hosts" 3 -- bash each.sh
    expect host3 12 'all 2 nodes are there, and the ranks have started'
    expect host1 143
    clean
    "$hosts" 2 -- bash -c 'if [ "$LKS_HOST" = host1 ]; then
            bash agent.sh openmpi 4 --rdzv-timeout 1 -- meet-rank.sh hello
        else bash agent.sh openmpi 4 --rdzv-timeout 5 --node-rank 2 -- meet-rank.sh hello; fi'
    expect host1 13 'of 4 nodes 2 came to the rendezvous in 1 s; missing: node 1, 3'
    clean
    "$hosts" 1 -- bash -c 'bash agent.sh openmpi 2:3 --rdzv-timeout 0.5 -- meet-rank.sh hello'
    expect host1 13 'of at least 2 nodes 1 came to the rendezvous in 0.5 s; missing: node 1, 2;'
    clean
    "$hosts" 1 -- bash -c 'LKS_HOST=alone bash agent.sh openmpi 2 --node-rank 1 --rdzv-timeout 0.5 -- meet-rank.sh hello'
    expect alone 13 'nobody has listened at --rdzv-endpoint host1:48123 for 0.5 s'
}

# With the modules of this build: 2 hosts with 2 ranks each, and the hash of one process.
ranks_train_to_one_hash() { # MPI
    local modules
    modules=$(dirname "$program")/../modules
    [ -e "$modules/liblockstep-$1.so" ] || return 0
    cat >c.yaml <<'END'
data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}
model: {name: mlp, hidden: [16], dropout: 0.1}
train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3, hash_every: 4}
optimizer: {name: sgd, lr: 0.1, momentum: 0.9}
END
    local expected found
    expected=$("$program" train c.yaml --quiet | tail -n 1)
    LKS_MODULES=$modules "$hosts" 2 -- "$program" launch --by "$1" --nnodes 2 --nproc-per-node 2 \
        --rdzv-endpoint host1:48123 -- train c.yaml --workers 1 --out "run-$1" >trained 2>said.train ||
        fail 'it does not train'
    found=$(tail -n 1 trained)
    [ "$found" = "$expected" ] || fail "$1: '$found', expected '$expected'"
}

count=0
for mpi in openmpi mpich; do
    tool=mpiexec.$mpi
    [ $mpi != mpich ] || tool=mpiexec.hydra
    command -v $tool >/dev/null || { echo "$tool is not installed: left out"; continue; }
    clean
    "$hosts" 1 -- bash -c "LKS_HOST=sodium bash agent.sh $mpi 2 --node-rank 1 --rdzv-timeout 0.1 -- meet-rank.sh hello"
    ! grep -q libsodium said.sodium || { cat said.sodium; exit 77; }
    all_ranks_start $mpi
    ranks_train_to_one_hash $mpi
    signals_reach_all $mpi
    a_node_that_goes_ends_all $mpi
    a_node_may_come_back $mpi
    count=$((count + 1))
done
[ $count != 0 ] || exit 77
if [ $count = 2 ]; then
    strangers_are_refused
    late_and_missing_nodes_are_named
fi
