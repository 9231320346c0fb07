# Memory tiers: the kernel demotes pages of trials to the node without CPUs, and promotes them. The last part of a job,
# because it leaves settings of the kernel changed.
step tiers-kernel ls /sys/devices/virtual/memory_tiering
step tiers-map nearfar map --format json
group=/sys/fs/cgroup/tiered
echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir "$group"
echo 1 >/sys/kernel/mm/numa/demotion_enabled
tiered() { (echo 0 >"$group/cgroup.procs"; measured "$@"); }
holds_all() { awk '/^VmRSS/ { exit $2 < 32 * 1024 }' "/proc/$(pidof held)/status" 2>/dev/null; }
# Without swap, the kernel can reclaim anonymous pages of a cgroup only by demoting them.
demote() { wait_for holds_all && echo 24M >"$group/memory.reclaim"; }
tiered tiers-quiet command --runs 1 -C 4 -m 1 -- held hold 32 3000
demote &
tiered tiers-demoted command --runs 1 -C 4 -m 1 -- held hold 32 8000
wait $!
# Promotes every page on node 2 that the program uses, at the first scan of its memory.
echo 2 >/proc/sys/kernel/numa_balancing
cd /sys/kernel/debug/sched/numa_balancing
echo 100 >scan_delay_ms; echo 100 >scan_period_min_ms; echo 60000 >hot_threshold_ms
demote &
tiered tiers-promoted command --runs 1 -C 4 -- held sweep 32 20000
wait $!
