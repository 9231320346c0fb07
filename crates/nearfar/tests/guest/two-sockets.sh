# Two sockets and a memory node without CPUs: topology, placements, violations, a race.
step map nearfar map --format json
step numactl-twin nearfar map --format numactl
if [ -x /bin/numactl ]; then step numactl numactl --hardware; fi

measured placements stream --smoke --runs 2 --placement memory-local --placement memory-remote --placement interleave \
    --placement weighted-interleave --placement node:1 --placement '-C 0 -m 2'
measured searches bfs --set scale=16 --set roots=1 --runs 1 -C 0,4
measured chase chase --smoke --runs 1 --placement '-C 0,4 -i 0-2' --placement '-C 5 -m 0' --placement compact+node:2

# Runs the printed command lines: CPUs and memory policy of a program under each.
cat >/bin/where <<'WHERE'
#!/bin/sh
echo "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status) $(sed -n 's/^[0-9a-f]* \([^ ]*\) stack.*/\1/p' /proc/self/numa_maps)"
WHERE
chmod +x /bin/where
run_lines() {
    nearfar placements --placement compact --placement one-core --placement memory-local --placement memory-remote \
        --placement interleave --placement node:1 --placement '-C 0 -m 2' --placement compact+node:2 --placement '-C 3,5 -p 1' \
        --placement '-C 2 -l' --placement kernel+interleave -- where |
        awk '/^[^ ]/ { placement = $0 } /^      (taskset|numactl|hwloc-bind) / && !/ mpirun / { sub(/^ +/, ""); print placement "|" $0 }' >/tmp/lines
    while IFS='|' read -r placement line; do
        if [ -x "/bin/${line%% *}" ]; then echo "$placement|$line|$(sh -c "$line" 2>&1)"; fi
    done </tmp/lines
}
step lines run_lines

# Commands that leave their placement, and one whose memory another process moves.
measured honest command --runs 1 -C 0 -m 0 -- meddle hold 32 6000
measured strays command --runs 1 -C 0 -- taskset 0x30 sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'
measured rebinds command --runs 1 -C 0 -m 0 -- meddle rebind 1 32 3000
mkdir /ring; mount -t tmpfs tmpfs /ring
meddle bound 1 dd if=/dev/zero of=/ring/file bs=1048576 count=16 2>/dev/null
measured shares command --runs 1 -C 0 -m 0 -- meddle share /ring/file 3000
umount /ring
cat >/bin/holder <<'HOLDER'
#!/bin/sh
# Long enough for an observation after the move; numa_maps is slow here, so it is read rarely.
if [ -e /tmp/moved ]; then exec held hold "$1" 100; fi
exec held hold "$1" 6000
HOLDER
chmod +x /bin/holder
move() { # moves the memory of the next program called `held` from node 0 to node 1
    wait_for pidof held >/dev/null && usleep 1000000 && meddle migrate "$(pidof held)" 0 1 && : >/tmp/moved
}
move &
measured moved command --runs 1 -C 0 -m 0 -- holder 16
wait; rm /tmp/moved
move &
measured moved-interleaved command --runs 1 -C 0 -i 0-1 -- holder 32
wait

cat >/bin/job <<'JOB'
#!/bin/sh
# Counts to 2000, divided among processes.
for _ in $(seq "$1"); do (i=0; while [ $i -lt $((2000 / $1)) ]; do i=$((i+1)); done) & done
wait
JOB
chmod +x /bin/job
step race nearfar --quiet place --budget 25s --max-trials 70 -C 0,4 --format json -- job '{threads}'
