/* A service for scripts/live-move that uses its memory all the time: a unit of work writes to 200 random pages.
 *   live_latency MIB NODE CPU LOG    allocates memory on a node, then appends "SECONDS MICROSECONDS" to LOG for each unit:
 *                                    when it ended (CLOCK_BOOTTIME, as in /proc/uptime), and how long it took */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MPOL_DEFAULT 0
#define MPOL_BIND 2
#define PAGE 4096
#define PAGES_PER_UNIT 200

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    size_t pages = (size_t)atol(words[1]) * (1 << 20) / PAGE;
    unsigned long nodes = 1UL << atol(words[2]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atol(words[3]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 1;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 64)) return 1;
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    // A migration of small pages takes longer, and is what most services have.
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, pages * PAGE);
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0)) return 1;
    FILE *log = fopen(words[4], "w");
    if (!log) return 1;
    setvbuf(log, NULL, _IOLBF, 0);
    uint64_t random = 88172645463325252u;
    for (;;) {
        double start = now();
        for (int i = 0; i < PAGES_PER_UNIT; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            memory[random % pages * PAGE]++;
        }
        double end = now();
        if (fprintf(log, "%.6f %.0f\n", end, (end - start) * 1e6) < 0) return 1;
    }
}
