/* The loops of STREAM (copy, scale, add, triad), and reading and writing alone, as a C programmer writes them, for scripts/bench-peers: what our
 * `stream` kernel must at least reach when a compiler is given the same work. Written for this comparison from the
 * published definition; it is not McCalpin's source, and its numbers are not STREAM results.
 *
 * gcc -O3 -march=native -fopenmp -DELEMENTS=16777216 -DPASSES=10 scripts/stream_reference.c -o stream_reference
 * Prints the best pass but the first, in MB of 10^6 bytes per second: "copy 1 scale 2 add 3
 * triad 4 read 5 write 6". */
#include <math.h>
#include <stdio.h>
#include <time.h>

/* The bits of a number. */
typedef unsigned long word __attribute__((may_alias));

/* Static arrays, so that the compiler knows that they do not overlap, and how long they are. */
static double a[ELEMENTS], b[ELEMENTS], c[ELEMENTS];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void)
{
    static const char *const names[6] = {"copy", "scale", "add", "triad", "read", "write"};
    static const double arrays[6] = {2, 2, 3, 3, 1, 1};
    unsigned long sum = 0;
    const double q = sqrt(2) - 1; /* As our kernel: values stay near 1. */
    double best[6] = {1e30, 1e30, 1e30, 1e30, 1e30, 1e30};

#pragma omp parallel for schedule(static)
    for (long i = 0; i < ELEMENTS; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 0;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        double at[5];
        at[0] = seconds();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < ELEMENTS; i++)
            c[i] = a[i];
        at[1] = seconds();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < ELEMENTS; i++)
            b[i] = q * c[i];
        at[2] = seconds();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < ELEMENTS; i++)
            c[i] = a[i] + b[i];
        at[3] = seconds();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < ELEMENTS; i++)
            a[i] = b[i] + q * c[i];
        at[4] = seconds();
        for (int k = 0; k < 4 && pass > 0; k++)
            if (at[k + 1] - at[k] < best[k])
                best[k] = at[k + 1] - at[k];
    }
    for (long i = 0; i < ELEMENTS; i++)
        if (!(fabs(a[i] - 1) < 1e-9)) {
            fprintf(stderr, "a[%ld] is %g\n", i, a[i]);
            return 1;
        }
    /* Apart, and over the next array each time: what one loop leaves in the caches is paid for by its next pass. */
    double *const arrays_in_turn[3] = {a, b, c};
    for (int pass = 0; pass < PASSES; pass++) {
        const word *from = (const word *)arrays_in_turn[pass % 3];
        double begun = seconds();
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (long i = 0; i < ELEMENTS; i++)
            sum += from[i]; /* whole numbers, so that the order is free without -ffast-math */
        best[4] = pass ? fmin(best[4], seconds() - begun) : best[4];
    }
    for (int pass = 0; pass < PASSES; pass++) {
        double *to = arrays_in_turn[pass % 3];
        double begun = seconds();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < ELEMENTS; i++)
            to[i] = q;
        best[5] = pass ? fmin(best[5], seconds() - begun) : best[5];
    }
    for (int k = 0; k < 6; k++)
        printf("%s %.1f%c", names[k], 1e-6 * arrays[k] * sizeof(double) * ELEMENTS / best[k], k < 5 ? ' ' : '\n');
    return sum == 1; /* asked for, so that it is summed */
}
