/* lks_dataset_open_pictures(): pictures as they lie in files, without classes. */
#include <inttypes.h>
#include <string.h>

#include <lockstep/data.h>

#include "base/check.h"
#include "data/dataset.h"
#include "data/pictures/layout.h"
#include "data/pictures/packed.h"
#include "data/pictures/picture.h"

typedef struct loose_set {
    lks_context *context;
    lki_pictures pictures;
    const char **name; /* [pictures.count] */
    int height, width;
} loose_set;

/* Called from several threads at once, and once a sample: so nothing is kept between calls. */
static lks_status read_loose(void *user, int64_t index, void *x, void *y)
{
    const loose_set *set = user;
    lki_picture_reader reader = {
        .resize = {.context = set->context, .height = set->height, .width = set->width}};
    const lks_status status = lki_picture_load(x, &reader, set->name[index]);
    lki_picture_reader_free(&reader);
    memset(y, 0, sizeof(int32_t));
    if (status != LKS_E_FORMAT) return status;
    return LKI_FAIL(status, "%s: %s", set->name[index], lks_last_error()->message);
}

static void close_loose(void *user)
{
    loose_set *set = user;
    lki_arena_release(&set->pictures.arena);
    lki_free(set->context, set, sizeof *set);
}

static lks_status list_loose(loose_set *set, const char *what)
{
    void *memory;
    LKI_TRY(lki_pictures_list(&set->pictures, what));
    LKI_TRY(lki_arena_alloc(&set->pictures.arena, &memory,
                            (size_t)set->pictures.count * sizeof *set->name,
                            "the list of pictures"));
    set->name = memory;
    for (int64_t i = 0; i < set->pictures.count; i++) set->name[i] = set->pictures.picture[i].path;
    return LKS_OK;
}

lks_status lks_dataset_open_pictures(lks_dataset **out, lks_context *context, const char *what,
                                     int64_t height, int64_t width, int64_t classes)
{
    void *memory;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (what == NULL) return LKI_FAIL_NULL(what);
    if (height < 1 || height > LKI_PACKED_SIDE || width < 1 || width > LKI_PACKED_SIDE)
        return LKI_FAIL(LKS_E_INVALID,
                        "pictures of %" PRId64 " x %" PRId64
                        " pixels were asked for, expected sides of 1 to %d",
                        width, height, LKI_PACKED_SIDE);
    LKI_TRY(lki_alloc(context, &memory, sizeof(loose_set), "a data set of pictures"));
    loose_set *set = memory;
    *set = (loose_set){.context = context,
                       .pictures.arena.context = context,
                       .height = (int)height,
                       .width = (int)width};
    lks_status status = list_loose(set, what);
    const lks_dataset_ops ops = {.info = {.samples = set->pictures.count,
                                          .shape = LKS_SHAPE(height, width, LKI_PICTURE_CHANNELS),
                                          .dtype = LKS_U8,
                                          .classes = classes > 0 ? classes : 1},
                                 .read = read_loose,
                                 .close = close_loose};
    if (status == LKS_OK) status = lks_dataset_create(out, context, what, &ops, set);
    if (status == LKS_OK)
        lki_dataset_name_samples(*out, set->name);
    else
        close_loose(set);
    return status;
}
