# For tests under a real Slurm with two nodes (slurm.sh), sourced with their arguments:
#   BUILD MPI...    the MPIs that there are modules for, which are `mpis` then; `way`: what srun is told to join ranks by
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd) name=slurm mpiexec=/usr/bin/mpirun.openmpi
shift
mpis=" $* "
. "$here/launchers.sh"
way=pmix
[[ $mpis == *' openmpi '* ]] || way=pmi2

needs_mpi() {
    [ "$mpis" != '  ' ] || { echo "this build has no module for MPI: skipped"; exit 77; }
}

# begin PROGRAM: a folder of one's own, in which we are from then on, with the nodes and a copy of that file of the
# build, whose path tells those that are left behind.
begin() {
    local found=0
    folder=$(mktemp -d)
    trap '"$here/slurm.sh" stop "$folder/slurm"; rm -rf "$folder"' EXIT
    "$here/slurm.sh" start "$folder/slurm" || found=$?
    [ $found = 0 ] || exit $found
    . "$folder/slurm/env"
    mkdir "$folder/bin"
    program=$folder/bin/${1##*/}
    cp "$build/$1" "$program"
    export LKS_MODULES=$build/modules
    cd "$folder"
}

# end FILE...: of the test; where it has failed it shows the ends of these and of Slurm's logs.
end() {
    nobody "$program"
    [ $failed = 0 ] || tail -n 20 "$@" "$folder"/slurm/log/*.log
    exit $failed
}
