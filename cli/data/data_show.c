/* lockstep data show: samples as a sheet. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/output.h"
#include "cli/out/sheet.h"
#include "cli/out/text.h"

enum { FEW = 10, MANY = 100, MOST = 10000, MOST_EPOCHS = 1000000 };

typedef struct choice {
    int64_t first, count, label; /* label < 0: any */
    int64_t epoch;               /* from 0, of the loader */
    lks_loader *loader;          /* of augmented samples; NULL: they are shown as they are */
} choice;

static lks_status read_choice(choice *out, const cli_args *cli, const lks_dataset_info *info)
{
    *out = (choice){.count = cli->local[LOCAL_OUT] != NULL ? MANY : FEW, .label = -1, .epoch = 1};
    if (cli->local[LOCAL_AUGMENT] == NULL && cli->local[LOCAL_EPOCH] != NULL)
        return lks_fail(LKS_E_INVALID,
                        "--epoch is for --augment; samples as they are do not change");
    lks_status status = data_read_number(&out->first, cli, LOCAL_FIRST, "first", 0,
                                         info->samples - 1);
    if (status == LKS_OK)
        status = data_read_number(&out->label, cli, LOCAL_CLASS, "class", 0, info->classes - 1);
    if (status == LKS_OK)
        status = data_read_number(&out->count, cli, LOCAL_COUNT, "count", 1, MOST);
    if (status == LKS_OK)
        status = data_read_number(&out->epoch, cli, LOCAL_EPOCH, "epoch", 1, MOST_EPOCHS);
    out->epoch--;
    const int64_t left = info->samples - out->first;
    if (out->count > left) out->count = left;
    return status;
}

/* A loader of single samples as the recipe's training sees them. */
static lks_status open_augmented(lks_loader **out, const cli_args *cli, const data_source *source)
{
    lks_loader_opts opts = {.global_batch = 1, .in_order = true, .threads = -1};
    if (cli->local[LOCAL_TEST] != NULL)
        return lks_fail(LKS_E_INVALID, "--augment: test samples are seen as they are; drop --test");
    lks_status status = lks_recipe_augment(source->recipe, &opts);
    if (status == LKS_OK && opts.augmentations == 0 && opts.mixup == 0)
        return lks_fail(LKS_E_INVALID,
                        "--augment needs a configuration that has data.augment or data.mixup, such "
                        "as data: {augment: [crop: 4, flip]}");
    return status == LKS_OK ? lks_loader_create(out, source->context, source->data, &opts) : status;
}

static lks_status read_augmented(const choice *chosen, const lks_dataset_info *info, int64_t number,
                                 uint8_t *pixels, int32_t *label)
{
    lks_batch batch;
    lks_status status = lks_loader_seek(chosen->loader, chosen->epoch * info->samples + number);
    if (status == LKS_OK) status = lks_loader_next(chosen->loader, &batch);
    if (status != LKS_OK) return status;
    memcpy(pixels, batch.x, (size_t)lks_shape_elements(&info->shape) * lks_dtype_size(info->dtype));
    memcpy(label, batch.y, sizeof *label);
    return LKS_OK;
}

/* Floats as bytes: 0..1 where all are in it, else from the least to the largest of those that are shown. */
static void as_bytes(uint8_t *out, const float *from, int64_t count)
{
    float least = 0, most = 1;
    for (int64_t i = 0; i < count; i++) {
        least = fminf(least, from[i]);
        most = fmaxf(most, from[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        const float share = (from[i] - least) / (most - least);
        out[i] = share >= 0 && share <= 1 ? (uint8_t)(255 * share + 0.5f) : 0;
    }
}

/* The chosen samples; sheet->count is then how many there were. `target` is room for one. */
static lks_status collect(cli_sheet *sheet, uint8_t *pixels, int32_t *labels, int32_t *target,
                          lks_dataset *data, const choice *chosen)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const size_t bytes = (size_t)lks_shape_elements(&info.shape) * lks_dtype_size(info.dtype);
    const bool labelled = info.classes > 0 && info.target_shape.ndim == 0;
    for (int64_t i = chosen->first; i < info.samples && sheet->count < chosen->count; i++) {
        int32_t *label = &labels[sheet->count];
        uint8_t *sample = pixels + (size_t)sheet->count * bytes;
        const lks_status status = chosen->loader == NULL
                                      ? lks_dataset_read(data, i, sample, target)
                                      : read_augmented(chosen, &info, i, sample, target);
        if (status != LKS_OK) return status;
        *label = labelled ? *target : LKS_NO_CLASS;
        if (chosen->label < 0 || *label == chosen->label) sheet->count++;
    }
    if (sheet->count > 0) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "there is no sample of class %lld from number %lld on",
                    (long long)chosen->label, (long long)chosen->first);
}

static const char *title_of(cli_pool *pool, const data_source *source, const char *what,
                            const cli_sheet *sheet, const choice *chosen)
{
    char count[TEXT_NUMBER_SIZE], all[TEXT_NUMBER_SIZE], first[TEXT_NUMBER_SIZE];
    const char *from = "", *class = "", *seen = "";
    if (chosen->first > 0)
        from = pool_format(pool, ", from number %s on", lks_text_count(first, chosen->first));
    if (chosen->label >= 0) class = pool_format(pool, ", class %lld", (long long)chosen->label);
    if (chosen->loader != NULL)
        seen = pool_format(pool, ", as epoch %lld sees them", (long long)chosen->epoch + 1);
    return pool_format(pool, "%s: %s of %s %s samples%s%s%s", text_clean(pool, what),
                       lks_text_count(count, sheet->count),
                       lks_text_count(all, lks_dataset_get_info(source->data).samples),
                       source->split, class, from, seen);
}

static lks_status data_show_show(const cli_args *cli, const data_source *source, const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const char *out = cli->local[LOCAL_OUT];
    choice chosen;
    char shape[64];
    if (data_has_sentences(source->data)) return data_sentences_show(source, cli, what);
    if (lks_dataset_tokenizer(source->data) != NULL) return data_text_show(source, cli, what);
    if (data_has_frames(source->data)) return data_frames_show(source, cli, what);
    if (info.shape.ndim != 3)
        return lks_fail(LKS_E_UNSUPPORTED,
                        "samples of %s are no images; expected rows, columns, and channels",
                        data_shape_text(shape, &info.shape));
    if (info.classes == 0 && cli->local[LOCAL_CLASS] != NULL)
        return lks_fail(LKS_E_INVALID, "--class: targets of %s are numbers, no classes; drop it",
                        what);
    lks_status status = sheet_check_name("--out", out);
    if (status == LKS_OK) status = read_choice(&chosen, cli, &info);
    if (status == LKS_OK && cli->local[LOCAL_AUGMENT] != NULL)
        status = open_augmented(&chosen.loader, cli, source);
    if (status != LKS_OK) return status;
    cli_sheet sheet = {.height = (int)info.shape.dim[0],
                       .width = (int)info.shape.dim[1],
                       .channels = (int)info.shape.dim[2],
                       .classes = cli_class_names(cli->pool, source->data)};
    const size_t elements = (size_t)(chosen.count * lks_shape_elements(&info.shape));
    uint8_t *pixels = malloc(elements * lks_dtype_size(info.dtype));
    const int64_t targets = lks_shape_elements(&info.target_shape);
    int32_t *labels = malloc((size_t)(chosen.count + targets) * sizeof *labels);
    if (pixels == NULL || labels == NULL)
        status = lks_fail(LKS_E_NOMEM, "out of memory for %lld sample%s", (long long)chosen.count,
                          TEXT_S(chosen.count));
    if (status == LKS_OK)
        status = collect(&sheet, pixels, labels, labels + chosen.count, source->data, &chosen);
    if (status == LKS_OK) {
        sheet.title = title_of(cli->pool, source, what, &sheet, &chosen);
        if (info.dtype == LKS_F32) /* in place: a byte is written where no float is left to read */
            as_bytes(pixels, (const float *)(void *)pixels,
                     sheet.count * lks_shape_elements(&info.shape));
        sheet.pixels = pixels;
        sheet.labels = labels;
        if (out == NULL)
            sheet_print(&sheet);
        else
            status = sheet_write_png(&sheet, out);
    }
    if (status == LKS_OK && out != NULL)
        say("%s: %lld sample%s", out, (long long)sheet.count, TEXT_S(sheet.count));
    lks_loader_destroy(chosen.loader);
    free(labels);
    free(pixels);
    return status;
}

lks_status data_show(const cli_args *cli, const char *what)
{
    data_source source;
    lks_status status = data_open(&source, cli, what);
    if (status == LKS_OK)
        status = output_check(cli, source.recipe, "--out", cli->local[LOCAL_OUT], false);
    if (status == LKS_OK) status = data_show_show(cli, &source, what);
    data_close(&source);
    return status;
}
