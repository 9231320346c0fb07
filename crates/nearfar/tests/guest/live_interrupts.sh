# A running service that reads the disk: an experiment and an applied placement move the disk's interrupts. Between
# interrupts.sh and irqbalance.sh.
while :; do dd if=/dev/sda of=/dev/null bs=4k count=400 iflag=direct 2>/dev/null; done &
service=$!
found=$(masks)
try() { # NAME ARGUMENT...
    name=$1; shift
    nearfar live try --pid $service --metric 'command:cat /sys/block/sda/stat' --device sda --seed 1 --fresh "$@" \
        >"/tmp/$name" 2>&1 &
    trying=$!
}
end_with() { kill -"$1" $trying; wait $trying; }
not_on() { ! all_on "$1"; }

step live-dry nearfar live try --pid $service --metric 'command:cat /sys/block/sda/stat' --device sda --dry-run
# With two placements, those of the wash-out alternate: after the second change back, a period of each is stored.
try live-tried --placement 'irq:4'
step live-there wait_for all_on 4
step live-away wait_for not_on 4
step live-again wait_for all_on 4
for number in $numbers; do echo 7 >"/proc/irq/$number/smp_affinity_list"; done
step live-moved wait_for not_on 7
step live-last wait_for all_on 4
end_with INT
step live-shown nearfar show "$(sed -n 's/.*nearfar show \([^ ]*\) shows.*/\1/p' /tmp/live-tried)" --format json
step live-restored masks
try live-killed --placement '0-3+irq:5'
step live-left wait_for all_on 5
end_with KILL
back() { [ "$(masks)" = "$found" ]; }
step live-guard wait_for back

step live-applied nearfar live apply --wait --pid $service --placement '4-5+irq:6' --device sda --format json
step live-on-6 all_on 6
step live-watched nearfar live watch --once --format json
for number in $numbers; do echo 0-7 >"/proc/irq/$number/smp_affinity_list"; break; done
step live-lost nearfar live watch --once
for number in $numbers; do echo 6 >"/proc/irq/$number/smp_affinity_list"; break; done
step live-undone nearfar live undo --pid $service --format json
step live-back masks
kill $service; wait $service
