# Memory of known kind, size and node, and files whose pages are on known nodes.
modprobe virtio_blk; modprobe crc32c_generic; modprobe ext4
mkdir /data /shared
has_disk() { [ -b /dev/vda ]; }
wait_for has_disk
step disk mount -t ext4 /dev/vda /data
mount -t tmpfs tmpfs /shared

plant() { # CASE: nodes derived from its number
    heap=$(($1 % 3)) other=$((($1 + 1 + $1 / 3 % 2) % 3)) file=$(($1 / 2 % 3)) text=$(($1 / 4 % 3)) shared=$(($1 / 5 % 3))
    echo 3 >/proc/sys/vm/drop_caches
    rm -f /data/* /shared/*
    meddle bound $file dd if=/dev/zero of=/data/file bs=4096 count=200
    meddle bound $text cp /bin/meddle /data/text
    meddle bound $shared dd if=/dev/zero of=/shared/ring bs=4096 count=50
    sync
    meddle bound $heap /data/text plant $other $file /data/file /shared/ring >/tmp/planted &
    pid=$!
    wait_for grep -q planted /tmp/planted
    step "nodes-$1" echo "{\"heap\": $heap, \"anonymous\": $other, \"file\": $file, \"text\": $text, \"shared\": $shared}"
    step "where-$1" nearfar where --pid $pid --format json
    step "numa-maps-$1" cat /proc/$pid/numa_maps
    step "files-$1" nearfar where --format json --file /data/file /data/text /shared/ring
    kill $pid; wait $pid
}
for case in 0 1 2 3 4 5 6 7 8 9; do plant $case 2>/dev/null; done

# A service whose memory is on the node without CPUs.
meddle bound 2 meddle hold 24 600000 &
pid=$!
has_memory() { awk '/^VmRSS/ { exit $2 < 24 * 1024 }' /proc/$pid/status; }
wait_for has_memory
step audit nearfar live audit --pid $pid --duration 300ms --format json

# The same service is moved to node 1, and back. Between, its pages are migrated away.
state() { # NAME
    step "$1-where" nearfar where --pid $pid --format json
    step "$1-status" cat /proc/$pid/status
}
state found
step applied nearfar live apply --pid $pid --placement node:1 --format json
state applied
step watched nearfar live watch --once --format json
meddle migrate $pid 1 0
step lost nearfar live watch --once --format json
step undone nearfar live undo --pid $pid --format json
state undone

# The change is interrupted and killed while it moves memory.
has_pages() { ls /var/lib/nearfar/applied/*/pages >/dev/null 2>&1; }
apply_until() { # SIGNAL
    nearfar live apply --pid $pid --placement node:0 >/dev/null 2>&1 & apply=$!
    wait_for has_pages
    kill -"$1" $apply; wait $apply
}
apply_until INT
state interrupted
apply_until KILL
step killed ls /var/lib/nearfar/applied
step cleaned nearfar live undo --all --format json
state cleaned
step nothing nearfar live watch --once

# An experiment moves the memory to node 1 and back. It is interrupted after that, killed, and killed with its
# guard process.
state try-found
is_moved() { grep -q 'N1=[0-9]\{4\}' /proc/$pid/numa_maps; }
no_record() { [ -z "$(ls /var/lib/nearfar/applied 2>/dev/null)" ]; }
try_until() { # NAME COMMAND...: ends it with the command
    name=$1; shift
    nearfar live try --pid $pid --metric 'command:cat /proc/uptime' --move-memory --placement node:1 --fresh >/tmp/try 2>&1 &
    try=$!
    step "$name-moved" wait_for is_moved
    "$@"; wait $try
}
end_with() { kill -"$1" $try; }
try_until try-interrupted end_with INT
state try-interrupted
try_until try-killed end_with KILL
step try-guard wait_for no_record
state try-killed
kill_all() { kill -KILL $(pidof nearfar); }
try_until try-both kill_all
step try-restore nearfar restore
state try-both
kill $pid; wait $pid

# Memory that automatic NUMA balancing has made inaccessible.
echo 1 >/proc/sys/kernel/numa_balancing
meddle hint 24 20000 >/tmp/hint &
pid=$!
wait_for grep -q . /tmp/hint
step hint cat /tmp/hint
step hint-where nearfar where --pid $pid --format json
step hint-applied nearfar live apply --pid $pid --placement '-m 2' --format json
step hint-maps cat /proc/$pid/numa_maps
kill $pid; wait $pid

# A file that is cached in part: pages 64 to 191 are dropped.
meddle bound 1 dd if=/dev/zero of=/data/part bs=4096 count=300
sync; echo 3 >/proc/sys/vm/drop_caches
meddle bound 1 dd if=/data/part of=/dev/null bs=4096 count=64
step files-part nearfar where --format json --file /data/part
step files-dir nearfar where --file /data
step ended sh -c 'true & pid=$!; wait $pid; nearfar where --pid $pid'

# A file that trials on node 0 have read first, for a trial on node 1. In another trial, it is a quarter of the pages.
dd if=/dev/zero of=/data/model bs=1048576 count=48 2>/dev/null
dd if=/dev/zero of=/data/table bs=1048576 count=8 2>/dev/null
# Not by drop_caches, which leaves pages that a CPU still holds in a batch.
sync; nearfar files --drop /data/model /data/table >/dev/null
reads() { # NAME PLACEMENT FILE MIB PAGE-CACHE RUNS
    measured "$1" command --runs "$6" --placement "$2" --set page-cache="$5" -- held read "$3" "$4" 4000
}
reads model-0 node:0 /data/model 8 as-found 1
reads model-1 node:1 /data/model 8 as-found 1
reads table-0 node:0 /data/table 24 as-found 1
reads table-1 node:1 /data/table 24 as-found 1
reads table-unbound '-C 4' /data/table 24 as-found 1

# The same files, whose cached pages follow the placement, or are dropped.
reads placed-1 node:1 /data/model 8 placed 2
reads placed-0 node:0 /data/model 8 placed 2
reads placed-spread '-C 0,4' /data/model 8 placed 2
reads cold-1 node:1 /data/model 8 cold 2
held read /data/table 24 600000 &
reader=$!
reads kept-1 node:1 /data/table 24 placed 2
step read-here cat /proc/$reader/numa_maps
kill $reader
step read-fd nearfar --quiet measure --format json command --runs 2 --placement node:1 -- sh -c 'exec 3</data/model; usleep 500000'

# Files with a separate placement, which the parameter does not change.
reads files-node '-C 0 -m 0 files:node:2' /data/model 8 cold 2
reads files-spread '-C 4 files:interleave' /data/model 8 as-found 2
reads files-local '-C 4 -m 0 files:local' /data/model 8 placed 2
reads files-first '-C 4 files:node:0' /data/model 8 as-found 1
step files-moved nearfar files --format json --nodes 1 /data/model
step files-blocks nearfar files --format json --nodes 0,2 /data/model
held read /data/table 24 600000 &
reader=$!
wait_for grep -q /data/table /proc/$reader/maps
step files-in-use nearfar files --format json --drop /data/table /data/model
kill $reader
step files-nowhere nearfar files --nodes 3 /data/model

# A program that is slow if its file is remote. As found, the file is on node 2.
dd if=/data/model of=/dev/null bs=1048576 2>/dev/null
nearfar files --nodes 2 /data/model >/dev/null
step finds nearfar --quiet place --max-trials 24 -C 0,4 --only one-core --seed 1 --format json -- held find /data/model 300
