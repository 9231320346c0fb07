/* A random pointer chase as google/multichase's "simple" chase defines it (-c simple -s 64 -T SIZE), for
 * scripts/bench-peers where multichase itself is not at hand. Written for this comparison from the published definition:
 * one pointer per line of 64 bytes, one random cycle through all lines, each load's address is the load before. It is not
 * multichase's source, and its numbers are not multichase's.
 *
 * gcc -O3 -march=native scripts/chase_reference.c -o chase_reference && ./chase_reference BYTES SECONDS SEED
 * Prints the median of 100 samples in ns per load: "latency 95.1". Memory is plain, as malloc and the system's setting of
 * transparent huge pages give it: compare with huge-pages=system. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64 / sizeof(void *), ROUNDS = 100, UNROLLED = 64 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t mixed = *state += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

static __attribute__((noinline)) void **follow(void **link, long steps)
{
#define EIGHT(x) x x x x x x x x
    for (long step = 0; step < steps; step++) {
        EIGHT(EIGHT(link = (void **)*link;))
    }
    return link;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: chase_reference BYTES SECONDS SEED\n");
        return 2;
    }
    size_t bytes = strtoull(words[1], NULL, 10), lines = bytes / 64;
    double time = strtod(words[2], NULL);
    uint64_t seed = strtoull(words[3], NULL, 10);
    void **memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lines < 2 || memory == MAP_FAILED) {
        fprintf(stderr, "no memory of %zu bytes\n", bytes);
        return 1;
    }
    for (size_t line = 0; line < lines; line++)
        memory[line * LINE] = &memory[line * LINE];
    for (size_t line = lines - 1; line > 0; line--) { /* Sattolo 1986: every single cycle is equally likely. */
        size_t other = (size_t)(((unsigned __int128)next(&seed) * line) >> 64);
        void *swapped = memory[line * LINE];
        memory[line * LINE] = memory[other * LINE];
        memory[other * LINE] = swapped;
    }
    long warm = (long)(lines < 1 << 24 ? lines : 1 << 24) / UNROLLED + 1;
    double began = seconds();
    void **link = follow(memory, warm);
    double step = (seconds() - began) / (double)warm;
    long steps = (long)(time / ROUNDS / step) + 1;
    double samples[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        began = seconds();
        link = follow(link, steps);
        samples[round] = 1e9 * (seconds() - began) / (double)(steps * UNROLLED);
    }
    qsort(samples, ROUNDS, sizeof *samples, ascending);
    printf("latency %.4f\n", (samples[ROUNDS / 2 - 1] + samples[ROUNDS / 2]) / 2);
    return link == NULL; /* So that the chase is not left out. */
}
