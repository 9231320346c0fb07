# Functions of the walks, sourced by the other scripts of this directory.
#
# A walk is a series of steps in a temporary directory. A step prints what it does, the seconds since the start, and the
# command. The walk fails if a step fails, or if the first useful answer came later than its limit.
# shellcheck shell=sh

set -eu

repository=$(cd "$(dirname "$0")/../.." && pwd)
name=$(basename "$0")
answered=""
# Read by the walks.
# shellcheck disable=SC2034
smoke=""
# PIDs of servers that overwrite their environment.
servers=""

stop() { # MESSAGE...: ends the walk as failed
    printf '%s: %s\n' "$name" "$@" >&2
    exit 1
}

seconds() { echo $(($(date +%s) - began)); }

# Prints words as a line that a shell reads as the same words.
quoted() {
    line=""
    for word in "$@"; do
        case "$word" in
            "" | *[!A-Za-z0-9_./:=,@%+-]*) word="'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        line="$line${line:+ }$word"
    done
    printf '%s' "$line"
}

# Ends the processes whose environment names the directory of the walk, and removes it.
clean_up() {
    trap - EXIT
    cd /
    # shellcheck disable=SC2086
    [ -z "$servers" ] || kill $servers 2>/dev/null || true
    for sign in TERM KILL; do
        for file in /proc/[0-9]*/environ; do
            pid=${file#/proc/}
            pid=${pid%/environ}
            if grep -qaF "WALK_DIRECTORY=$directory" "$file" 2>/dev/null; then
                kill "-$sign" "$pid" 2>/dev/null || true
            fi
        done
        [ "$sign" = KILL ] || until_true 5 all_gone || true
    done
    if [ -n "$keep" ]; then echo "kept: $directory"; else rm -rf "$directory"; fi
}

all_gone() { ! cat /proc/[0-9]*/environ 2>/dev/null | grep -qaF "WALK_DIRECTORY=$directory"; }

until_true() { # SECONDS COMMAND...: waits until the command succeeds
    limit=$(($(date +%s) + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$limit" ] || return 1
        sleep 0.1
    done
}

begin() { # TITLE LIMIT_S ARGUMENTS...: prepares the directory and reads the arguments of the script
    title=$1 limit_s=$2 keep=""; shift 2
    for argument in "$@"; do
        # shellcheck disable=SC2034
        case "$argument" in
            --smoke) smoke=yes ;;
            --keep) keep=yes ;;
            *) stop "usage: scripts/walks/$name [--smoke] [--keep]" ;;
        esac
    done
    program=${NEARFAR-}
    for file in "$repository/target/release/nearfar" "$repository/target/debug/nearfar"; do
        [ -n "$program" ] || [ ! -x "$file" ] || program=$file
    done
    [ -n "$program" ] || stop "no program" "hint: cargo build --release --bin nearfar"
    program=$(realpath "$program")
    directory=$(realpath "$(mktemp -d "${TMPDIR:-/tmp}/nearfar-walk-XXXXXX")")
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # Servers of other users read files in it.
    chmod 755 "$directory"
    mkdir "$directory/bin" "$directory/tmp" "$directory/work"
    ln -s "$program" "$directory/bin/nearfar"
    export PATH="$directory/bin:$PATH:/usr/sbin:/sbin" TMPDIR="$directory/tmp" NO_COLOR=1
    export NEARFAR_STATE="$directory/state" XDG_DATA_HOME="$directory/data"
    unset NEARFAR_STORE
    cd "$directory/work"
    began=$(date +%s)
    echo "=== $title"
    echo "program: $program ($(nearfar --version)), limit: $limit_s s until the first useful answer"
}

announce() { # WHAT COMMAND...
    printf '\n=== [%s s] %s\n' "$(seconds)" "$1"; shift
    printf '$ %s\n' "$(quoted "$@")"
}

run_it() { # COMMAND...: runs it with the directory in its environment, so that nothing of it can be left
    WALK_DIRECTORY=$directory "$@" </dev/null
}

step() { # WHAT COMMAND...: the command must end with status 0
    announce "$@"; shift
    status=0
    run_it "$@" || status=$?
    [ $status = 0 ] || stop "failed with status $status: $(quoted "$@")"
}

# The command may also be undecided (status 3), or not possible on this machine (5 and 77, docs/reference/exit-status.md).
decide() { # WHAT COMMAND...
    what=$1
    announce "$@"; shift
    status=0
    run_it "$@" || status=$?
    case $status in
        0) ;;
        3) echo "(status 3: undecided)" ;;
        5 | 77) skip "$what" "this machine lacks a requirement; see the message above" ;;
        *) stop "failed with status $status: $(quoted "$@")" ;;
    esac
}

must_contain() { # FILE TEXT: fails unless the file contains the text
    grep -qF -- "$2" "$1" || stop "$1 does not contain '$2'"
}

answer() { # the steps before this line have given the first useful answer
    [ -n "$answered" ] || answered=$(seconds)
}

skip() { # PART REASON
    printf '\nskipped: %s: %s: %s\n' "$name" "$1" "$2"
}

has() { command -v "$1" >/dev/null; }

finish() {
    echo
    [ -n "$answered" ] || stop "no useful answer"
    echo "=== $name: $(seconds) s, first useful answer after $answered s (limit: $limit_s s)"
    [ "$answered" -le "$limit_s" ] || stop "the first useful answer was later than its limit"
}
