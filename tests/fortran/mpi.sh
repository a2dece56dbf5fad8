#!/usr/bin/env bash
# A Fortran program that starts MPI itself gives its communicator to the library, and trains on two ranks.
#   mpi.sh NAME MPIEXEC [BUILD COMPILER]    MPIEXEC "": this build has no module for that MPI
set -euo pipefail
name=$1 mpiexec=$2
[ -n "$mpiexec" ] || { echo "this build has no module for $name: skipped"; exit 77; }
[ $# -ge 4 ] || { echo 'this build has no module for Fortran: skipped'; exit 77; }
build=$(cd "$3" && pwd) source=$(cd "$(dirname "$0")/../.." && pwd)
wrapper=$(dirname "$mpiexec")/$(basename "$mpiexec" | sed 's/mpiexec/mpif90/')
command -v "$mpiexec" >/dev/null || { echo "there is no $mpiexec: skipped"; exit 77; }
command -v "$wrapper" >/dev/null || { echo "there is no $wrapper: skipped"; exit 77; }
. "$source/tests/dist/launchers.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(-L"$build/fortran" -L"$build/src" -llockstep_fortran -llockstep -ldl -Wl,-rpath,"$build/src")
"$wrapper" -DLKT_MPI "$source/tests/fortran/train.F90" -o "$folder/train" -J "$folder" -I "$build/fortran" \
    "${flags[@]}" >"$folder/log" 2>&1 ||
    { grep -q 'not a GNU Fortran module\|different version of GNU Fortran' "$folder/log" &&
        { echo "$wrapper has another Fortran compiler: skipped"; exit 77; }; cat "$folder/log"; exit 1; }
export LKS_MODULES=$build/modules
"$build/tests/lkt_fortran_c" >"$folder/c"
cd "$folder"
for n in 1 2; do
    expect 0 "$(sed -n 's/^arrays/^&/p' c)" ranks $n ./train arrays a.safetensors
    lines 1 '^arrays'
    expect 0 "$(sed -n 's/^numbers/^&/p' c)" ranks $n ./train numbers
done
one=$("$build/tests/lkt_fortran" recipe "$source/configs/digits.yaml")
expect 0 "^$one" ranks 2 ./train recipe "$source/configs/digits.yaml"

# The example in Fortran has the hash of the one in C, and of any division of the processes.
"$wrapper" "$source/examples/in_situ.f90" -o in_situ -J "$folder" -I "$build/fortran" "${flags[@]}"
expect 0 '1 simulate, 2 train' ranks 3 "$build/tests/in_situ_$name" 2
hash=$(sed -n 's/.*hash //p' out | tr a-f A-F)
expect 0 "1 simulate, 2 train: hash $hash" ranks 3 ./in_situ 2
expect 0 "1 simulate, 1 train: hash $hash" ranks 2 ./in_situ
expect not0 'of 2 processes 2 cannot train' ranks 2 ./in_situ 2
exit $failed
