/* What the services of scripts/live-* have in common: a clock, and memory on chosen nodes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MPOL_DEFAULT 0
#define MPOL_INTERLEAVE 3

/* Returns the seconds since the boot, as in /proc/uptime. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Returns memory on the nodes of a bit mask, with `advice` for madvise(2). Exits with status 1 if that is impossible. */
static char *allocate(size_t bytes, unsigned long nodes, int advice) {
    if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 64)) exit(1);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    madvise(memory, bytes, advice);
    memset(memory, 1, bytes);
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0)) exit(1);
    return memory;
}
