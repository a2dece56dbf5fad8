#!/usr/bin/env bash
# Builds Lockstep and trains a convolutional network on digits that are drawn by code, so no data is
# fetched; then shows what it has learned. Installs what is missing first (Debian packages).
# Arguments go to `lockstep train` (its --help lists them); what lies in out/digits is replaced.
#   ./run.sh --epochs 2 --workers 1
set -euo pipefail
cd "$(dirname "$0")"
program=build/release/cli/lockstep
config=configs/digits.yaml
out=out/digits
everyone=0080189eff18df45 # the hash without arguments; README.md shows it, too

say() { printf '%s\n' "$*"; }
quietly() { # log, command
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; say "run.sh: '$*' failed; the log is $log" >&2; exit 1; }
}

tools/install-packages run
mkdir -p build
if [ ! -f build/release/build.ninja ]; then
    quietly build/configure.log cmake --preset release -DLKS_TESTS=OFF
fi
[ -x $program ] || say 'Building, which takes a minute or less ...'
if ! cmake --build --preset release >build/build.log 2>&1; then # a compiler that warns of more
    quietly build/configure.log cmake --preset release -DLKS_WERROR=OFF
    quietly build/build.log cmake --build --preset release
fi

rm -rf "$out"
mkdir -p "$out"
say 'Training a network of 1.2 million parameters on 60,000 digits drawn by code:'
say "  $program train $config --log-interval 50 --out $out --record $out/run.json $*"
say
$program train $config --log-interval 50 --out $out --record $out/run.json "$@"

say
say 'What it takes the 10,000 test digits for, which it never saw in training (rows: what they are):'
$program predict $config --out $out | awk '
    NR > 1 { count[$4, $2]++; right += $2 == $4; all++ }
    END {
        for (c = 0; c < 10; c++) printf "%6d", c
        for (r = 0; r < 10; r++) {
            printf "\n%d", r
            for (c = 0; c < 10; c++) printf c ? "%6s" : "%5s", count[r, c] ? count[r, c] : "."
        }
        printf "\n%d of %d are right.\n", right, all
    }'
say
hash=$(sed -n 's/^ *"hash": "\([0-9a-f]*\)".*/\1/p' "$out/run.json")
case "$*:$hash" in
":$everyone" | --workers\ [0-9]*":$everyone")
    say "The hash, $hash, stands for every bit of the trained network, and is the one that everyone"
    say 'gets: on any processor, with any compiler, with any number of workers (./run.sh --workers 1).' ;;
: | :* | --workers\ [0-9]*)
    say "run.sh: the hash is $hash, but everyone gets $everyone: something computes wrongly here." >&2
    say 'The test compat/hashes finds the first step and tensor that differ; please tell us.' >&2
    exit 1 ;;
*)
    say "The hash, $hash, stands for every bit of the trained network: with these arguments everyone"
    say 'gets it, on any processor, with any compiler, with any number of workers.' ;;
esac
say "More: README.md, and $program --help"
