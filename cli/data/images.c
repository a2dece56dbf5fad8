#include "cli/data/images.h"

#include <stdio.h>
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

lks_status images_open(lks_dataset **out, const lks_recipe_parts *parts, const char *images)
{
    const lks_shape *wanted = &parts->data.shape;
    const kind is = kind_of(images);
    char text[2][64];
    lks_status status;
    *out = NULL;
    if (is == KIND_PICTURES && wanted->ndim != 3)
        return lks_fail(LKS_E_SHAPE,
                        "pictures were given (%.300s), but a sample of the data is %s, without "
                        "rows, columns and channels; expected a file of such samples",
                        images, data_shape_text(text[0], wanted));
    lks_shape pictures = *wanted; /* which are grey where the data is, else of three colours */
    if (is == KIND_PICTURES && pictures.dim[2] != 1) pictures.dim[2] = 3;
    if (is == KIND_PICTURES)
        status = lks_dataset_open_pictures(out, parts->context, images, &pictures,
                                           parts->data.classes);
    else
        status = (is == KIND_NUMPY ? lks_dataset_open_npy : lks_dataset_open_idx)(
            out, parts->context, images, NULL, parts->data.classes);
    if (status != LKS_OK) return status;
    const lks_dataset_info found = lks_dataset_get_info(*out);
    if (found.dtype != parts->data.dtype)
        return lks_fail(LKS_E_SHAPE, "samples of %s are %s, but those of the data are %s", images,
                        lks_dtype_name(found.dtype), lks_dtype_name(parts->data.dtype));
    if (lks_shape_equal(&found.shape, wanted)) return LKS_OK;
    return lks_fail(
        LKS_E_SHAPE, "%.300s gives %s, the data is %s; expected a file of such samples%s", images,
        data_shape_text(text[0], &found.shape), data_shape_text(text[1], wanted),
        is != KIND_PICTURES && wanted->ndim == 3 && (wanted->dim[2] == 1 || wanted->dim[2] == 3)
            ? ", or pictures (JPEG, PNG), which become as large as these"
            : "");
}
