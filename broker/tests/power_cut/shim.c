/*
 * A disk that forgets: preloaded into a process, it keeps an image of one
 * directory in which only those bytes exist that an fsync or fdatasync of their
 * file made durable. Killing the process then leaves the image as a power cut
 * would leave the disk.
 *
 *   CUT_FROM, CUT_TO  the directory, and where its image is kept
 *   CUT_TORN          a seed: some sectors of unsynced writes reach the image too
 *   CUT_FULL          bytes after which every write finds the disk full
 *   CUT_KILL          dies before so many of these calls, the last included
 *
 * Names (creating, renaming, removing) reach the image at once: that is kinder
 * than a real disk. Bytes are not: sync_file_range and close count for nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR 512

/* A write or a change of length that is not durable yet. */
struct change {
    struct change *next;
    int is_length;
    off_t at;
    size_t bytes;
    char data[];
};

struct file {
    struct file *next;
    dev_t device;
    ino_t inode;
    struct change *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static const char *from, *to;
static size_t from_length;
static unsigned long torn;
static long full = -1;
static long calls_left = -1;

static int (*real_open)(const char *, int, ...);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_truncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_mkdir)(const char *, mode_t);

static void load(void) {
    real_open = dlsym(RTLD_NEXT, "open64");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_truncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    from = getenv("CUT_FROM");
    to = getenv("CUT_TO");
    from_length = from && to ? strlen(from) : 0;
    if (getenv("CUT_TORN")) torn = strtoul(getenv("CUT_TORN"), 0, 10) * 2 + 1;
    if (getenv("CUT_FULL")) full = strtol(getenv("CUT_FULL"), 0, 10);
    if (getenv("CUT_KILL")) calls_left = strtol(getenv("CUT_KILL"), 0, 10);
}

static void ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
}

/* Where the image has this path; 0 when it is elsewhere. */
static int image(const char *path, char *out) {
    ready();
    if (!from_length || strncmp(path, from, from_length)) return 0;
    if (path[from_length] && path[from_length] != '/') return 0;
    return snprintf(out, PATH_MAX, "%s%s", to, path + from_length) < PATH_MAX;
}

/* Counts a call that changes the directory; the last one is never made. */
static void count(void) {
    if (calls_left >= 0 && __sync_sub_and_fetch(&calls_left, 1) == 0) kill(getpid(), SIGKILL);
}

static void count_path(const char *path) {
    char a[PATH_MAX];
    if (image(path, a)) count();
}

static int image_of(int fd, char *out) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return image(path, out);
}

static void count_fd(int fd) {
    char a[PATH_MAX];
    if (calls_left >= 0 && image_of(fd, a)) count();
}

static struct file *file_of(int fd) {
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return 0;
    for (struct file *f = files; f; f = f->next)
        if (f->inode == s.st_ino && f->device == s.st_dev) return f;
    struct file *f = calloc(1, sizeof *f);
    f->device = s.st_dev;
    f->inode = s.st_ino;
    f->last = &f->first;
    f->next = files;
    return files = f;
}

static unsigned roll(unsigned limit) {
    torn ^= torn << 13;
    torn ^= torn >> 7;
    torn ^= torn << 17;
    return (unsigned)(torn >> 20) % limit;
}

/* Some of a write's sectors get to the disk before anyone asked for it. */
static void tear(const char *path, const struct change *c) {
    int fd = real_open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    unsigned mood = roll(4);
    for (size_t done = 0; done < c->bytes;) {
        size_t part = SECTOR - (c->at + done) % SECTOR;
        if (part > c->bytes - done) part = c->bytes - done;
        int reaches = mood == 0 || (mood == 1 && roll(2)) || (mood == 2 && done < c->bytes / 2);
        if (reaches) real_pwrite(fd, c->data + done, part, c->at + done);
        done += part;
    }
    close(fd);
}

static void note(int fd, int is_length, off_t at, const void *data, size_t bytes) {
    char path[PATH_MAX];
    if (!image_of(fd, path)) return;
    pthread_mutex_lock(&lock);
    struct file *f = file_of(fd);
    if (f) {
        struct change *c = calloc(1, sizeof *c + bytes);
        c->is_length = is_length;
        c->at = at;
        c->bytes = bytes;
        if (bytes) memcpy(c->data, data, bytes);
        *f->last = c;
        f->last = &c->next;
        if (torn && bytes) tear(path, c);
    }
    pthread_mutex_unlock(&lock);
}

/* What was written before the sync began; later writes may or may not be in it. */
static struct change *take(int fd) {
    char path[PATH_MAX];
    if (!image_of(fd, path)) return 0;
    pthread_mutex_lock(&lock);
    struct file *f = file_of(fd);
    struct change *first = f ? f->first : 0;
    if (f) {
        f->first = 0;
        f->last = &f->first;
    }
    pthread_mutex_unlock(&lock);
    return first;
}

static void settle(int fd, struct change *first) {
    char path[PATH_MAX];
    if (!first || !image_of(fd, path)) return;
    pthread_mutex_lock(&lock);
    int out = real_open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    while (first) {
        struct change *c = first;
        if (c->is_length) {
            if (real_truncate(out, c->at)) abort();
        } else if (real_pwrite(out, c->data, c->bytes, c->at) != (ssize_t)c->bytes) {
            abort();
        }
        first = c->next;
        free(c);
    }
    close(out);
    pthread_mutex_unlock(&lock);
}

static int sync_with(int (*real)(int), int fd) {
    count_fd(fd);
    struct change *written = take(fd);
    int result = real(fd);
    if (!result) settle(fd, written);
    return result;
}

/* Whether the disk has no room for this write. */
static int is_full(int fd, size_t bytes) {
    char path[PATH_MAX];
    if (full < 0 || !image_of(fd, path)) return 0;
    pthread_mutex_lock(&lock);
    full = full > (long)bytes ? full - (long)bytes : 0;
    int none = full == 0;
    pthread_mutex_unlock(&lock);
    if (none) errno = ENOSPC;
    return none;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) {
    ready();
    count_fd(fd);
    if (is_full(fd, bytes)) return -1;
    ssize_t written = real_pwrite(fd, data, bytes, at);
    if (written > 0) note(fd, 0, at, data, written);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    return pwrite64(fd, data, bytes, at);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    ready();
    if (fd > 2) count_fd(fd);
    if (fd > 2 && is_full(fd, bytes)) return -1;
    ssize_t written = real_write(fd, data, bytes);
    if (written > 0 && fd > 2) {
        off_t end = lseek(fd, 0, SEEK_CUR);
        if (end >= 0) note(fd, 0, end - written, data, written);
    }
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0) return all ? all : written;
        all += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return all;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) {
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = pwrite64(fd, parts[i].iov_base, parts[i].iov_len, at + all);
        if (written < 0) return all ? all : written;
        all += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return all;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return pwritev64(fd, parts, count, at);
}

int ftruncate64(int fd, off_t length) {
    ready();
    count_fd(fd);
    int result = real_truncate(fd, length);
    if (!result) note(fd, 1, length, 0, 0);
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fsync(int fd) {
    ready();
    return sync_with(real_fsync, fd);
}

int fdatasync(int fd) {
    ready();
    return sync_with(real_fdatasync, fd);
}

int rename(const char *old, const char *new) {
    char a[PATH_MAX], b[PATH_MAX];
    ready();
    count_path(old);
    int result = real_rename(old, new);
    if (!result && image(old, a) && image(new, b)) real_rename(a, b);
    return result;
}

int unlink(const char *path) {
    char a[PATH_MAX];
    ready();
    count_path(path);
    int result = real_unlink(path);
    if (!result && image(path, a)) real_unlink(a);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    char a[PATH_MAX];
    ready();
    count_path(path);
    int result = real_mkdir(path, mode);
    if (!result && image(path, a)) real_mkdir(a, mode);
    return result;
}

int open64(const char *path, int flags, ...) {
    char a[PATH_MAX];
    mode_t mode = 0;
    ready();
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    if (flags & (O_CREAT | O_TRUNC)) count_path(path);
    int fd = real_open(path, flags, mode);
    if (fd >= 0 && flags & O_CREAT && image(path, a)) {
        int copy = real_open(a, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (copy >= 0) close(copy);
    }
    if (fd >= 0 && flags & O_TRUNC) note(fd, 1, 0, 0, 0);
    return fd;
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return open64(path, flags, mode);
}
