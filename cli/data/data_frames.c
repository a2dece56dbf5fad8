/* lockstep data show, stats and check of frames: samples of positions and features that may end before their last position. */
#include <inttypes.h>
#include <stdlib.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/text.h"

enum { FEW = 10, MOST = 10000, SHOWN = 6 /* features of a frame, and classes of positions */ };

bool data_has_frames(const lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    return info.dtype == LKS_F32 && info.shape.ndim == 2 && info.classes > 0;
}

int64_t data_frames_length(const lks_shape *shape, const float *x)
{
    const int64_t features = shape->dim[1];
    int64_t end = shape->dim[0] * features;
    while (end > 0 && x[end - 1] == 0) end--;
    return (end + features - 1) / features;
}

/* A sample and its target, in one block; NULL, with a sentence: there is no memory. */
static float *frames_room(const lks_dataset *data, int32_t **target)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const int64_t elements = lks_shape_elements(&info.shape);
    const int64_t targets = lks_shape_elements(&info.target_shape);
    float *x = malloc((size_t)elements * sizeof *x + (size_t)targets * sizeof **target);
    if (x == NULL) (void)lks_fail(LKS_E_NOMEM, "out of memory for a sample");
    *target = x != NULL ? (int32_t *)(void *)(x + elements) : NULL;
    return x;
}

/* ---------------------------------------------------------------- show */

/* The class of the sample, or those of its first positions. */
static const char *classes_text(cli_pool *pool, const lks_dataset *data, const int32_t *target,
                                int64_t length)
{
    const bool by_position = lks_dataset_get_info(data).target_shape.ndim > 0;
    const int64_t count = by_position ? length : 1;
    const char *text = "";
    for (int64_t i = 0; i < count && i < SHOWN; i++) {
        const char *name = target[i] != LKS_NO_CLASS ? lks_dataset_class(data, target[i]) : "none";
        const char *own = name != NULL ? text_clean(pool, name)
                                       : pool_format(pool, "%" PRId32, target[i]);
        text = pool_format(pool, "%s%s%s", text, i > 0 ? " " : "", own);
    }
    return count > SHOWN ? pool_format(pool, "%s ...", text) : text;
}

static const char *frame_text(cli_pool *pool, const float *frame, int64_t features)
{
    const char *text = "";
    for (int64_t i = 0; i < features && i < SHOWN; i++)
        text = pool_format(pool, "%s%s%.4g", text, i > 0 ? " " : "", (double)frame[i]);
    return features > SHOWN ? pool_format(pool, "%s ...", text) : text;
}

static lks_status show_frames(const data_source *source, cli_pool *pool, int64_t first,
                              int64_t count, int64_t class)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    int64_t shown = 0;
    int32_t *target;
    float *x = frames_room(source->data, &target);
    lks_status status = x != NULL ? LKS_OK : LKS_E_NOMEM;
    for (int64_t i = first; i < info.samples && shown < count && status == LKS_OK; i++) {
        status = lks_dataset_read(source->data, i, x, target);
        if (status != LKS_OK || (class >= 0 && target[0] != class)) continue;
        const int64_t length = data_frames_length(&info.shape, x);
        say("%8" PRId64 "  class %s  %" PRId64 " frame%s%s%s",
            lks_dataset_position(source->data, i), classes_text(pool, source->data, target, length),
            length, TEXT_S(length), length > 0 ? ": " : "",
            length > 0 ? frame_text(pool, x, info.shape.dim[1]) : "");
        shown++;
    }
    free(x);
    if (status != LKS_OK || shown > 0) return status;
    return lks_fail(LKS_E_INVALID,
                    "there is no sample of class %" PRId64 " from number %" PRId64 " on", class,
                    first);
}

lks_status data_frames_show(const data_source *source, const cli_args *cli, const char *what)
{
    static const struct {
        cli_local option;
        const char *name;
    } of_images[] = {{LOCAL_OUT, "out"}, {LOCAL_AUGMENT, "augment"}, {LOCAL_EPOCH, "epoch"}};
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const bool one = info.target_shape.ndim == 0;
    char number[TEXT_NUMBER_SIZE];
    int64_t first = 0, count = FEW, class = -1;
    for (size_t i = 0; i < sizeof of_images / sizeof *of_images; i++)
        if (cli->local[of_images[i].option] != NULL)
            return lks_fail(LKS_E_INVALID, "--%s is for images, but %.200s has frames; drop it",
                            of_images[i].name, what);
    if (!one && cli->local[LOCAL_CLASS] != NULL)
        return lks_fail(LKS_E_INVALID, "--class: each position of %.200s has a class; drop it",
                        what);
    lks_status status = data_read_number(&first, cli, LOCAL_FIRST, "first", 0, info.samples - 1);
    if (status == LKS_OK) status = data_read_number(&count, cli, LOCAL_COUNT, "count", 1, MOST);
    if (status == LKS_OK)
        status = data_read_number(&class, cli, LOCAL_CLASS, "class", 0, info.classes - 1);
    if (status != LKS_OK) return status;
    say("%s: of %s %s samples of %" PRId64 " frames of %" PRId64
        " features, each with its number, %s, how many frames are no padding, and the first",
        text_clean(cli->pool, what), lks_text_count(number, info.samples), source->split,
        info.shape.dim[0], info.shape.dim[1], one ? "class" : "classes of frames");
    return show_frames(source, cli->pool, first, count, class);
}

/* ---------------------------------------------------------------- stats, check */

lks_status data_frames_say_lengths(lks_dataset *data)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    int64_t least = INT64_MAX, most = 0, all = 0, empty = 0;
    char number[3][TEXT_NUMBER_SIZE];
    int32_t *target;
    float *x = frames_room(data, &target);
    lks_status status = x != NULL ? LKS_OK : LKS_E_NOMEM;
    for (int64_t i = 0; i < info.samples && status == LKS_OK; i++) {
        status = lks_dataset_read(data, i, x, target);
        if (status != LKS_OK) break;
        const int64_t length = data_frames_length(&info.shape, x);
        if (length < least) least = length;
        if (length > most) most = length;
        all += length;
        empty += length == 0;
    }
    free(x);
    if (status != LKS_OK) return status;
    say("lengths  %s to %s frames, %.1f on average", lks_text_count(number[0], least),
        lks_text_count(number[1], most), (double)all / (double)info.samples);
    if (empty > 0)
        say("empty    %s sample%s of padding alone", lks_text_count(number[2], empty),
            TEXT_S(empty));
    return LKS_OK;
}
