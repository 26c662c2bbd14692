/*
 * A clock and a disk that can be told to be wrong, for one node and all that it starts.
 *
 * NEMESIS_CONTROL names a file of 32 bytes, mapped here and written by the test: how many
 * nanoseconds the clock of the wall is wrong, whether the disk stands still, and which disk.
 * A disk that stands still takes no write, no rename, no new file, until it is told to go on;
 * a process that is killed meanwhile has written nothing of what it waited for.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t offset;
    volatile int64_t stalled;
    volatile uint64_t device;
    int64_t spare;
};

static struct control nothing;
static struct control *control = &nothing;

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
#define REAL(type, name, ...)                           \
    static type (*real)(__VA_ARGS__);                   \
    if (!real) real = (type (*)(__VA_ARGS__))next(name)

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("NEMESIS_CONTROL");
    if (!path) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) control = page;
    close(fd);
}

/* -- the clock */

static void shift(struct timespec *when)
{
    int64_t all = when->tv_nsec + control->offset % 1000000000;
    when->tv_sec += control->offset / 1000000000;
    if (all < 0) { all += 1000000000; when->tv_sec--; }
    if (all >= 1000000000) { all -= 1000000000; when->tv_sec++; }
    when->tv_nsec = all;
}

int clock_gettime(clockid_t id, struct timespec *when)
{
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int done = real(id, when);
    if (!done && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) shift(when);
    return done;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    when->tv_sec = now.tv_sec;
    when->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

/* -- the disk */

static void wait_for_disk(uint64_t device)
{
    static const struct timespec pause = {0, 5000000};
    int before = errno;
    if (device == control->device)
        while (control->stalled) nanosleep(&pause, NULL);
    errno = before;
}

static void wait_for(int fd)
{
    struct stat found;
    if (control->stalled && !fstat(fd, &found) && S_ISREG(found.st_mode)) wait_for_disk(found.st_dev);
}

static void wait_for_path(int folder, const char *path)
{
    struct stat found;
    char parent[4096];
    if (!control->stalled || !path || strlen(path) >= sizeof parent) return;
    strcpy(parent, path);
    char *slash = strrchr(parent, '/');
    if (slash) slash[slash == parent] = 0;
    else strcpy(parent, ".");
    if (!fstatat(folder, parent, &found, 0)) wait_for_disk(found.st_dev);
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    wait_for(fd);
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    wait_for(fd);
    return real(fd, parts, count);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t where)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    wait_for(fd);
    return real(fd, data, size, where);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t where)
{
    return pwrite64(fd, data, size, where);
}

int fsync(int fd)
{
    REAL(int, "fsync", int);
    wait_for(fd);
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    wait_for(fd);
    return real(fd);
}

int ftruncate64(int fd, off64_t size)
{
    REAL(int, "ftruncate64", int, off64_t);
    wait_for(fd);
    return real(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    wait_for_path(AT_FDCWD, to);
    return real(from, to);
}

int renameat(int one, const char *from, int two, const char *to)
{
    REAL(int, "renameat", int, const char *, int, const char *);
    wait_for_path(two, to);
    return real(one, from, two, to);
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    wait_for_path(AT_FDCWD, path);
    return real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(int, "unlinkat", int, const char *, int);
    wait_for_path(folder, path);
    return real(folder, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    wait_for_path(AT_FDCWD, path);
    return real(path, mode);
}

int link(const char *from, const char *to)
{
    REAL(int, "link", const char *, const char *);
    wait_for_path(AT_FDCWD, to);
    return real(from, to);
}

#define OPENS(flags) ((flags) & (O_CREAT | O_TRUNC))

int open64(const char *path, int flags, ...)
{
    REAL(int, "open64", const char *, int, ...);
    mode_t mode = 0;
    if (OPENS(flags) || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        wait_for_path(AT_FDCWD, path);
    }
    return real(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    REAL(int, "openat64", int, const char *, int, ...);
    mode_t mode = 0;
    if (OPENS(flags) || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        wait_for_path(folder, path);
    }
    return real(folder, path, flags, mode);
}
