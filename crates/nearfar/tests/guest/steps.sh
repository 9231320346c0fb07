# Beginning of every job in the guest: named steps, each framed so that the host gets status, stdout and stderr back byte for byte.
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
# Measures, and shows the trials.
measured() { # NAME ARGUMENTS OF nearfar measure...
    name=$1; shift
    step "$name" nearfar --quiet measure --format json "$@"
    step "$name.trials" nearfar --quiet show --trials --format json
}
wait_for() { # COMMAND...: until it succeeds, at most 30 s
    for _ in $(seq 600); do "$@" && return 0; usleep 50000; done
    echo "waited in vain for: $*" >&2; return 1
}
lines_in() { # FILE COUNT: whether it has as many lines
    [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}
