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
    bool grey; /* of one channel */
} loose_set;

/* Pillow's convert("L"): 0.299, 0.587 and 0.114 as multiples of 2^-16, rounded to the nearest. */
static void turn_grey(uint8_t *out, const uint8_t *pixel, size_t count)
{
    for (size_t i = 0; i < count; i++, pixel += LKI_PICTURE_CHANNELS)
        out[i] = (uint8_t)((pixel[0] * 19595U + pixel[1] * 38470U + pixel[2] * 7471U + 0x8000U) >>
                           16);
}

static lks_status load_grey(uint8_t *out, lki_picture_reader *reader, const char *name)
{
    void *memory;
    lks_context *context = reader->resize.context;
    const size_t pixels = (size_t)reader->resize.height * (size_t)reader->resize.width;
    LKI_TRY(lki_alloc(context, &memory, pixels * LKI_PICTURE_CHANNELS, "a picture's colours"));
    const lks_status status = lki_picture_load(memory, reader, name);
    if (status == LKS_OK) turn_grey(out, memory, pixels);
    lki_free(context, memory, pixels * LKI_PICTURE_CHANNELS);
    return status;
}

/* Called from several threads at once, and once a sample: so nothing is kept between calls. */
static lks_status read_loose(void *user, int64_t index, void *x, void *y)
{
    const loose_set *set = user;
    lki_picture_reader reader = {
        .resize = {.context = set->context, .height = set->height, .width = set->width}};
    const lks_status status = (set->grey ? load_grey : lki_picture_load)(x, &reader,
                                                                         set->name[index]);
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

static lks_status check_shape(const lks_shape *shape)
{
    if (shape->ndim != 3)
        return LKI_FAIL(LKS_E_INVALID,
                        "pictures of %d dimensions were asked for, expected height, width and "
                        "channels",
                        shape->ndim);
    const int64_t height = shape->dim[0], width = shape->dim[1], channels = shape->dim[2];
    if (height < 1 || height > LKI_PACKED_SIDE || width < 1 || width > LKI_PACKED_SIDE)
        return LKI_FAIL(LKS_E_INVALID,
                        "pictures of %" PRId64 " x %" PRId64
                        " pixels were asked for, expected sides of 1 to %d",
                        width, height, LKI_PACKED_SIDE);
    if (channels != 1 && channels != LKI_PICTURE_CHANNELS)
        return LKI_FAIL(LKS_E_INVALID,
                        "pictures of %" PRId64 " channels were asked for, expected %d or, for "
                        "grey, 1",
                        channels, LKI_PICTURE_CHANNELS);
    return LKS_OK;
}

lks_status lks_dataset_open_pictures(lks_dataset **out, lks_context *context, const char *what,
                                     const lks_shape *shape, int64_t classes)
{
    void *memory;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (what == NULL) return LKI_FAIL_NULL(what);
    if (shape == NULL) return LKI_FAIL_NULL(shape);
    LKI_TRY(check_shape(shape));
    LKI_TRY(lki_alloc(context, &memory, sizeof(loose_set), "a data set of pictures"));
    loose_set *set = memory;
    *set = (loose_set){.context = context,
                       .pictures.arena.context = context,
                       .height = (int)shape->dim[0],
                       .width = (int)shape->dim[1],
                       .grey = shape->dim[2] == 1};
    lks_status status = list_loose(set, what);
    const lks_dataset_ops ops = {.info = {.samples = set->pictures.count,
                                          .shape = *shape,
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
