# Run in both boots of boots.rs.
step map nearfar map --format json
if [ -x /bin/numactl ]; then step numactl numactl --hardware; step numactl-twin nearfar map --format numactl; fi
step run nearfar run fake-numa --smoke --format json
