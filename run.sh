#!/usr/bin/env bash
# Builds Lockstep and trains a small convolutional network on the digits it draws itself, so no data
# is fetched. Installs what is missing first (Debian packages). Arguments go to `lockstep train`:
#   ./run.sh --epochs 3 --workers 1
set -euo pipefail
cd "$(dirname "$0")"
program=build/release/cli/lockstep
out=out/digits

say() { printf '%s\n' "$*"; }
quietly() { # log, command
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; say "run.sh: '$*' failed; the log is $log" >&2; exit 1; }
}

tools/install-packages run
mkdir -p build
if [ ! -f build/release/build.ninja ]; then
    quietly build/configure.log cmake --preset release -DLKS_TESTS=OFF -DLKS_WERROR=OFF
fi
[ -x $program ] || say 'Building (a minute or less) ...'
quietly build/build.log cmake --build --preset release

say "Training a CNN with 1.2 million parameters on 60,000 digits drawn by code, on $(nproc) cores:"
say "  $program train configs/digits.yaml --out $out --record $out/run.json $*"
say
mkdir -p $out
$program train configs/digits.yaml --out $out --record $out/run.json "$@"
say
say 'The test accuracy above is measured on 10,000 digits that the training never saw. The hash stands'
say 'for every bit of the trained network: run it with --workers 1 and you get the same one.'
say "The network is in $out; try: $program eval configs/digits.yaml --out $out"
