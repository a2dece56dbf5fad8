#!/bin/sh
# Between the start and the end of steps no thread makes a system call but futex; with a profile also
# clock_gettime, where the kernel does not let programs read its clock by themselves.
# Usage: syscalls.sh STEPS_PROGRAM DEVICE; exit code 77: skipped.
set -eu
command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
if ! strace -f -o "$trace" "$1" "$2"; then
    grep -q ptrace "$trace" && { echo "skipped: this system does not allow ptrace"; exit 77; }
    cat "$trace"; exit 1
fi
awk '/steps begin/ { on = 1; begun++; profiled = /profiled/; next }
     /steps end/ { on = 0; ended++ }
     on && profiled && /clock_gettime/ { next }
     on && !/ futex\(|futex resumed|<... write resumed>\) *= -1 EBADF/ { print; bad++ } # the write is the marker
     END { if (begun != 2 || ended != 2) { print "the markers are missing"; exit 1 }
           if (bad) { print bad " system calls other than futex"; exit 1 } }' "$trace"
