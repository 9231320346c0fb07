/* A service for scripts/live-move that uses its memory all the time: a unit of work writes to 200 random pages.
 *   live_latency MIB NODE CPU LOG    allocates memory on a node, then appends "SECONDS MICROSECONDS" to LOG for each unit:
 *                                    when it ended (CLOCK_BOOTTIME, as in /proc/uptime), and how long it took */
#include "live_memory.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>

#define PAGE 4096
#define PAGES_PER_UNIT 200

int main(int count, char **words) {
    if (count != 5) return 2;
    size_t pages = (size_t)atol(words[1]) * (1 << 20) / PAGE;
    unsigned long nodes = 1UL << atol(words[2]);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(atol(words[3]), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) return 1;
    // Moving small pages takes longer, and most services have them.
    char *memory = allocate(pages * PAGE, nodes, MADV_NOHUGEPAGE);
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
