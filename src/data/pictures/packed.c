/* Packed pictures as a data set. */
#include "data/pictures/packed.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/format.h"
#include "data/pictures/picture.h"
#include "numeric/hash.h"

_Static_assert(sizeof(lki_packed_head) == 64, "the head has no holes");

/* ---------------------------------------------------------------- the file */

uint64_t lki_packed_check(const uint8_t *slot, size_t bytes)
{
    return lki_hash(slot, bytes) | 1;
}

uint64_t lki_packed_digest(const uint8_t *front, size_t bytes)
{
    lki_packed_head head;
    memcpy(&head, front, sizeof head);
    head.digest = 0;
    const uint64_t first = lki_hash(&head, sizeof head);
    return lki_hash_link(first, 0, lki_hash(front + sizeof head, bytes - sizeof head));
}

static size_t to_eight(size_t bytes)
{
    return bytes <= SIZE_MAX - 7 ? (bytes + 7) & ~(size_t)7 : SIZE_MAX;
}

bool lki_packed_place(lki_packed_places *out, const lki_packed_head *head)
{
    const uint64_t most = (uint64_t)1 << 40;
    *out = (lki_packed_places){.names = sizeof *head};
    if (memcmp(head->magic, LKI_PACKED_MAGIC, sizeof head->magic) != 0 || head->height < 1 ||
        head->height > LKI_PACKED_SIDE || head->width < 1 || head->width > LKI_PACKED_SIDE ||
        head->channels != LKI_PICTURE_CHANNELS || head->classes < 1 ||
        head->classes > LKI_PACKED_CLASSES || head->slots[0] < 1 || head->slots[0] > most ||
        head->slots[1] > most || head->name_bytes > most)
        return false;
    const size_t count = (size_t)(head->slots[0] + head->slots[1]);
    out->count = (int64_t)count;
    out->slot_bytes = (size_t)head->height * head->width * head->channels;
    out->labels = to_eight(lki_plus(out->names, (size_t)head->name_bytes));
    out->checks = to_eight(lki_plus(out->labels, lki_times(count, sizeof(int32_t))));
    out->slots = lki_align(lki_plus(out->checks, lki_times(count, sizeof(uint64_t))));
    out->end = lki_plus(out->slots, lki_times(count, out->slot_bytes));
    return out->end <= PTRDIFF_MAX;
}

static lks_status fail_packed(const char *path, const char *found)
{
    return LKI_FAIL(LKS_E_FORMAT, "'%.300s' %s; remove it and run 'lockstep data pack' again", path,
                    found);
}

/* As many names as classes, each with its zero byte. */
static bool names_are_whole(const lki_packed *p)
{
    uint64_t found = 0;
    const uint8_t *name = p->data + p->at.names;
    for (uint64_t i = 0; i < p->head.name_bytes; i++) found += name[i] == 0;
    return found == p->head.classes && p->head.name_bytes > 0 && name[p->head.name_bytes - 1] == 0;
}

lks_status lki_packed_read(lki_packed *out, const uint8_t *data, size_t bytes, const char *path)
{
    *out = (lki_packed){.data = data};
    if (bytes < sizeof out->head) return fail_packed(path, "is too short for packed pictures");
    memcpy(&out->head, data, sizeof out->head);
    if (memcmp(out->head.magic, LKI_PACKED_MAGIC, sizeof out->head.magic) != 0)
        return fail_packed(path, "does not begin as packed pictures of this version do");
    if (out->head.digest == 0) return fail_packed(path, "was not packed to its end");
    if (!lki_packed_place(&out->at, &out->head) || out->at.end != bytes ||
        lki_packed_digest(data, out->at.slots) != out->head.digest)
        return fail_packed(path, "is damaged or cut off");
    if (!names_are_whole(out)) return fail_packed(path, "has not a name for each class");
    out->label = (const int32_t *)(const void *)(data + out->at.labels);
    out->check = (const uint64_t *)(const void *)(data + out->at.checks);
    for (int64_t i = 0; i < out->at.count; i++)
        if (out->label[i] < -1 || out->label[i] >= (int64_t)out->head.classes)
            return fail_packed(path, "has a label that is no class");
    return LKS_OK;
}

/* ---------------------------------------------------------------- the data set */

typedef struct packed_set {
    lks_context *context;
    lki_file file;
    lki_packed packed;
    int64_t *slot; /* of each sample */
    const char **name;
    size_t bytes; /* of this and what it points to */
    char path[PATH_MAX];
} packed_set;

static lks_status read_packed(void *user, int64_t index, void *x, void *y)
{
    const packed_set *set = user;
    const lki_packed *p = &set->packed;
    const int64_t slot = set->slot[index];
    memcpy(x, p->data + p->at.slots + (size_t)slot * p->at.slot_bytes, p->at.slot_bytes);
    memcpy(y, &p->label[slot], sizeof(int32_t));
    if (lki_packed_check(x, p->at.slot_bytes) == p->check[slot]) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%.300s' is damaged in slot %" PRId64
                    "; remove it and run 'lockstep data pack' again",
                    set->path, slot);
}

static void close_packed(void *user)
{
    packed_set *set = user;
    lki_file_close(&set->file);
    lki_free(set->context, set, set->bytes);
}

/* Slots that have a picture, and where each class's name is; returns how many samples there are. */
static int64_t fill_lists(packed_set *set, bool test_split)
{
    const lki_packed *p = &set->packed;
    const int64_t middle = (int64_t)p->head.slots[0];
    int64_t samples = 0;
    for (int64_t i = test_split ? middle : 0; i < (test_split ? p->at.count : middle); i++)
        if (p->label[i] >= 0) set->slot[samples++] = i;
    const char *name = (const char *)p->data + p->at.names;
    for (uint32_t c = 0; c < p->head.classes; c++, name += strlen(name) + 1) set->name[c] = name;
    return samples;
}

static lks_status open_set(packed_set **out, lks_context *context, lki_file *file, const char *path,
                           bool test_split)
{
    lki_packed packed;
    void *memory;
    LKI_TRY(lki_packed_read(&packed, file->data, file->bytes, path));
    const size_t slots = (size_t)packed.head.slots[test_split] * sizeof(int64_t),
                 begin = lki_align(sizeof(packed_set)),
                 bytes = begin + slots + packed.head.classes * sizeof(char *);
    LKI_TRY(lki_alloc(context, &memory, bytes, "the list of packed pictures"));
    packed_set *set = memory;
    *set = (packed_set){.context = context, .file = *file, .packed = packed, .bytes = bytes};
    set->slot = (int64_t *)(void *)((uint8_t *)memory + begin);
    set->name = (const char **)(void *)((uint8_t *)memory + begin + slots);
    snprintf(set->path, sizeof set->path, "%s", path);
    *out = set;
    return LKS_OK;
}

static lks_status packed_open(lks_dataset **out, lks_context *context, const char *folder,
                              bool test_split, int64_t classes)
{
    char path[PATH_MAX];
    lki_file file;
    packed_set *set;
    *out = NULL;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, LKI_PACKED_FILE);
    if (length >= PATH_MAX) return lki_fail_io("open", folder, ENAMETOOLONG);
    LKI_TRY(lki_file_open(&file, context, path));
    lks_status status = open_set(&set, context, &file, path, test_split);
    if (status != LKS_OK) {
        lki_file_close(&file);
        return status;
    }
    const lki_packed_head *head = &set->packed.head;
    const lks_dataset_ops ops = {
        .info = {.samples = fill_lists(set, test_split),
                 .shape = LKS_SHAPE(head->height, head->width, head->channels),
                 .dtype = LKS_U8,
                 .classes = classes > 0 ? classes : head->classes},
        .read = read_packed,
        .close = close_packed};
    if (classes > 0 && classes < head->classes)
        status = LKI_FAIL(LKS_E_INVALID,
                          "'%.300s' has %" PRIu32 " classes, but %" PRId64
                          " were asked for (data.classes)",
                          path, head->classes, classes);
    if (status == LKS_OK) status = lks_dataset_create(out, context, path, &ops, set);
    if (status != LKS_OK) {
        close_packed(set);
        return status;
    }
    lki_dataset_name_classes(*out, set->name, head->classes);
    return LKS_OK;
}

/* Of a file that is none, the training split: opening it says what is wrong. */
static bool packed_has(const char *folder, bool test_split)
{
    char path[PATH_MAX];
    lki_packed_head head = {.slots = {0}};
    const int length = snprintf(path, sizeof path, "%s/%s", folder, LKI_PACKED_FILE);
    FILE *file = length < PATH_MAX ? fopen(path, "rbe") : NULL;
    if (file == NULL) return false;
    const bool whole = fread(&head, sizeof head, 1, file) == 1;
    fclose(file);
    return !test_split || (whole && head.slots[1] > 0);
}

const lki_data_format lki_packed_format = {
    .files = {LKI_PACKED_FILE " (which 'lockstep data pack' makes of pictures)", LKI_PACKED_FILE
              " with test pictures (of 'lockstep data pack' with a folder val, or with --split)"},
    .has = packed_has,
    .open = packed_open,
};
