/* The loops of STREAM (copy, scale, add, triad) as a C programmer writes them, for scripts/bench-peers: what our
 * `stream` kernel must at least reach when a compiler is given the same work. Written for this comparison from the
 * published definition; it is not McCalpin's source, and its numbers are not STREAM results.
 *
 * gcc -O3 -march=native -fopenmp -DELEMENTS=16777216 -DPASSES=10 scripts/stream_reference.c -o stream_reference
 * Prints the best pass but the first, in MB of 10^6 bytes per second: "copy 1 scale 2 add 3 triad 4". */
#include <math.h>
#include <stdio.h>
#include <time.h>

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
    static const char *const names[4] = {"copy", "scale", "add", "triad"};
    static const double arrays[4] = {2, 2, 3, 3};
    const double q = sqrt(2) - 1; /* As our kernel: values stay near 1. */
    double best[4] = {1e30, 1e30, 1e30, 1e30};

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
    for (int k = 0; k < 4; k++)
        printf("%s %.1f%c", names[k], 1e-6 * arrays[k] * sizeof(double) * ELEMENTS / best[k], k < 3 ? ' ' : '\n');
    return 0;
}
