#include "data/pictures/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/file.h"
#include "data/pictures/picture.h"
#include "numeric/hash.h"

enum { TRIES = 100 };

/* ---------------------------------------------------------------- bytes at places */

static lks_status put_bytes(const lki_part *part, const void *data, size_t bytes, size_t place)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        const ssize_t done = pwrite(part->descriptor, from, bytes, (off_t)place);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return lki_fail_io("write", part->path, errno);
        from += done;
        bytes -= (size_t)done;
        place += (size_t)done;
    }
    return LKS_OK;
}

/* False where there are not so many. */
static lks_status get_bytes(bool *whole, const lki_part *part, void *data, size_t bytes,
                            size_t place)
{
    uint8_t *to = data;
    *whole = false;
    while (bytes > 0) {
        const ssize_t done = pread(part->descriptor, to, bytes, (off_t)place);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return lki_fail_io("read", part->path, errno);
        if (done == 0) return LKS_OK;
        to += done;
        bytes -= (size_t)done;
        place += (size_t)done;
    }
    *whole = true;
    return LKS_OK;
}

/* ---------------------------------------------------------------- what the file begins with */

/* Of every picture, where and which it is, so that what was packed of others is not taken for it. */
static uint64_t identify(const lki_pictures *pictures)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < pictures->count; i++) {
        const lki_picture *p = &pictures->picture[i];
        struct stat about = {.st_size = -1}; /* one that is not there is bad, like others */
        if (stat(p->path, &about) != 0) about.st_size = -1;
        const int64_t file[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
        hash = lki_hash_link(hash, p->label, lki_hash(p->path, strlen(p->path)));
        hash = lki_hash_link(hash, i, lki_hash(file, sizeof file));
    }
    return hash | 1;
}

static lks_status make_front(lki_part *part, const lki_pictures *pictures, int height, int width)
{
    void *memory;
    part->head = (lki_packed_head){
        .magic = LKI_PACKED_MAGIC,
        .height = (uint32_t)height,
        .width = (uint32_t)width,
        .channels = LKI_PICTURE_CHANNELS,
        .classes = (uint32_t)pictures->classes,
        .slots = {(uint64_t)pictures->split[0], (uint64_t)pictures->split[1]}};
    for (int64_t c = 0; c < pictures->classes; c++)
        part->head.name_bytes += strlen(pictures->name[c]) + 1;
    part->head.source = identify(pictures);
    if (!lki_packed_place(&part->at, &part->head))
        return LKI_FAIL(LKS_E_INVALID, "so many pictures of %d x %d pixels do not fit into a file",
                        width, height);
    LKI_TRY(lki_alloc(part->context, &memory, part->at.slots, "what packed pictures begin with"));
    part->front = memory;
    part->label = (int32_t *)(void *)(part->front + part->at.labels);
    part->check = (uint64_t *)(void *)(part->front + part->at.checks);
    memcpy(part->front, &part->head, sizeof part->head);
    char *name = (char *)part->front + part->at.names;
    for (int64_t c = 0; c < pictures->classes; c++) name = stpcpy(name, pictures->name[c]) + 1;
    for (int64_t i = 0; i < pictures->count; i++) part->label[i] = pictures->picture[i].label;
    return LKS_OK;
}

/* ---------------------------------------------------------------- the .part */

/* The file that is locked still has its name: whoever had the lock before may have given it its last one. */
static bool part_is_in_place(const lki_part *part)
{
    struct stat locked, named;
    return fstat(part->descriptor, &locked) == 0 && stat(part->path, &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

static lks_status take_part(lki_part *part)
{
    for (int i = 0; i < TRIES; i++) {
        part->descriptor = open(part->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (part->descriptor < 0) return lki_fail_io("write", part->path, errno);
        const int error = lki_lock(part->descriptor);
        if (error == EWOULDBLOCK) {
            close(part->descriptor);
            part->descriptor = -1;
            return LKI_FAIL(
                LKS_E_IO,
                "'%.300s' is being written by another process that packs pictures; wait "
                "for its end, or give another folder",
                part->path);
        }
        if (error != 0)
            lki_log_line(part->context, LKS_LOG_WARN,
                         "'%.300s' cannot be locked on its file system (%s): see that nobody else "
                         "packs pictures there",
                         part->path, strerror(error));
        if (part_is_in_place(part)) return LKS_OK;
        close(part->descriptor);
        part->descriptor = -1;
    }
    return LKI_FAIL(LKS_E_IO, "'%.300s' cannot be locked: others take and leave it all the time",
                    part->path);
}

/* Goes on where all that is known beforehand is as it was; *same: it is. */
static lks_status look_at_earlier(bool *same, lki_part *part)
{
    void *memory;
    const size_t bytes = part->at.slots;
    struct stat about;
    *same = false;
    if (fstat(part->descriptor, &about) != 0) return lki_fail_io("read", part->path, errno);
    if (about.st_size == 0) return LKS_OK;
    LKI_TRY(lki_alloc(part->context, &memory, bytes, "what an earlier run has packed"));
    lks_status status = get_bytes(same, part, memory, bytes, 0);
    *same = *same && status == LKS_OK && (size_t)about.st_size == part->at.end &&
            memcmp(memory, part->front, part->at.checks) == 0;
    if (*same) {
        memcpy(part->check, (uint8_t *)memory + part->at.checks, bytes - part->at.checks);
    } else if (status == LKS_OK) {
        lki_log_line(part->context, LKS_LOG_WARN,
                     "'%.300s' was begun with other pictures or options: packing begins anew",
                     part->path);
    }
    lki_free(part->context, memory, bytes);
    return status;
}

/* The head comes last, so that a file that has it has all else. Space is asked for at once, so that a disk that is too
 * small says so now. */
static lks_status begin(lki_part *part)
{
    const size_t head = sizeof part->head;
    part->begun = true;
    if (ftruncate(part->descriptor, 0) != 0) return lki_fail_io("write", part->path, errno);
    int error;
    do error = posix_fallocate(part->descriptor, 0, (off_t)part->at.end);
    while (error == EINTR);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL && error != ENOSYS)
        return lki_fail_io("write", part->path, error);
    if (error != 0 && ftruncate(part->descriptor, (off_t)part->at.end) != 0)
        return lki_fail_io("write", part->path, errno);
    LKI_TRY(put_bytes(part, part->front + head, part->at.slots - head, head));
    return put_bytes(part, part->front, head, 0);
}

static lks_status name_files(lki_part *part, const char *folder)
{
    const char *name = part->target;
    snprintf(part->folder, sizeof part->folder, "%s", folder);
    const int length = snprintf(part->target, sizeof part->target, "%s/%s", folder,
                                LKI_PACKED_FILE);
    const int longer = snprintf(part->path, sizeof part->path, "%s/%s.part", folder,
                                LKI_PACKED_FILE);
    return length < longer && longer < PATH_MAX ? LKS_OK : lki_fail_io("write", name, ENAMETOOLONG);
}

lks_status lki_part_open(lki_part *part, lks_context *context, const char *folder,
                         const lki_pictures *pictures, int height, int width)
{
    *part = (lki_part){.context = context, .descriptor = -1};
    LKI_TRY(name_files(part, folder));
    LKI_TRY(make_front(part, pictures, height, width));
    LKI_TRY(lki_folder_make(folder));
    LKI_TRY(take_part(part));
    if (access(part->target, F_OK) == 0)
        return LKI_FAIL(LKS_E_IO, "'%.300s' is there already; remove it, or give another folder",
                        part->target);
    LKI_TRY(look_at_earlier(&part->resumed, part));
    return part->resumed ? LKS_OK : begin(part);
}

lks_status lki_part_has(bool *out, lki_part *part, int64_t slot, uint8_t *room)
{
    const size_t bytes = part->at.slot_bytes;
    *out = false;
    if (part->check[slot] == 0) return LKS_OK;
    LKI_TRY(get_bytes(out, part, room, bytes, part->at.slots + (size_t)slot * bytes));
    *out = *out && lki_packed_check(room, bytes) == part->check[slot];
    if (!*out) part->check[slot] = 0;
    return LKS_OK;
}

lks_status lki_part_put(lki_part *part, int64_t slot, const uint8_t *bytes)
{
    const size_t size = part->at.slot_bytes;
    LKI_TRY(put_bytes(part, bytes, size, part->at.slots + (size_t)slot * size));
    part->check[slot] = lki_packed_check(bytes, size);
    return put_bytes(part, &part->check[slot], sizeof *part->check,
                     part->at.checks + (size_t)slot * sizeof *part->check);
}

/* Slots are on the disk before what says that they are all. */
lks_status lki_part_finish(lki_part *part)
{
    for (int64_t i = 0; i < part->at.count; i++)
        if (part->check[i] == 0) part->label[i] = -1;
    part->head.source = 0;
    memcpy(part->front, &part->head, sizeof part->head);
    part->head.digest = lki_packed_digest(part->front, part->at.slots);
    memcpy(part->front, &part->head, sizeof part->head);
    if (fsync(part->descriptor) != 0) return lki_fail_io("write", part->path, errno);
    LKI_TRY(put_bytes(part, part->front, part->at.slots, 0));
    if (fsync(part->descriptor) != 0 || rename(part->path, part->target) != 0)
        return lki_fail_io("write", part->target, errno);
    const int folder = open(part->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return LKS_OK;
    (void)fsync(folder); /* so that the new name survives a crash of the machine */
    close(folder);
    return LKS_OK;
}

void lki_part_leave(lki_part *part)
{
    struct stat about;
    if (part->front == NULL) return;
    if (part->descriptor >= 0) {
        bool done = false;
        for (int64_t i = 0; i < part->at.count && !done; i++) done = part->check[i] != 0;
        const bool empty = fstat(part->descriptor, &about) == 0 && about.st_size == 0;
        if (empty || (part->begun && !done))
            unlink(part->path); /* while it is locked, so that it is ours */
        close(part->descriptor);
    }
    lki_free(part->context, part->front, part->at.slots);
    part->front = NULL;
}
