/* What a trial must not do, or what must not be done to it, as a program for the NUMA guest. Static, so that it runs there.
 *   meddle hold MIB MS              touches memory where it is told to live, and waits
 *   meddle rebind NODE MIB MS       the same, but binds itself to another node first
 *   meddle migrate PID FROM TO      moves the pages of a process from node to node (migrate_pages, as migratepages does)
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MPOL_BIND 2

static void hold(long mib, long ms) {
    char *memory = malloc(mib << 20);
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    memset(memory, 1, mib << 20);
    nanosleep(&time, NULL);
    printf("%d\n", memory[mib << 19]);
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "hold")) {
        hold(atol(words[2]), atol(words[3]));
        return 0;
    }
    if (count == 5 && !strcmp(words[1], "rebind")) {
        unsigned long node = 1UL << atol(words[2]);
        if (syscall(SYS_set_mempolicy, MPOL_BIND, &node, 64)) {
            perror("set_mempolicy");
            return 1;
        }
        hold(atol(words[3]), atol(words[4]));
        return 0;
    }
    if (count == 5 && !strcmp(words[1], "migrate")) {
        unsigned long from = 1UL << atol(words[3]), to = 1UL << atol(words[4]);
        long left = syscall(SYS_migrate_pages, atol(words[2]), 64, &from, &to);
        if (left < 0) perror("migrate_pages");
        return left != 0;
    }
    return 2;
}
