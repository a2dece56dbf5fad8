# For scripts that start ranks: how, and what they should say. Needs $mpiexec (the launcher of an MPI), $name
# and $folder (a temporary one). Sets `failed`.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_odls_base_sigkill_timeout=0 # when a rank fails it ends the others at once
export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo
# Not by its path, from which Open MPI would infer where it is installed on other hosts.
PATH=${mpiexec%/*}:$PATH mpiexec=${mpiexec##*/}
# What an MPI never frees lies in libraries that are gone when leaks are looked for, and cannot be told from
# what is ours. Leaks of ours show where ranks are threads: comm/, ranks/.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
failed=0

# own_program BUILD: a folder of one's own, in which we are from then on, with the program under a name of its own,
# which tells those that are left behind.
own_program() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    mkdir "$folder/bin"
    cp "$1/cli/lockstep" "$folder/bin/lockstep"
    program=$folder/bin/lockstep
    export LKS_MODULES=$1/modules
    cd "$folder"
}

# ranks N COMMAND...: so many of it on this host, for `patience` seconds at most.
patience=60
ranks() { timeout -k 5 $patience "$mpiexec" -n "$@"; }

# expect STATUS PATTERN COMMAND...: what it returns ("not0": anything else), and a line of what it says.
expect() {
    local status=$1 pattern=$2 found=0 begin=$SECONDS well=yes
    shift 2
    "$@" >"$folder/out" 2>&1 </dev/null || found=$?
    case $status in
    not0) [ $found != 0 ] || well=no ;;
    *) [ "$found" = "$status" ] || well=no ;;
    esac
    [ -z "$pattern" ] || grep -qE "$pattern" "$folder/out" || well=no
    [ $((SECONDS - begin)) -lt $patience ] || well=no
    [ $well = no ] || return 0
    echo "$name: '$*' returned $found in $((SECONDS - begin)) s, expected $status and '$pattern'; it said:"
    cat "$folder/out"
    failed=1
}

# lines N PATTERN: so many lines of what was said last.
lines() {
    local found
    found=$(grep -cE "$2" "$folder/out" || true)
    [ "$found" != "$1" ] || return 0
    echo "$name: $found lines have '$2', expected $1; it said:"
    cat "$folder/out"
    failed=1
}

# doing WORD: what the processes do whose command has that word, for a failure that does not come again.
doing() {
    local process
    for process in /proc/[0-9]*; do
        [[ $(tr '\0' ' ' <"$process/cmdline") == *"$1"* ]] || continue
        echo "${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline")"
        grep -hE '^(State|PPid|Threads)' "$process/status" | tr '\n' ' '
        cat "$process"/task/*/wchan | tr '\n' ' '
        echo
        ! command -v gdb >/dev/null ||
            timeout 20 gdb -p "${process#/proc/}" -batch -ex 'thread apply all bt' | grep '^#'
    done 2>/dev/null
}

# nobody WORD: no process is left whose command has that word, within two seconds. What has ended and is not
# waited for has no command.
nobody() {
    local left process try
    for try in {1..20}; do
        left=
        for process in /proc/[0-9]*; do
            [[ ! $(tr '\0' ' ' <"$process/cmdline") == *"$1"* ]] || left="$left $process"
        done 2>/dev/null
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    echo "$name: processes are left:"
    for process in $left; do tr '\0' ' ' <"$process/cmdline"; echo; done 2>/dev/null
    failed=1
}

# What the log of a training says in any number of processes: all but who they are, and the time that it took.
alike() { sed -e '/^Using /d' -e 's/\t[0-9,]* samples.s$//' -e '/^epoch /d' "$1"; }
