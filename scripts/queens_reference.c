/* N queens by the search that m-queens defines, for scripts/bench-peers where m-queens itself is not at hand: the queen of
 * the second row is to the right of the first row's, each solution counts twice, and a square is abandoned if one of the
 * next three rows has no free square left. Written for this comparison from that definition. It is not m-queens' source,
 * and its numbers are not m-queens'.
 *
 * gcc -O3 -march=native -fopenmp scripts/queens_reference.c -o queens_reference && ./queens_reference N
 * Prints the rate of solutions: "solutions 12357498.9". OMP_NUM_THREADS sets the number of threads. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX = 21 };

/* Attacked squares of the next row. */
typedef struct {
    uint32_t columns, left, right;
} board;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline board with(board from, uint32_t square)
{
    return (board){from.columns | square, (from.left | square) << 1, (from.right | square) >> 1};
}

static inline uint32_t available(board from, uint32_t squares, int ahead)
{
    return squares & ~(from.columns | from.left << ahead | from.right >> ahead);
}

/* Counts the ways to fill the remaining rows. */
static uint64_t complete(board start, uint32_t squares, int rows)
{
    struct { board before; uint32_t untried; int rows; } stack[MAX];
    board before = start;
    uint32_t untried = available(start, squares, 0);
    uint64_t found = 0;
    int depth = 0;
    for (;;) {
        while (untried) {
            board after = with(before, untried & -untried);
            uint32_t next = available(after, squares, 0);
            untried &= untried - 1;
            if (next == 0) {
                found += after.columns == squares;
                continue;
            }
            if (rows > 3 && (available(after, squares, 2) == 0 || available(after, squares, 1) == 0))
                continue;
            /* A row without untried squares is overwritten. */
            stack[depth].before = before;
            stack[depth].untried = untried;
            stack[depth].rows = rows--;
            depth += untried != 0;
            before = after;
            untried = next;
        }
        if (depth == 0)
            return found;
        depth--;
        before = stack[depth].before;
        untried = stack[depth].untried;
        rows = stack[depth].rows;
    }
}

int main(int count, char **words)
{
    int n = count == 2 ? atoi(words[1]) : 0;
    if (n < 4 || n > MAX) {
        fprintf(stderr, "usage: queens_reference N, from 4 to %d\n", MAX);
        return 2;
    }
    uint32_t squares = (1u << n) - 1;
    board *starts = malloc(sizeof *starts * MAX * MAX * MAX);
    long all = 0;
    uint64_t found = 0;
    double began = seconds();
    for (int first = 0; first < n; first++)
        for (int second = first + 2; second < n; second++) {
            board two = with(with((board){0, 0, 0}, 1u << first), 1u << second);
            for (uint32_t thirds = available(two, squares, 0); thirds; thirds &= thirds - 1)
                starts[all++] = with(two, thirds & -thirds);
        }
#pragma omp parallel for schedule(dynamic) reduction(+ : found)
    for (long item = 0; item < all; item++)
        found += complete(starts[item], squares, n - 3);
    double took = seconds() - began;
    free(starts);
    printf("solutions %.1f count %llu\n", (double)(2 * found) / took, (unsigned long long)(2 * found));
    return 0;
}
