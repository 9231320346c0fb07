
# Memory pressure: a limit that is too low or becomes too low, a node that is full. After two-sockets.sh.
modprobe null_blk nr_devices=0
mount -t configfs configfs /sys/kernel/config
disk=/sys/kernel/config/nullb/swap
mkdir "$disk"; echo 1 >"$disk/memory_backed"; echo 128 >"$disk/size"; echo 1 >"$disk/power"
step swap sh -c 'mkswap /dev/swap && swapon /dev/swap'
group=/sys/fs/cgroup/limited
echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir "$group"
in_group() { (echo 0 >"$group/cgroup.procs"; measured "$@"); }

streams() { in_group "$1" stream --smoke --runs 1 --set size=8MiB -C 0 -m 0; }
streams roomy
echo $(($(cat "$group/memory.peak") - (8 << 20))) >"$group/memory.max"
streams tight
echo max >"$group/memory.max"

sweeps() { in_group "$1" command --runs 1 -C 0 -m 0 -- held sweep 32 "$2"; }
sweeps unsqueezed 3000
# A quarter of the program: if half of it were swapped out, the resident pages could be too few to be evidence.
holds_all() { [ "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(pidof held)/status" 2>/dev/null || echo 0)" -ge 32768 ] 2>/dev/null; }
squeeze() { wait_for holds_all && echo $(($(cat "$group/memory.current") - (8 << 20))) >"$group/memory.max"; }
squeeze &
# Without swap readahead, every page that is read back is a major fault, so that even a slow emulation has enough of them
# per second. The sweep is long enough for reclaim and for these faults.
echo 0 >/proc/sys/vm/page-cluster
sweeps squeezed 10000
wait
swapoff /dev/swap

# Small pages fill a node completely, and the kernel reserves little of it.
echo never >/sys/kernel/mm/transparent_hugepage/enabled
echo 4096 >/proc/sys/vm/min_free_kbytes
node_1_free_kib() { sed -n 's/^Node 1 MemFree: *\([0-9]*\) kB/\1/p' /sys/devices/system/node/node1/meminfo; }
holds() { # NAME: with every policy that prefers or requires node 1; long enough to be observed
    measured "$1-preferred" command --runs 1 --placement '-C 4 -p 1' -- meddle hold 24 3000
    measured "$1-local" command --runs 1 --placement '-C 4 -l' -- meddle hold 24 3000
    measured "$1-bound" command --runs 1 --placement '-C 4 -m 1' -- meddle hold 24 3000
}
holds room
# Most of the node becomes reserved huge pages, which need not be written.
echo $(($(node_1_free_kib) / 2048 - 24)) >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
meddle rebind 1 $(($(node_1_free_kib) / 1024 - 6)) 600000 &
hog=$!
# The OOM killer must not choose the process that fills the node.
echo -1000 >/proc/$hog/oom_score_adj
is_full() { [ "$(node_1_free_kib)" -lt 18000 ]; }
step full wait_for is_full
holds full
# Small processes fill the rest, until one of them is killed. Not even the exec of a bound program fits then.
echo -1000 >/proc/$$/oom_score_adj
exposed() { (echo 0 >/proc/self/oom_score_adj; exec "$@"); } # COMMAND...: the OOM killer may choose it
hogs=$hog
for _ in $(seq 16); do exposed meddle rebind 1 1 600000 & hogs="$hogs $!"; done
has_killed() { dmesg | grep -q 'Killed process .*(meddle).*oom_score_adj:0'; }
step exhausted wait_for has_killed
step exhausted-bound exposed nearfar --quiet measure --format json command --runs 1 --placement '-C 4 -m 1' -- meddle hold 24 3000
# Some of them have ended.
kill $hogs 2>/dev/null
