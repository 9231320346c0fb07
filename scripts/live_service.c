/* A service for scripts/live-rivals whose speed depends on where it finds itself: a unit of work takes 2 ms, a tenth less on
 * the CPUs of the fast node, and up to half as long again if its memory is on other nodes than its CPU.
 *   live_service MIB FAST_NODE NODES LOG    allocates memory on the nodes of a bit mask, then appends a line per unit to LOG */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MPOL_DEFAULT 0
#define MPOL_INTERLEAVE 3
#define SAMPLES 16

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

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
    if (count != 5) return 2;
    long bytes = atol(words[1]) << 20, fast = atol(words[2]);
    unsigned long nodes = strtoul(words[3], NULL, 0);
    if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 64)) return 1;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    // The emulator moves a huge page almost as fast as a small one.
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0)) return 1;
    int log = open(words[4], O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (double end = now();;) {
        unsigned cpu, node;
        syscall(SYS_getcpu, &cpu, &node, NULL);
        double work = (node == fast ? 1.8e-3 : 2e-3) * (1 + 0.5 * remote(memory, bytes, node));
        for (end = now() + work; now() < end;) { }
        if (write(log, "x\n", 2) != 2) return 1;
    }
}
