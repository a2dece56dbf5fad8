#include "cli/data/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/data/data.h"
#include "cli/out/text.h"

typedef enum kind { KIND_PICTURES, KIND_NUMPY, KIND_IDX } kind;

/* Pictures that are not read are among them, as opening them says what they are. */
static const struct {
    const char *with;
    size_t from, count;
    kind kind;
} signs[] = {{"\xff\xd8\xff", 0, 3, KIND_PICTURES}, {"\x89PNG", 0, 4, KIND_PICTURES},
             {"GIF8", 0, 4, KIND_PICTURES},         {"RIFF", 0, 4, KIND_PICTURES},
             {"BM", 0, 2, KIND_PICTURES},           {"II*\0", 0, 4, KIND_PICTURES},
             {"MM\0*", 0, 4, KIND_PICTURES},        {"ftyp", 4, 4, KIND_PICTURES},
             {"%PDF", 0, 4, KIND_PICTURES},         {"\x93NUMPY", 0, 6, KIND_NUMPY}};

/* By its first bytes; where they say nothing, by its name. */
static kind kind_of(const char *images)
{
    static const char *const names[] = {".jpg",  ".jpeg", ".jpe",  ".jfif", ".png",  ".gif", ".bmp",
                                        ".webp", ".tif",  ".tiff", ".heic", ".avif", ".svg", NULL},
                             *const numpy[] = {".npy", NULL};
    char first[8];
    struct stat about;
    const bool there = stat(images, &about) == 0;
    if (there && S_ISDIR(about.st_mode)) return KIND_PICTURES;
    FILE *file = there && S_ISREG(about.st_mode) ? fopen(images, "rb") : NULL;
    const size_t count = file != NULL ? fread(first, 1, sizeof first, file) : 0;
    if (file != NULL) fclose(file);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (count >= signs[i].from + signs[i].count &&
            memcmp(first + signs[i].from, signs[i].with, signs[i].count) == 0)
            return signs[i].kind;
    if (text_has_end(names, images)) return KIND_PICTURES;
    return text_has_end(numpy, images) ? KIND_NUMPY : KIND_IDX;
}

static lks_status open_as(cli_images *out, const lks_recipe_parts *parts, const char *what, kind is)
{
    if (is != KIND_PICTURES)
        return (is == KIND_NUMPY ? lks_dataset_open_npy : lks_dataset_open_idx)(
            &out->data, parts->context, what, NULL, parts->data.classes);
    lks_shape shape = parts->data.shape; /* grey where the data is, else of three colours */
    if (shape.dim[2] != 1) shape.dim[2] = 3;
    return lks_dataset_open_pictures(&out->data, parts->context, what, &shape, parts->data.classes);
}

static lks_status check_samples(const cli_images *of, const lks_recipe_parts *parts,
                                const char *what, kind is)
{
    const lks_shape *wanted = &parts->data.shape;
    const lks_dataset_info found = lks_dataset_get_info(of->data);
    char text[2][64];
    if (found.dtype != parts->data.dtype)
        return lks_fail(LKS_E_SHAPE, "samples of %s are %s, but those of the data are %s", what,
                        lks_dtype_name(found.dtype), lks_dtype_name(parts->data.dtype));
    if (lks_shape_equal(&found.shape, wanted)) return LKS_OK;
    return lks_fail(
        LKS_E_SHAPE, "%.300s gives %s, the data is %s; expected a file of such samples%s", what,
        data_shape_text(text[0], &found.shape), data_shape_text(text[1], wanted),
        is != KIND_PICTURES && wanted->ndim == 3 && (wanted->dim[2] == 1 || wanted->dim[2] == 3)
            ? ", or pictures (JPEG, PNG), which become as large as these"
            : "");
}

/* Why a picture is bad, without the data set and the number that reading it adds. */
static const char *bad_reason(const lks_dataset *data, int64_t index)
{
    const char *message = lks_last_error()->message, *name = lks_dataset_sample(data, index);
    const char *at = name != NULL ? strstr(message, name) : NULL;
    while (at != NULL && strncmp(at + strlen(name), ": ", 2) != 0) at = strstr(at + 1, name);
    return at != NULL ? at : message;
}

/* Called from several threads at once. */
static lks_status read_or_note(void *user, int64_t index, void *x, void *y)
{
    const cli_images *of = user;
    const lks_status status = lks_dataset_read(of->data, index, x, y);
    if (status != LKS_E_FORMAT) return status;
    const lks_dataset_info info = lks_dataset_get_info(of->data);
    char *reason = strdup(bad_reason(of->data, index)), *none = NULL;
    if (reason == NULL) return lks_fail(LKS_E_NOMEM, "no memory for what is wrong with a picture");
    if (!atomic_compare_exchange_strong(&of->bad[index], &none, reason)) free(reason);
    memset(x, 0, (size_t)lks_shape_elements(&info.shape) * lks_dtype_size(info.dtype));
    memset(y, 0, sizeof(int32_t));
    return LKS_OK;
}

static lks_status note_bad_ones(cli_images *of, const lks_recipe_parts *parts, const char *what)
{
    const lks_dataset_ops ops = {.info = lks_dataset_get_info(of->data), .read = read_or_note};
    of->bad = calloc((size_t)ops.info.samples, sizeof *of->bad);
    if (of->bad == NULL) return lks_fail(LKS_E_NOMEM, "no memory for what is wrong with pictures");
    return lks_dataset_create(&of->read, parts->context, what, &ops, of);
}

lks_status images_open(cli_images *out, const lks_recipe_parts *parts, const char *what)
{
    const kind is = kind_of(what);
    char text[64];
    *out = (cli_images){.data = NULL};
    if (is == KIND_PICTURES && parts->data.shape.ndim != 3)
        return lks_fail(LKS_E_SHAPE,
                        "pictures were given (%.300s), but a sample of the data is %s, without "
                        "rows, columns and channels; expected a file of such samples",
                        what, data_shape_text(text, &parts->data.shape));
    lks_status status = open_as(out, parts, what, is);
    if (status == LKS_OK) status = check_samples(out, parts, what, is);
    if (status == LKS_OK && is == KIND_PICTURES) return note_bad_ones(out, parts, what);
    out->read = out->data;
    return status;
}

void images_close(cli_images *images)
{
    const int64_t samples = images->bad != NULL ? lks_dataset_get_info(images->data).samples : 0;
    if (images->read != images->data) lks_dataset_destroy(images->read);
    for (int64_t i = 0; i < samples; i++) free(images->bad[i]);
    free(images->bad);
    lks_dataset_destroy(images->data);
}
