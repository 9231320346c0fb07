# What two boots of one machine are compared by.
step map nearfar map --format json
if [ -x /bin/numactl ]; then step numactl numactl --hardware; step numactl-twin nearfar map --format numactl; fi
measured stream stream --smoke --runs 3 --placement kernel --placement one-core
