/* A service whose speed depends on where it finds itself: a unit of work takes 2 ms, a tenth less on the CPUs of the fast
 * node, and up to half as long again if its memory is on other nodes than its CPU. Without a fast node (-1), nothing depends
 * on the placement. For scripts/live-rivals and scripts/live-planted-guest.
 *   live_service MIB FAST_NODE NODES LOG [wait]    allocates memory on the nodes of a bit mask, then appends a line per unit
 *                                                  to LOG; waits instead of computing */
#include "live_memory.h"

#include <fcntl.h>

#define SAMPLES 16

/* Returns the share of the sampled pages that are on other nodes than `node`. */
static double remote(char *memory, long bytes, int node) {
    void *pages[SAMPLES];
    int nodes[SAMPLES], elsewhere = 0;
    for (long i = 0; i < SAMPLES; i++) pages[i] = memory + (bytes / SAMPLES * i & ~4095L);
    if (syscall(SYS_move_pages, 0, SAMPLES, pages, NULL, nodes, 0)) return 0;
    for (int i = 0; i < SAMPLES; i++) elsewhere += nodes[i] != node;
    return (double)elsewhere / SAMPLES;
}

int main(int count, char **words) {
    if (count != 5 && count != 6) return 2;
    long bytes = atol(words[1]) << 20, fast = atol(words[2]);
    unsigned long nodes = strtoul(words[3], NULL, 0);
    // The emulator moves a huge page almost as fast as a small one.
    char *memory = allocate(bytes, nodes, MADV_HUGEPAGE);
    int log = open(words[4], O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (double end;;) {
        unsigned cpu, node;
        syscall(SYS_getcpu, &cpu, &node, NULL);
        double work = (long)node == fast ? 1.8e-3 : 2e-3;
        if (fast >= 0) work *= 1 + 0.5 * remote(memory, bytes, node);
        if (count == 6) nanosleep(&(struct timespec){ .tv_nsec = work * 1e9 }, NULL);
        else for (end = now() + work; now() < end;) { }
        if (write(log, "x\n", 2) != 2) return 1;
    }
}
