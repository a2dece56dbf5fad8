/*
 * lockstep data mnist: the published files, from the first place that has them. In the folder:
 *
 *   train-images-idx3-ubyte.gz        a file with the published SHA-256; never overwritten
 *   train-images-idx3-ubyte.gz.part   what has arrived of it; the next run goes on from there
 *   .lockstep.lock                    locked by the process that is at work
 *
 * A .part becomes a file by rename, after its hash is found right.
 */
#include "cli/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/digest.h"
#include "cli/data/fetch.h"
#include "cli/process.h"

static const double PATIENCE = 30, DRAW_SECONDS = 0.1, LINE_SECONDS = 5;

/* A connection that ends early is made again, so often at most. */
enum { TRIES = 20 };

typedef struct download {
    const lki_published *known;
    const char *folder;
    cli_pool *pool;
    cli_fetch *fetch;
    const char *const *mirrors;
    int mirror_count;
    double patience;
} download;

/* What is in the folder. */
typedef enum presence { ABSENT, RIGHT, OTHER } presence;

/* ---------------------------------------------------------------- files that are there */

static lks_status data_download_compare(bool *same, const char *path, const char *sha256)
{
    char found[DIGEST_SIZE];
    const lks_status status = digest_sha256(found, path);
    *same = status == LKS_OK && strcmp(found, sha256) == 0;
    return status;
}

/* One of the names that a file may have. Others than those of the known file are somebody's. */
static lks_status data_download_look_at(presence *out, const char *path, const char *sha256)
{
    bool same = false;
    *out = ABSENT;
    if (access(path, F_OK) != 0) return LKS_OK;
    *out = OTHER;
    if (sha256 == NULL) return LKS_OK;
    const lks_status status = data_download_compare(&same, path, sha256);
    if (same) *out = RIGHT;
    return status;
}

/* The path of file number i; NULL: it is not there. An unpacked one would be read instead of what is
 * downloaded, so that it counts, and has to be right. */
static lks_status look_for(const char **out, const download *d, int i)
{
    const lki_published_file *file = &d->known->files[i];
    char *plain = pool_format(d->pool, "%s/%s", d->folder, d->known->files[i].name);
    char *dotted = pool_format(d->pool, "%s", plain);
    char *packed = pool_format(d->pool, "%s.gz", plain);
    char *idx = strstr(dotted, "-idx");
    if (idx != NULL) idx[0] = '.';
    const char *const path[] = {plain, dotted, packed};
    *out = NULL;
    for (int k = 0; k < 3 && *out == NULL; k++) {
        presence found;
        const lks_status status = data_download_look_at(&found, path[k],
                                                        k < 2 ? file->sha256_plain : file->sha256);
        if (status != LKS_OK) return status;
        if (found == OTHER)
            return lks_fail(LKS_E_IO,
                            "%.300s is there already and is not the file that was published%s; "
                            "remove it, or choose another folder with --out DIR",
                            path[k], k < 2 && file->sha256_plain == NULL ? " (packed)" : "");
        if (found == RIGHT) *out = path[k];
    }
    return LKS_OK;
}

static lks_status look_for_all(const char **there, const download *d, bool *all)
{
    *all = true;
    for (int i = 0; i < d->known->file_count; i++) {
        const lks_status status = look_for(&there[i], d, i);
        if (status != LKS_OK) return status;
        *all = *all && there[i] != NULL;
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- one file */

/* "9.9 MB", "4.5 kB" */
static const char *size_text(char text[32], int64_t bytes)
{
    const bool small = bytes < 1000000;
    snprintf(text, 32, "%.1f %s", (double)bytes / (small ? 1e3 : 1e6), small ? "kB" : "MB");
    return text;
}

typedef struct progress {
    const char *name;
    int64_t bytes, begin; /* all, and those that were there */
    bool begun;
    double start, drawn;
} progress;

static void data_download_show(void *user, int64_t have)
{
    progress *p = user;
    const double now = process_clock();
    const bool bar = say_width() > 0;
    if (!p->begun) {
        p->begun = true;
        p->begin = have;
        p->start = p->drawn = now;
    }
    if (have < p->begin) p->begin = have; /* from the start after all */
    if (now - p->drawn < (bar ? DRAW_SECONDS : LINE_SECONDS)) return;
    p->drawn = now;
    const double rate = (double)(have - p->begin) / (now - p->start);
    const double left = rate > 0 ? (double)(p->bytes - have) / rate : INT32_MAX;
    char amount[72], speed[40], eta[32] = "", some[32], all[32];
    snprintf(amount, sizeof amount, "%s of %s", size_text(some, have), size_text(all, p->bytes));
    snprintf(speed, sizeof speed, "%s/s", size_text(some, (int64_t)rate));
    if (left < 360000) snprintf(eta, sizeof eta, "ETA %d:%02d", (int)left / 60, (int)left % 60);
    if (bar)
        say_bar(p->name, (double)have / (double)p->bytes, (const char *const[]){amount, eta, speed},
                3);
    else
        say_error("%s: %s, %s", p->name, amount, speed);
}

/* As libcurl takes it: one address for a folder, with or without a slash at its end. */
static char *address_of(const download *d, const char *mirror, int i)
{
    size_t length = strlen(mirror);
    while (length > 0 && mirror[length - 1] == '/') length--;
    return pool_format(d->pool, "%.*s/%s.gz", (int)length, mirror, d->known->files[i].name);
}

/* Transfers from one place until all bytes are there, or it is of no use to try again. */
static fetch_end transfer(const download *d, int part, const char *address, int i,
                          char reason[FETCH_REASON])
{
    progress p = {.name = d->known->files[i].name, .bytes = d->known->files[i].bytes};
    const fetch_request request = {.address = address,
                                   .file = part,
                                   .bytes = p.bytes,
                                   .patience = d->patience,
                                   .progress = data_download_show,
                                   .user = &p};
    struct stat before = {0}, after;
    for (int k = 0;; k++) {
        const fetch_end end = fetch_run(d->fetch, &request, reason);
        say_status(NULL);
        const bool more = fstat(part, &after) == 0 && after.st_size > before.st_size;
        before = after;
        if (end != FETCH_BROKEN || !more || k == TRIES) return end;
        say_error("%s: %s; going on at byte %lld", address, reason, (long long)after.st_size);
    }
}

/* Ends with a .part that has the right hash (FETCH_DONE), or with a reason for the next place. */
static lks_status try_mirror(fetch_end *end, const download *d, const char *path, int part,
                             const char *address, int i, char reason[FETCH_REASON])
{
    const lki_published_file *file = &d->known->files[i];
    struct stat info = {0};
    for (;;) {
        const bool resumed = fstat(part, &info) == 0 && info.st_size > 0;
        *end = FETCH_DONE; /* where only the hash and the rename were missing */
        if (info.st_size != file->bytes) *end = transfer(d, part, address, i, reason);
        if (*end == FETCH_FAILED) return LKS_E_IO;
        if (*end == FETCH_BROKEN || *end == FETCH_REFUSED) return LKS_OK;
        if (*end == FETCH_DONE) {
            bool same;
            const lks_status status = data_download_compare(&same, path, file->sha256);
            if (status != LKS_OK || same) return status;
            *end = FETCH_WRONG;
            snprintf(reason, FETCH_REASON, "its SHA-256 is not that of the published file");
        }
        /* Nothing to go on from. If only its beginning was wrong, the place may have it right. */
        if (ftruncate(part, 0) != 0)
            return lks_fail(LKS_E_IO, "%.300s cannot be emptied: %s", path, strerror(errno));
        if (!resumed) return LKS_OK;
    }
}

/* From the first place that has it; `part` is open for appending. */
static lks_status get_part(const download *d, const char *path, int part, int i)
{
    char reason[FETCH_REASON] = "", size[32];
    fetch_end end = FETCH_REFUSED;
    const char *address = "";
    for (int m = 0; m < d->mirror_count; m++) {
        if (m > 0) say_error("%s: %s; trying the next place", address, reason);
        address = address_of(d, d->mirrors[m], i);
        say_error("getting %s (%s)", address, size_text(size, d->known->files[i].bytes));
        const lks_status status = try_mirror(&end, d, path, part, address, i, reason);
        if (status != LKS_OK || end == FETCH_DONE) return status;
    }
    return lks_fail(end == FETCH_WRONG ? LKS_E_FORMAT : LKS_E_IO,
                    "%.200s: %.200s; no other place is left: name one with --mirror URL, or try "
                    "again later, which goes on with what has arrived",
                    address, reason);
}

static lks_status data_download_finish(const download *d, int part, const char *from,
                                       const char *to)
{
    const bool good = fsync(part) == 0 && rename(from, to) == 0;
    if (!good) return lks_fail(LKS_E_IO, "%.300s cannot be written: %s", to, strerror(errno));
    const int folder = open(d->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return LKS_OK;
    (void)fsync(folder); /* so that the new name survives a crash of the machine */
    close(folder);
    return LKS_OK;
}

static lks_status get_file(const download *d, int i)
{
    const char *to = pool_format(d->pool, "%s/%s.gz", d->folder, d->known->files[i].name);
    const char *from = pool_format(d->pool, "%s.part", to);
    const int part = open(from, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (part < 0) return lks_fail(LKS_E_IO, "%.300s cannot be written: %s", from, strerror(errno));
    lks_status status = get_part(d, from, part, i);
    if (status == LKS_OK) status = data_download_finish(d, part, from, to);
    struct stat info;
    const bool empty = fstat(part, &info) == 0 && info.st_size == 0;
    close(part);
    if (status != LKS_OK && empty) unlink(from);
    if (status == LKS_OK) say("%s: %" PRId64 " bytes, as published", to, d->known->files[i].bytes);
    return status;
}

/* ---------------------------------------------------------------- all of them */

/* One process at a time works on a folder; the lock goes with the process. */
static lks_status lock(int *out, const download *d)
{
    const char *path = pool_format(d->pool, "%s/.lockstep.lock", d->folder);
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*out < 0) return lks_fail(LKS_E_IO, "%.300s cannot be made: %s", path, strerror(errno));
    if (flock(*out, LOCK_EX | LOCK_NB) == 0) return LKS_OK;
    if (errno == EWOULDBLOCK)
        say_error("another process gets files into %s; waiting for it", d->folder);
    while (flock(*out, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        return lks_fail(LKS_E_IO, "%.300s cannot be locked: %s", path, strerror(errno));
    }
    return LKS_OK;
}

static lks_status get_missing(download *d, const char *const *there)
{
    lks_status status = digest_available(); /* before anything is downloaded in vain */
    if (status == LKS_OK) status = fetch_open(&d->fetch);
    for (int i = 0; i < d->known->file_count && status == LKS_OK; i++)
        if (there[i] == NULL) status = get_file(d, i);
    fetch_close(d->fetch);
    return status;
}

/* What is right already needs neither a lock nor a folder that can be written. */
static lks_status get_all(download *d)
{
    const char **there = pool_alloc(d->pool, (size_t)d->known->file_count * sizeof *there);
    bool all;
    int locked = -1;
    lks_status status = look_for_all(there, d, &all);
    if (status == LKS_OK && !all) {
        status = lks_folder_make(d->folder);
        if (status == LKS_OK) status = lock(&locked, d);
        if (status == LKS_OK)
            status = look_for_all(there, d, &all); /* another may have been at work */
    }
    for (int i = 0; i < d->known->file_count && status == LKS_OK; i++)
        if (there[i] != NULL) say("%s: there already, as published", there[i]);
    if (status == LKS_OK && !all) status = get_missing(d, there);
    if (locked >= 0) close(locked);
    return status;
}

/* Before anything is tried: what libcurl can do besides is not meant. */
static lks_status check_mirror(const char *address)
{
    static const char *const schemes[] = {"http://", "https://", "file://"};
    for (int i = 0; i < 3; i++)
        if (strncasecmp(address, schemes[i], strlen(schemes[i])) == 0) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "--mirror is '%.200s', expected the address of a folder that begins with "
                    "http://, https:// or file://",
                    address);
}

static lks_status data_download_read_options(download *out, const cli_args *cli, cli_pool *pool)
{
    const char *patience = cli->local[LOCAL_PATIENCE];
    out->patience = PATIENCE;
    if (patience != NULL && (!lki_text_is_float(patience, &out->patience) || out->patience <= 0 ||
                             out->patience > 86400))
        return lks_fail(LKS_E_INVALID,
                        "--patience is '%.60s', expected seconds, more than 0 and at most a day",
                        patience);
    const char **mirrors = pool_alloc(pool, ((size_t)cli->settings + 1) * sizeof *mirrors);
    out->mirrors = mirrors;
    for (int i = 0; i < cli->settings; i++) {
        if (cli->setting[i].option->local != LOCAL_MIRROR) continue;
        const lks_status status = check_mirror(cli->setting[i].text);
        if (status != LKS_OK) return status;
        mirrors[out->mirror_count++] = cli->setting[i].text;
    }
    if (out->mirror_count > 0) return LKS_OK;
    out->mirrors = out->known->mirrors;
    while (out->mirrors[out->mirror_count] != NULL) out->mirror_count++;
    return LKS_OK;
}

lks_status data_download(const cli_args *cli, cli_pool *pool, const lki_published *known,
                         const char *folder)
{
    download d = {.known = known, .folder = folder, .pool = pool};
    lks_status status = data_download_read_options(&d, cli, pool);
    if (status == LKS_OK) status = get_all(&d);
    if (status == LKS_OK) say("%s is complete in %s", known->name, folder);
    return status;
}
