# A USB disk with movable interrupts: placements on every node, interference, and restored affinities.
for module in xhci_pci usb_storage uas sd_mod; do modprobe "$module"; done
step disk wait_for [ -b /dev/sda ]
step second-disk wait_for [ -b /dev/sdb ]
masks() { for irq in $(ls /proc/irq); do cat "/proc/irq/$irq/smp_affinity_list" 2>/dev/null; done; }
step map nearfar map --format json
step before masks

measured sent io --runs 2 --device sda --set file=/dev/sda --set runtime=500ms --set iodepth=8 --placement one-core \
    --placement one-core+irq:same-core --placement one-core+irq:same-node --placement one-core+irq:other-node \
    --placement one-core+irq:spread --placement '-C 4 irq:5'
# Deep enough to fill the queue of the disk: then kernel threads submit the requests, also on the pinned CPUs.
measured both io --runs 1 --device sda --device sdb --threads 2 --set file=/dev/sda,/dev/sdb --set runtime=500ms \
    --set iodepth=32 --placement one-core+irq:other-node
step after masks
measured idle command --runs 1 --device sda --placement one-core+irq:1 -- true

# Moves the disk's interrupts from CPU 1 of the placement to CPU 7 while a trial reads.
numbers=$(nearfar map --interrupts | sed -n 's/^sda *\([0-9]*\) .*/\1/p')
all_on() { for number in $numbers; do [ "$(cat "/proc/irq/$number/smp_affinity_list")" = "$1" ] || return 1; done; }
reads() { awk '{ print $1 }' /sys/block/sda/stat; }
has_reads() { [ "$(reads)" -ge "$1" ]; }
# The placement is set before the trial starts, and fewer than 50 reads are made before it does.
move() { wait_for all_on 1 && wait_for has_reads $(($(reads) + 50)) &&
    for number in $numbers; do echo 7 >"/proc/irq/$number/smp_affinity_list"; done; }
# Moves them away and back, so that the affinity at the end is as requested.
away() { move && usleep 500000 && for number in $numbers; do echo 1 >"/proc/irq/$number/smp_affinity_list"; done; }
for meddler in move away; do
    $meddler &
    measured "$meddler" io --runs 1 --device sda --set file=/dev/sda --set runtime=2s --placement one-core+irq:1
    wait
done
# nearfar does not undo the changes of other processes.
for number in $numbers; do echo 0-7 >"/proc/irq/$number/smp_affinity_list"; done

step restored masks
nearfar --quiet measure io --runs 1 --device sda --set file=/dev/sda --set runtime=20s --placement irq:3 &
killed=$!
step left wait_for all_on 3
kill -9 $killed; wait $killed
step restore nearfar restore --format json
step back masks

step race nearfar --quiet place --device sda --only one-core --max-trials 40 --budget 60s --format json -- \
    dd if=/dev/sda of=/dev/null bs=16k count=200 iflag=direct

step experiment nearfar --quiet run interrupts --device sda --smoke --format json
step end masks
