/* Violations of a placement, as a program for the NUMA guest. Linked statically, because the guest has no C library.
 *   meddle hold MIB MS              touches memory once and sleeps
 *   meddle sweep MIB MS             touches memory repeatedly
 *   meddle rebind NODE MIB MS       binds itself to another node, then touches memory and sleeps
 *   meddle migrate PID FROM TO      moves the pages of a process between nodes (migrate_pages, like migratepages)
 *   meddle banned PID               prints the reply of an irqbalance to the request "setup"
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
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

static int banned(const char *pid) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int stream = socket(AF_UNIX, SOCK_STREAM, 0);
    char answer[4096];
    ssize_t bytes;
    sprintf(name.sun_path, "/run/irqbalance/irqbalance%.20s.sock", pid);
    if (connect(stream, (struct sockaddr *)&name, sizeof name)) {
        /* If irqbalance could not create the directory, its socket has an abstract name. */
        memset(name.sun_path, 0, sizeof name.sun_path);
        int length = sprintf(name.sun_path + 1, "irqbalance%.20s.sock", pid);
        socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + length;
        if (connect(stream, (struct sockaddr *)&name, size)) return perror("irqbalance"), 1;
    }
    if (write(stream, "setup", 5) != 5) return 1;
    while ((bytes = read(stream, answer, sizeof answer)) > 0) fwrite(answer, 1, bytes, stdout);
    return 0;
}

static long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void sweep(long mib, long ms) {
    long end = now_ms() + ms, sweeps = 0;
    volatile char *memory = malloc(mib << 20);
    for (; now_ms() < end; sweeps++)
        for (long at = 0; at < mib << 20; at += 4096) memory[at]++;
    printf("%ld\n", sweeps);
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "hold")) {
        hold(atol(words[2]), atol(words[3]));
        return 0;
    }
    if (count == 4 && !strcmp(words[1], "sweep")) {
        sweep(atol(words[2]), atol(words[3]));
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
    if (count == 3 && !strcmp(words[1], "banned")) return banned(words[2]);
    if (count == 5 && !strcmp(words[1], "migrate")) {
        unsigned long from = 1UL << atol(words[3]), to = 1UL << atol(words[4]);
        long left = syscall(SYS_migrate_pages, atol(words[2]), 64, &from, &to);
        if (left < 0) perror("migrate_pages");
        return left != 0;
    }
    return 2;
}
