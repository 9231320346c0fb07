# Programs with a DRAM limit by cgroup v2, and compressed memory in zram, which counts towards no limit.
modprobe loop; modprobe virtio_blk; modprobe ext4; modprobe lzo-rle; modprobe zram
mkdir /far
has_disk() { [ -b /dev/vda ]; }
wait_for has_disk
step disk mount -t ext4 /dev/vda /far
export NEARFAR_FAR=/far
found() {
    tail -n +2 /proc/swaps | awk '{print "swap", $1}'
    ls -d /sys/fs/cgroup/*/ /sys/block/zram* /far/*
    cat /sys/fs/cgroup/cgroup.subtree_control
}
awk 'BEGIN { x = 1; for (i = 0; i < 250000; i++) { x = (x * 16807) % 2147483647; print x, i } }' >/far/lines
sort /far/lines >/far/sorted
step near sha256sum /far/sorted
step found found
for engine in steered kernel; do
    step $engine nearfar expand --dram 12MiB --far-size 256MiB --engine $engine --compressed --summary /tmp/summary \
        -- sort -o /tmp/sorted /far/lines
    step $engine.sum sha256sum /tmp/sorted
    step $engine.summary cat /tmp/summary
    step $engine.after found
    rm -f /tmp/sorted /tmp/summary
done
