#!/usr/bin/env bash
# What Fortran trains has the hash of what C trains.
#   hashes.sh [BUILD COMPILER]    without: this build has no module for Fortran
set -euo pipefail
[ $# -ge 2 ] || { echo 'this build has no module for Fortran: skipped'; exit 77; }
build=$(cd "$1" && pwd) source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
program=$build/tests/lkt_fortran
{
    "$program" arrays a.safetensors
    "$program" numbers
} >fortran || { cat fortran; exit 1; }
grep -q 'got 120 samples in x and 7 in y' fortran
sed -i '/got 120/d' fortran
"$build/tests/lkt_fortran_c" >c || { cat c; exit 1; }
diff c fortran || { echo 'Fortran and C have trained to different bits'; exit 1; }
"$program" recipe "$source/configs/digits.yaml" >recipe || { cat recipe; exit 1; }
hash=$("$build/cli/lockstep" train "$source/configs/digits.yaml" --steps 5 --quiet | sed -n 's/^hash \([^ ]*\).*/\1/p')
[ "$(tr A-F a-f <recipe)" = "recipe $hash" ] || { echo "the recipe: $(cat recipe), the program: $hash"; exit 1; }
"$program" errors >errors || { cat errors; exit 1; }
for word in 'nowhere.yaml cannot be opened' "train.batch_size is 'two'" "optimizer 'best' is not known" \
    "units is 'none'" 'build it with mpif90' \
    'lks_model_step() got an array x of 360 numbers, expected 12 for each of its 40 samples' \
    'lks_model_step() got an array x of 4 numbers, expected 12 for each of its 4 samples' \
    'lks_model_evaluate() got an array x of 960 numbers' 'lks_model_predict() got an array x of 360 numbers' \
    'lks_model_predict() got an array out of 480 numbers, expected 5 for each of its 120 samples' \
    'array out of 720 numbers' 'lks_model_evaluate() got an array y of 480 numbers, expected 1 for each' \
    'lks_model_evaluate() got numbers in y, expected classes' \
    'lks_partition() got an array start of 2 numbers for 2 fractions, expected 3'; do
    grep -q "$word" errors || { echo "no message has '$word':"; cat errors; exit 1; }
done
