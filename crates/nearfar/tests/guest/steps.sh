# The start of every job: functions for named steps, whose status, stdout and stderr reach the host in frames.
frame() { # NAME STATUS FILE
    echo "@@ $1 $2 $(wc -c <"$3")"; cat "$3"
}
step() { # NAME COMMAND...
    name=$1; shift
    "$@" >/tmp/stdout 2>/tmp/stderr </dev/null
    status=$?
    frame "$name" $status /tmp/stdout
    frame "$name.stderr" $status /tmp/stderr
}
measured() { # NAME ARGUMENTS OF nearfar measure...
    name=$1; shift
    step "$name" nearfar --quiet measure --format json "$@"
}
wait_for() { # COMMAND...: polls until the command succeeds, at most 30 s
    for _ in $(seq 600); do "$@" && return 0; usleep 50000; done
    echo "timed out: $*" >&2; return 1
}
lines_in() { # FILE COUNT: succeeds if the file has at least COUNT lines
    [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}
