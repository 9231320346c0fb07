# A program and libraries on known nodes, and commands that run from copies of them.
modprobe virtio_blk; modprobe crc32c_generic; modprobe ext4
mkdir /data
has_disk() { [ -b /dev/vda ]; }
wait_for has_disk
step disk mount -t ext4 /dev/vda /data
meddle bound 2 cp /bin/nearfar /data/program
meddle bound 2 cp /bin/held /data/held
sync

# CPUs 4 to 7 are those of node 1.
taskset f0 nearfar copy-text -- /data/program serve --listen 127.0.0.1:0 >/tmp/served 2>&1 &
server=$!
wait_for grep -q http /tmp/served
step numa-maps cat /proc/$server/numa_maps
step mounts-inside cat /proc/$server/mounts
kill -9 $server; wait $server
step mounts-outside cat /proc/mounts
step original nearfar where --format json --file /data/program

measured plain command --runs 1 --placement '-C 0 -m 1' -- /data/held read /data/held 8 1500
measured copied command --runs 1 --placement '-C 0 -m 1 text:copy' -- /data/held hold 8 1500
# The shell is copied, the program that it runs is known only from the second attempt on.
measured child command --runs 1 --placement '-C 0 text:copy' -- sh -c '/data/held hold 8 1500; exit 0'
