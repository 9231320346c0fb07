# A CPU that goes offline: between trials, during a trial of a command, during one of a kernel, during a race.
plug() { echo "$1" >/sys/devices/system/cpu/cpu3/online; }
step kernel uname -r
# Linux 6.16 derives weights from the firmware's bandwidths, which the shape `tiers` has. Writing a weight ends that.
for weight in /sys/kernel/mm/mempolicy/weighted_interleave/node*; do [ ! -e "$weight" ] || echo 1 >"$weight"; done
measured weighted stream --smoke --runs 2 --placement weighted-interleave --placement interleave

# Weights of a simulated map of this machine, because emulated nodes do not differ in bandwidth.
kernel_weights() { (cd /sys/kernel/mm/mempolicy/weighted_interleave && grep -H . *) }
step kernel-weights-before kernel_weights
nearfar map --format capture --output /tmp/guest.json
step weights nearfar --quiet map --measure --smoke --sim /tmp/guest.json:7 --weights --apply --settings-root / --format json
step kernel-weights kernel_weights
measured by-weight stream --smoke --runs 2 --placement weighted-interleave
step restore-weights nearfar restore
step kernel-weights-after kernel_weights

nearfar --quiet measure --format json command --runs 6 --placement '-C 3' --placement '-C 2' -- \
    sh -c 'echo x >>/tmp/turns; i=0; while [ $i -lt 500 ]; do i=$((i+1)); done' >/tmp/between 2>/tmp/between.stderr &
measuring=$!
wait_for lines_in /tmp/turns 4
plug 0
wait "$measuring"; frame between $? /tmp/between
step map nearfar map --format json
plug 1

unplug_when() { wait_for "$@"; usleep 300000; plug 0; usleep 300000; : >/tmp/gone; }
unplug_when [ -e /tmp/started ] &
measured during command --runs 1 --placement '-C 3' -- sh -c ': >/tmp/started; while [ ! -e /tmp/gone ]; do :; done; usleep 300000'
wait; plug 1

rm /tmp/gone
# The worker pins its second thread when that starts. The brackets keep the pattern from matching this grep.
worker_has_threads() {
    worker=$(grep -ls '[_]_worker' /proc/[0-9]*/cmdline) && [ "$(ls "${worker%/cmdline}/task" | wc -l)" -gt 1 ]
}
unplug_when worker_has_threads &
measured during-kernel stream --smoke --set passes=400 --runs 1 --placement '-C 3'
wait; plug 1

cat >/bin/job <<'JOB'
#!/bin/sh
echo x >>/tmp/raced; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done
JOB
chmod +x /bin/job
(wait_for lines_in /tmp/raced 4; plug 0) &
step race nearfar --quiet place --budget 20s --max-trials 50 --cpus-max 1 -C 3,6 --threads 1 --format json -- job
