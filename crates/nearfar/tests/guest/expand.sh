# Programs with a DRAM limit by cgroup v2, and far memory on a disk with ext4.
modprobe loop; modprobe virtio_blk; modprobe crc32c_generic; modprobe ext4
mkdir /far
has_disk() { [ -b /dev/vda ]; }
wait_for has_disk
step disk mount -t ext4 /dev/vda /far
export NEARFAR_FAR=/far
control=/sys/fs/cgroup/cgroup.subtree_control
zswap=/sys/module/zswap/parameters/enabled
# Everything that an expansion changes or could leave behind.
found() {
    tail -n +2 /proc/swaps | awk '{print "swap", $1}'
    for group in /sys/fs/cgroup/*/; do echo "group $group"; done
    for file in /sys/block/loop*/loop/backing_file; do [ ! -e "$file" ] || echo "loop $(cat "$file")"; done
    echo "control $(cat $control)"
    cat /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled 2>/dev/null
    echo "zswap $(cat $zswap)"
    ls /far
}
step doctor nearfar doctor --format json

awk 'BEGIN { x = 1; for (i = 0; i < 250000; i++) { x = (x * 16807) % 2147483647; print x, i } }' >/far/lines
sort /far/lines >/far/sorted
step near sha256sum /far/sorted
step found found
expand() { nearfar expand --dram 10MiB --far-size 256MiB "$@"; }
for engine in steered plain; do
    step "$engine" expand --engine $engine --summary /tmp/summary -- sort -o /tmp/sorted /far/lines
    step "$engine.sum" sha256sum /tmp/sorted
    step "$engine.summary" cat /tmp/summary
    step "$engine.after" found
    rm -f /tmp/sorted /tmp/summary
done

# Evicted pages stay compressed in DRAM; without the option they do not, even if zswap is on.
step compressed nearfar expand --dram 12MiB --far-size 256MiB --engine kernel --compressed --summary /tmp/summary \
    -- sort -o /tmp/sorted /far/lines
step compressed.sum sha256sum /tmp/sorted
step compressed.summary cat /tmp/summary
step compressed.after found
# A program that waits for single pages from disk. Its sweep ends after some seconds, whatever the speed.
step auto nearfar expand --dram 24MiB --far-size 256MiB --engine kernel --compressed=auto --summary /tmp/summary \
    -- nearfar --store /tmp/random.db measure sweep --runs 1 -w 0 --threads 2 --set size=24MiB --set huge-pages=no \
    --set pattern=random-read --set time=5s
step auto.summary cat /tmp/summary
step auto.after found
echo Y >$zswap
step uncompressed expand --engine kernel --summary /tmp/summary -- sort -o /tmp/sorted /far/lines
step uncompressed.summary cat /tmp/summary
echo N >$zswap
rm -f /tmp/sorted /tmp/summary

# The same program with half of the limit for compressed pages, and without.
step sized nearfar size --dram 12MiB --engine kernel --compressed --runs 1 -w 0 --format json -- sort -o /tmp/sorted /far/lines
rm -f /tmp/sorted
step sized.after found

# Trials with a DRAM budget.
measured budget sweep --smoke --runs 1 --set size=32MiB --placement one-core+expand:16MiB --placement one-core+swap:16MiB
step budget.after found
measured compressing sweep --smoke --runs 1 --set size=16MiB --placement one-core+swap:8MiB+compressed
step compressing.after found

# The controller is killed, the program keeps running, then it is killed too. Not a function: $! has to be the controller.
nearfar expand --dram 12MiB --far-size 256MiB -- held hold 40 200000 >/tmp/controller 2>&1 &
controller=$!
far_kib() { awk 'NR > 1 { sum += $4 } END { print sum + 0 }' /proc/swaps; }
has_far_memory() { [ -n "$(pidof held)" ] && [ "$(far_kib)" -gt 8192 ]; }
step far wait_for has_far_memory
step during found
kill -9 $controller; wait
step alive pidof held
is_lifted() { [ "$(cat /sys/fs/cgroup/nearfar-*/memory.max)" = max ]; }
step lifted wait_for is_lifted
step early nearfar restore
kill -9 "$(pidof held)"
has_ended() { ! pidof held >/dev/null; }
step over wait_for has_ended
step restored nearfar restore
step killed.after found

# Two concurrent expansions: the controller that the first has enabled stays enabled for the second.
mkfifo /tmp/first /tmp/second
for name in first second; do
    expand -- sh -c "echo there >/tmp/$name.started; read line </tmp/$name" >/tmp/controller 2>&1 &
    has_started() { lines_in /tmp/$name.started 1; }
    step $name wait_for has_started
done
# Their swap has the same priority as that of a trial.
measured shared sweep --smoke --runs 1 --set size=12MiB --placement one-core+swap:8MiB
echo go >/tmp/first
one_is_left() { [ "$(ls -d /sys/fs/cgroup/nearfar-* | wc -l)" = 1 ] && [ "$(ls /var/lib/nearfar/expand | wc -l)" = 1 ]; }
step left wait_for one_is_left
step second.bound sh -c 'cat /sys/fs/cgroup/nearfar-*/memory.max'
echo go >/tmp/second
wait
step two.after found
