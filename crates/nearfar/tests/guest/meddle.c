/* Violations of a placement, as a program for the NUMA guest. Linked statically, because the guest has no C library.
 *   meddle hold MIB MS              touches memory once and sleeps
 *   meddle sweep MIB MS             touches memory repeatedly
 *   meddle rebind NODE MIB MS       binds itself to another node, then touches memory and sleeps
 *   meddle share FILE MS            maps a shared file, reads it and sleeps
 *   meddle bound NODE CMD...        runs a command whose memory is bound to a node
 *   meddle plant ANONYMOUS HUGE FILE SHARED  places memory of known size, anonymous and huge pages on these nodes,
 *                                   writes a line and waits for a signal
 *   meddle read FILE MIB MS         touches memory and reads a mapped file, then sleeps
 *   meddle find FILE MS             reads a mapped file and sleeps MS, and four times as long if its pages are on other
 *                                   nodes than the CPU that it runs on
 *   meddle hint MIB MS              touches memory once, computes until automatic NUMA balancing has hidden it from
 *                                   move_pages, at most MS, writes "hidden" or "shown" and waits for a signal
 *   meddle migrate PID FROM TO      moves the pages of a process between nodes (migrate_pages, like migratepages)
 *   meddle banned PID               prints the reply of an irqbalance to the request "setup"
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MPOL_BIND 2

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void hold(long mib, long ms) {
    char *memory = malloc(mib << 20);
    memset(memory, 1, mib << 20);
    sleep_ms(ms);
    printf("%d\n", memory[mib << 19]);
}

static int bind_memory(long node) {
    unsigned long nodes = 1UL << node;
    if (!syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 64)) return 0;
    perror("set_mempolicy");
    return 1;
}

/* Maps anonymous memory on a node and touches it. `advice` selects the size of its pages. */
static int place(long bytes, long node, int advice) {
    long huge = 2 << 20;
    unsigned long nodes = 1UL << node;
    char *memory = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return perror("mmap"), 1;
    memory = (char *)(((uintptr_t)memory + huge - 1) / huge * huge);
    if (madvise(memory, bytes, advice)) return perror("madvise"), 1;
    if (syscall(SYS_mbind, memory, bytes, MPOL_BIND, &nodes, 64, 0)) return perror("mbind"), 1;
    memset(memory, 1, bytes);
    return 0;
}

/* Maps a file and reads all of its pages; writes to the first `written` ones. */
static int map(const char *path, int flags, long written) {
    int file = open(path, flags == MAP_SHARED ? O_RDWR : O_RDONLY);
    long bytes = lseek(file, 0, SEEK_END);
    volatile char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED) return perror(path), 1;
    for (long at = 0; at < bytes; at += 4096) (void)memory[at];
    for (long page = 0; page < written; page++) memory[page * 4096] = 1;
    return 0;
}

/* Sleeps longer the more pages of a file are remote: a program whose speed depends on where it finds them. */
static int find(const char *path, long ms) {
    enum { COUNT = 64 };
    int file = open(path, O_RDONLY), status[COUNT], far = 0;
    unsigned node = 0;
    long step = lseek(file, 0, SEEK_END) / COUNT / 4096 * 4096;
    char *memory = mmap(NULL, step * COUNT, PROT_READ, MAP_PRIVATE, file, 0);
    void *pages[COUNT];
    if (memory == MAP_FAILED) return perror(path), 1;
    for (int page = 0; page < COUNT; page++) {
        pages[page] = memory + page * step;
        (void)*(volatile char *)pages[page];
    }
    syscall(SYS_getcpu, NULL, &node, NULL);
    if (syscall(SYS_move_pages, 0, COUNT, pages, NULL, status, 0)) return perror("move_pages"), 1;
    for (int page = 0; page < COUNT; page++) far += status[page] != (int)node;
    sleep_ms(ms + 3 * ms * far / COUNT);
    return 0;
}

static int hint(long mib, long ms) {
    enum { COUNT = 64 };
    long bytes = mib << 20, missing = 0;
    char *memory = malloc(bytes);
    void *pages[COUNT];
    int status[COUNT];
    memset(memory, 1, bytes);
    for (int page = 0; page < COUNT; page++) pages[page] = memory + bytes / COUNT * page;
    for (clock_t end = clock() + ms * (CLOCKS_PER_SEC / 1000); clock() < end && missing < COUNT / 2;) {
        if (syscall(SYS_move_pages, 0, COUNT, pages, NULL, status, 0)) return perror("move_pages"), 1;
        missing = 0;
        for (int page = 0; page < COUNT; page++) missing += status[page] < 0;
    }
    const char *line = missing < COUNT / 2 ? "shown\n" : "hidden\n";
    if (write(1, line, strlen(line)) < 0) return 1;
    return pause();
}

static int plant(char **words) {
    long heap = 64 * 4096;
    memset(sbrk(heap), 1, heap);
    if (place(100 * 4096, atol(words[2]), MADV_NOHUGEPAGE) || place(4 << 20, atol(words[3]), MADV_HUGEPAGE)) return 1;
    if (map(words[4], MAP_PRIVATE, 10) || map(words[5], MAP_SHARED, 0)) return 1;
    if (write(1, "planted\n", 8) != 8) return 1;
    return pause();
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
        if (bind_memory(atol(words[2]))) return 1;
        hold(atol(words[3]), atol(words[4]));
        return 0;
    }
    if (count == 5 && !strcmp(words[1], "read")) {
        if (map(words[2], MAP_PRIVATE, 0)) return 1;
        hold(atol(words[3]), atol(words[4]));
        return 0;
    }
    if (count == 4 && !strcmp(words[1], "find")) return find(words[2], atol(words[3]));
    if (count == 4 && !strcmp(words[1], "share")) {
        if (map(words[2], MAP_SHARED, 0)) return 1;
        sleep_ms(atol(words[3]));
        return 0;
    }
    if (count >= 4 && !strcmp(words[1], "bound")) {
        if (bind_memory(atol(words[2]))) return 1;
        execvp(words[3], words + 3);
        perror(words[3]);
        return 1;
    }
    if (count == 4 && !strcmp(words[1], "hint")) return hint(atol(words[2]), atol(words[3]));
    if (count == 6 && !strcmp(words[1], "plant")) return plant(words);
    if (count == 3 && !strcmp(words[1], "banned")) return banned(words[2]);
    if (count == 5 && !strcmp(words[1], "migrate")) {
        unsigned long from = 1UL << atol(words[3]), to = 1UL << atol(words[4]);
        long left = syscall(SYS_migrate_pages, atol(words[2]), 64, &from, &to);
        if (left < 0) perror("migrate_pages");
        return left != 0;
    }
    return 2;
}
