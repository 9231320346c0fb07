
# Placements that a cpuset keeps, also for new processes: of a cgroup, and of a unit of systemd.
allowed() { sed -n 's/^\(Cpus\|Mems\)_allowed_list:[^0-9]*//p' "/proc/$1/status"; }
group=/sys/fs/cgroup/service
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; mkdir "$group"
(echo 0 >"$group/cgroup.procs"; exec meddle hold 24 600000) &
service=$!
is_in_cgroup() { grep -q "^$service$" "$group/cgroup.procs"; }
wait_for is_in_cgroup
has_memory() { awk '/^VmRSS/ { exit $2 < 24 * 1024 }' "/proc/$1/status"; }
wait_for has_memory $service
step cgroup-found allowed $service
step cgroup-dry nearfar live apply --cgroup "$group" --placement node:1 --dry-run
step cgroup-applied nearfar live apply --cgroup "$group" --placement node:1 --format json
step cgroup-there allowed $service
# A new process, which another one starts in the cgroup.
new_process() { (echo 0 >"$group/cgroup.procs"; allowed self); }
step cgroup-new new_process
step cgroup-undone nearfar live undo --all --format json
step cgroup-restored allowed $service
kill $service; wait $service
rmdir $group; echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control

# systemd is the first process of new namespaces.
if [ -x /lib/systemd/systemd ]; then
mkdir -p /etc/systemd/system /run; : >/etc/machine-id
printf '[Unit]\nDefaultDependencies=no\n' >/etc/systemd/system/default.target
printf '[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/meddle hold 24 600000\n' >/etc/systemd/system/held.service
container=guest unshare --pid --mount --fork --mount-proc sh -c \
    'mount -t tmpfs run /run; exec /lib/systemd/systemd --system --log-target=console --show-status=no' >/tmp/systemd 2>&1 &
inside() { nsenter --target $(pidof systemd) --mount --pid "$@"; }
wait_for inside systemctl start held
held() { inside sh -c 'sed -n "s/^\(Cpus\|Mems\)_allowed_list:[^0-9]*//p" "/proc/$(systemctl show --value -p MainPID held)/status"'; }
property() { inside systemctl show -p AllowedCPUs -p AllowedMemoryNodes held; }
step unit-found held
step unit-dry inside nearfar live apply --unit held --placement node:1 --dry-run
step unit-applied inside nearfar live apply --unit held --placement node:1
step unit-there held
step unit-restart inside systemctl restart held
step unit-restarted held
step unit-watched inside nearfar live watch --once --format json
step unit-undone inside nearfar live undo --unit held
step unit-restored held
step unit-property property
kill -KILL $(pidof systemd); wait
fi
