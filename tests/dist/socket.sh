#!/usr/bin/env bash
# The transport over TCP, which needs no launcher: what a transport promises, and what is asked of ranks.
#   socket.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
name=socket mpiexec=none
. "$(dirname "$0")/launchers.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "$build/tests/lkt_ranks" "$folder/bin/ranks"
program=$folder/bin/ranks

for n in 1 2 4; do LKT_SOCKETS=$n expect 0 '' "$program" transport; done
LKT_SOCKETS=2 expect 0 '' "$program" exchange 20
export LKT_SOCKETS=3
expect 0 '^rank 2 of 3, 2 of 3 on its host' "$program" join
lines 3 '^rank [012] of 3, '
expect 6 '^failed: there is no disk$' "$program" fail 1
lines 2 '^failed: rank 1 \(host .*, pid [0-9]*\): there is no disk$'
LKT_WATCH=-1 expect not0 'rank 1 .* is gone: its connection has ended' "$program" exit 1
LKT_WATCH=-1 expect not0 'rank 2 .* is gone: its connection has ended' "$program" kill 2
expect not0 'rank 1 has called lks_comm_abort\(\)' "$program" abort 1
LKT_TIMEOUT=2 expect not0 'rank 1 .*has not come within 2 s' "$program" late 1
LKT_SOCKETS=2 expect 0 '^failed: rank 1 sent 50 bytes, and 100 were expected$' "$program" unequal 50
LKT_SOCKETS=2 expect 0 '^failed: rank 1 sent 150 bytes, and 100 were expected$' "$program" unequal 150
for test in comm_average comm_collectives comm_exchange comm_verify ranks_model shards_ranks; do
    LKT_TRANSPORT=socket expect 0 PASSED "$build/tests/test_$test"
done
nobody "$folder"
exit $failed
