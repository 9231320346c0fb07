# The kernel's ciphers through AF_ALG: first without their modules, then with some, then with all of them. Every cipher in both
# directions, its generic driver, one long message, and pinned threads.
kernel() { # NAME SETTINGS...
    name=$1; shift
    measured "$name" crypto --smoke --runs 1 --threads 1 --set engine=kernel "$@"
}
kernel no-sockets --set cipher=aes-128-cbc
# Provides AF_ALG sockets, but only of one of their two kinds.
modprobe algif_skcipher
kernel no-aead --set cipher=aes-128-gcm --set message=block
for module in algif_aead ctr gcm ghash_generic chacha_generic poly1305_generic chacha20poly1305; do modprobe $module; done
# Runs each cell once; --smoke would run them twice.
experiment() { # NAME WORKLOADS IN TOML...
    name=$1; shift
    { printf 'name = "%s"\nquestion = "?"\n[repeat]\nwarmup = 0\nmin = 1\nmax = 1\n' "$name"; printf '%s\n' "$@"; } >/tmp/experiment.toml
    step "$name" nearfar --quiet run /tmp/experiment.toml --format json
}
ciphers() { # LABEL PARAMETERS IN TOML
    printf '[[workload]]\nname = "crypto"\nlabel = "%s"\nthreads = [1]\nset = { engine = "kernel", time = "50ms", %s }\n' "$1" "$2"
}
all='["aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "aes-128-ctr", "aes-192-ctr", "aes-256-ctr", "aes-128-gcm", "aes-192-gcm",
    "aes-256-gcm", "chacha20-poly1305"]'
continued='["aes-128-cbc", "aes-256-ctr"]'
experiment ciphers "$(ciphers blocks "message = \"block\", direction = [\"encrypt\", \"decrypt\"], cipher = $all")"
experiment streams "$(ciphers encrypt "cipher = $continued, block = \"64KiB\"")" \
    "$(ciphers decrypt "cipher = $continued, block = \"16\", direction = \"decrypt\"")"
# With this driver loaded, the generic one is no longer the default.
modprobe aesni_intel
generic='["aes-256-cbc", "aes-128-gcm", "chacha20-poly1305"]'
experiment software "$(ciphers blocks "message = \"block\", instructions = \"software\", cipher = $generic")"
step drivers cat /proc/crypto
measured pinned crypto --smoke --runs 1 --threads 2 --placement '-C 0,5 -m 1' --set engine=kernel
step library ls /lib/x86_64-linux-gnu/libcrypto.so.3
