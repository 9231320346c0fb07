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
for cipher in aes-128-cbc aes-192-cbc aes-256-cbc aes-128-ctr aes-192-ctr aes-256-ctr aes-128-gcm aes-192-gcm aes-256-gcm chacha20-poly1305; do
    for direction in encrypt decrypt; do
        kernel "$cipher-$direction" --set cipher=$cipher --set direction=$direction --set message=block
    done
done
for cipher in aes-128-cbc aes-256-ctr; do
    kernel "$cipher-stream" --set cipher=$cipher --set block=64KiB
    kernel "$cipher-stream-back" --set cipher=$cipher --set block=16 --set direction=decrypt
done
# With this driver loaded, the generic one is no longer the default.
modprobe aesni_intel
for cipher in aes-256-cbc aes-128-gcm chacha20-poly1305; do
    kernel "$cipher-software" --set cipher=$cipher --set message=block --set instructions=software
done
step drivers cat /proc/crypto
measured pinned crypto --smoke --runs 1 --threads 2 --placement '-C 0,5 -m 1' --set engine=kernel
step library ls /lib/x86_64-linux-gnu/libcrypto.so.3
