#!/usr/bin/env bash
# A Slurm of its own: a controller and two nodes, n1 and n2, as processes of this host, on loopback, with
# everything in one folder. Slurm's commands find it by SLURM_CONF, which is in FOLDER/env.
#   slurm.sh start FOLDER    77: what it needs is not installed, or cannot be
#   slurm.sh stop FOLDER     ends what start has started
#   slurm.sh FOLDER COMMAND...    both, and the command in between; returns its status
set -euo pipefail

start() {
    local folder=$1 tool first host=127.0.0.1 self
    [ "$(id -u)" = 0 ] || { echo "only root can start Slurm's daemons here: skipped"; exit 77; }
    for tool in munged slurmctld slurmd srun scontrol; do
        PATH=$PATH:/usr/sbin command -v $tool >/dev/null ||
            { echo "there is no $tool (slurm-wlm, munge): skipped"; exit 77; }
    done
    PATH=$PATH:/usr/sbin
    mkdir -p "$folder"/{state,log,n1/tmp,n2/tmp,munge}
    chmod 700 "$folder/munge"
    : >"$folder/pids"
    self=$(hostname)
    # Three ports: not those that connections get, nor Slurm's usual ones, nor of the next process, which may start nodes, too.
    first=$((20000 + $$ % 3333 * 3))
    dd if=/dev/urandom of="$folder/munge/key" bs=128 count=1 2>/dev/null
    chmod 600 "$folder/munge/key"
    daemon munged munged --foreground --force --key-file="$folder/munge/key" --num-threads=2 \
        --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" --seed-file="$folder/munge/seed" \
        --log-file="$folder/log/munged.log"
    cat >"$folder/slurm.conf" <<END
ClusterName=lockstep
SlurmctldHost=$self($host)
SlurmctldPort=$first
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
# Open MPI calls its memory in /dev/shm after host, job and rank: jobs of two such clusters at once, of one number,
# would write into each other's.
FirstJobId=$(($$ % 60000 * 1000 + 1))
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
LaunchParameters=enable_nss_slurm
MailProg=/bin/true
KillWait=2
InactiveLimit=0
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdSpoolDir=$folder/%n
TmpFS=$folder/%n/tmp
SlurmdPidFile=$folder/%n.pid
SlurmdLogFile=$folder/log/%n.log
NodeName=n1 NodeHostname=$self NodeAddr=$host Port=$((first + 1)) CPUs=16 State=UNKNOWN
NodeName=n2 NodeHostname=$self NodeAddr=$host Port=$((first + 2)) CPUs=16 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
    # No plugin above asks for control groups; slurmd wants to know their kind, and finds out only where they
    # are mounted, and not those of version 2 in a container. Of this kind it looks at none.
    echo CgroupPlugin=cgroup/v1 >"$folder/cgroup.conf"
    echo "export SLURM_CONF=$folder/slurm.conf" >"$folder/env"
    . "$folder/env"
    daemon slurmctld slurmctld -D
    daemon n1 slurmd -D -N n1
    daemon n2 slurmd -D -N n2
    for try in {1..300}; do
        [ "$(sinfo -h -o %T 2>/dev/null | sort -u)" = idle ] && return
        sleep 0.1
    done
    echo "Slurm did not start: $(sinfo 2>&1)"
    tail -n 20 "$folder"/log/*
    stop "$folder"
    return 1
}

daemon() { # NAME COMMAND...
    local name=$1
    shift
    PATH=$PATH:/usr/sbin setsid "$@" >"$folder/log/$name.out" 2>&1 </dev/null &
    echo $! >>"$folder/pids"
}

stop() {
    local folder=$1 pid pids
    [ -e "$folder/pids" ] || return 0
    if [ -e "$folder/env" ]; then
        . "$folder/env"
        scancel --state=RUNNING 2>/dev/null || true
    fi
    pids=$(tac "$folder/pids")
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do
        for try in {1..50}; do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -f "$folder/pids"
}

case ${1:-} in
start | stop) "$1" "$2" ;;
'') sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
*)
    folder=$1
    shift
    trap 'stop "$folder"' EXIT
    start "$folder"
    . "$folder/env"
    "$@"
    ;;
esac
