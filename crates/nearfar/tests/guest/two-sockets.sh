# On two sockets and a node without cpus: what the machine is, placements proven, violations, a race.
step map nearfar map --format json
step numactl-twin nearfar map --format numactl
if [ -x /bin/numactl ]; then step numactl numactl --hardware; fi

measured placements stream --smoke --runs 2 --placement memory-local --placement memory-remote --placement interleave \
    --placement weighted-interleave --placement node:1 --placement '-C 0 -m 2'
measured chase chase --smoke --runs 1 --placement '-C 0,4 -i 0-2' --placement '-C 5 -m 0' --placement compact+node:2

# Commands that do not stay where they were put, and one whose memory is moved by somebody else.
measured honest command --runs 1 -C 0 -m 0 -- meddle hold 32 200
measured strays command --runs 1 -C 0 -- taskset 0x30 sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'
measured rebinds command --runs 1 -C 0 -m 0 -- meddle rebind 1 32 200
mover() { # moves the memory of every program called `held` from node 0 to node 1, once
    last=""
    while [ -e /tmp/moving ]; do
        pid=$(pidof held)
        if [ -n "$pid" ] && [ "$pid" != "$last" ]; then
            last=$pid; usleep 500000; meddle migrate "$pid" 0 1 && echo "$pid" >>/tmp/moved
        fi
        usleep 20000
    done
}
: >/tmp/moving; mover & mover=$!
measured moved command --runs 1 -C 0 -m 0 -- held hold 16 1500
measured moved-interleaved command --runs 1 -C 0 -i 0-1 -- held hold 32 1500
rm /tmp/moving; wait "$mover"
step moves cat /tmp/moved

cat >/bin/job <<'JOB'
#!/bin/sh
# Counts to 2000, shared out over some processes.
for _ in $(seq "$1"); do (i=0; while [ $i -lt $((2000 / $1)) ]; do i=$((i+1)); done) & done
wait
JOB
chmod +x /bin/job
step race nearfar --quiet place --budget 25s --max-trials 70 -C 0,4 --format json -- job '{threads}'
step race.trials nearfar --quiet show --trials --format json
