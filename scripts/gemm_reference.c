/* The product of two matrices by a BLAS library called directly, for scripts/bench-peers: what our `gemm` must reach. The
 * library uses threads of its own here, as many as OPENBLAS_NUM_THREADS says.
 *
 * gcc -O2 scripts/gemm_reference.c -o gemm_reference -lopenblas
 * gemm_reference fp64|fp32 N PASSES prints the best pass but the first and the median of those, in 10^9 operations per second, 2 N^3
 * for each product: "gflops 1 gflops-median 2". With one pass a small product comes first instead, for matrices that take long. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cblas.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static unsigned long state = 1;

/* Uniform on [-1/2, 1/2). */
static double uniform(void)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int count, char **words)
{
    if (count != 4 || atoi(words[2]) < 1 || atoi(words[3]) < 1) {
        fprintf(stderr, "gemm_reference fp64|fp32 N PASSES\n");
        return 2;
    }
    int single = !strcmp(words[1], "fp32"), n = atoi(words[2]), passes = atoi(words[3]);
    size_t elements = (size_t)n * n, size = single ? sizeof(float) : sizeof(double);
    void *a = aligned_alloc(64, (elements * size + 63) / 64 * 64), *b = aligned_alloc(64, (elements * size + 63) / 64 * 64),
         *c = aligned_alloc(64, (elements * size + 63) / 64 * 64);
    double *rates = calloc(passes, sizeof *rates);
    if (!a || !b || !c || !rates) {
        fprintf(stderr, "no memory for n = %d\n", n);
        return 1;
    }
    for (size_t i = 0; i < elements; i++) {
        if (single)
            ((float *)a)[i] = uniform(), ((float *)b)[i] = uniform(), ((float *)c)[i] = 0;
        else
            ((double *)a)[i] = uniform(), ((double *)b)[i] = uniform(), ((double *)c)[i] = 0;
    }
    if (passes == 1) {
        int m = n < 1024 ? n : 1024;
        if (single)
            cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, n, b, n, 0, c, n);
        else
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1, a, n, b, n, 0, c, n);
    }
    for (int pass = 0; pass < passes; pass++) {
        double begun = seconds();
        if (single)
            cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
        else
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
        rates[pass] = 2.0 * n * n * n / (seconds() - begun) / 1e9;
    }
    if (passes == 1) {
        printf("gflops %.4f gflops-median %.4f\n", rates[0], rates[0]);
        return isnan(single ? ((float *)c)[0] : ((double *)c)[0]);
    }
    qsort(rates + 1, passes - 1, sizeof *rates, by_size);
    double middle = passes % 2 ? (rates[passes / 2] + rates[passes / 2 + 1]) / 2 : rates[passes / 2];
    printf("gflops %.4f gflops-median %.4f\n", rates[passes - 1], middle);
    return isnan(single ? ((float *)c)[0] : ((double *)c)[0]);
}
