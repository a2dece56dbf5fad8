/*
 * model.whiten: the filters of a first convolution from the training images, as airbench94 has them (Jordan, 2024).
 * Of all patches p of the kernel's size, with C the mean of p p^T and C = sum of l_i v_i v_i^T: filters are
 * v_i / sqrt(l_i + 0.0005), those of the largest l_i first, then the negatives of all these, as what follows is one-sided.
 * What comes out of such filters has mean square 1 and no correlation.
 */
#include <math.h>
#include <stdlib.h>

#include "recipe/recipe.h"

#include "base/check.h"
#include "numeric/eigen.h"

static const double EPSILON = 5e-4; /* beside the eigenvalues, whose least are noise */
enum { MOST = 512 };                /* values in a patch */

typedef struct whitening {
    lki_session *session;
    int index; /* of the weight in the model's state */
    int64_t filters, channels, kernel[2], size;
    int64_t height, width;       /* of an image */
    double *mean, *std;          /* [channels] */
    double *image;               /* [height][width][channels] */
    double *patch;               /* [size]: channel, row, column */
    double *sum, *value, *basis; /* [size][size], [size], [size][size] */
    float *weight;               /* [filters][size] */
    int64_t patches;
} whitening;

/* The first parameter that is a convolution's. */
static lks_status find_weight(whitening *w)
{
    const lks_model *model = w->session->model;
    const lks_shape image = w->session->info.shape;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_PARAMETER || info.shape.ndim != 4) continue;
        const int64_t *dim = info.shape.dim;
        w->index = i;
        w->filters = dim[0];
        w->channels = dim[1];
        w->kernel[0] = dim[2];
        w->kernel[1] = dim[3];
        w->size = dim[1] * dim[2] * dim[3];
        w->height = image.dim[0];
        w->width = image.dim[1];
        const bool fits = image.ndim == 3 && dim[1] == image.dim[2] && dim[2] <= image.dim[0] &&
                          dim[3] <= image.dim[1] && w->size <= MOST && dim[0] >= 2;
        if (fits) return LKS_OK;
        return lki_config_fail(w->session->config, LKI_KEY_MODEL_WHITEN,
                               "is set, but the first convolution (%.60s) is none of patches of "
                               "these images, of at most %d values and with 2 filters or more; "
                               "leave it out",
                               info.name, MOST);
    }
    return lki_config_fail(w->session->config, LKI_KEY_MODEL_WHITEN,
                           "is set, but the network has no convolution; leave it out");
}

static double *doubles(lki_config *config, int64_t count)
{
    return lki_heap_alloc(&config->heap, (size_t)count * sizeof(double));
}

/* A number for all channels, or one for each. */
static void read_channels(double *out, const lki_config *config, lki_key key, double usual,
                          int64_t channels)
{
    const lki_setting *setting = &config->value[key];
    for (int64_t c = 0; c < channels; c++)
        out[c] = !setting->set ? usual : setting->floats[setting->count == 1 ? 0 : c];
}

static lks_status whiten_begin(whitening *w)
{
    lki_config *config = w->session->config;
    const int64_t size = w->size;
    w->mean = doubles(config, w->channels);
    w->std = doubles(config, w->channels);
    w->image = doubles(config, w->height * w->width * w->channels);
    w->patch = doubles(config, size);
    w->sum = doubles(config, size * size);
    w->value = doubles(config, size);
    w->basis = doubles(config, size * size);
    w->weight = lki_heap_alloc(&config->heap, (size_t)(w->filters * size) * sizeof *w->weight);
    LKI_TRY(lki_heap_status(&config->heap, LKS_OK));
    read_channels(w->mean, config, LKI_KEY_DATA_MEAN, 0, w->channels);
    read_channels(w->std, config, LKI_KEY_DATA_STD, 1, w->channels);
    for (int64_t i = 0; i < size * size; i++) w->sum[i] = 0;
    return LKS_OK;
}

/* As the network sees it: bytes from 0 to 1, normalised. */
static void read_image(whitening *w, const void *x, lks_dtype dtype)
{
    for (int64_t i = 0; i < w->height * w->width * w->channels; i++) {
        const double value = dtype == LKS_U8 ? ((const uint8_t *)x)[i] / 255.0
                                             : (double)((const float *)x)[i];
        w->image[i] = (value - w->mean[i % w->channels]) / w->std[i % w->channels];
    }
}

static void add_patch(whitening *w, int64_t row, int64_t column)
{
    const int64_t n = w->size;
    double *p = w->patch;
    for (int64_t c = 0; c < w->channels; c++)
        for (int64_t i = 0; i < w->kernel[0]; i++)
            for (int64_t k = 0; k < w->kernel[1]; k++)
                *p++ = w->image[((row + i) * w->width + column + k) * w->channels + c];
    p = w->patch;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) w->sum[i * n + k] += p[i] * p[k];
    w->patches++;
}

/* Over the first images in the order of the data. */
static lks_status whiten_sum(whitening *w, lks_loader *loader)
{
    const lks_dataset_info info = lks_dataset_get_info(w->session->train);
    const size_t bytes = lks_dtype_size(info.dtype) * (size_t)lks_shape_elements(&info.shape);
    int64_t left = lki_config_int(w->session->config, LKI_KEY_MODEL_WHITEN);
    if (left > info.samples) left = info.samples;
    while (left > 0) {
        lks_batch batch;
        LKI_TRY(lks_loader_next(loader, &batch));
        for (int64_t i = 0; i < batch.count && left > 0; i++, left--) {
            read_image(w, (const char *)batch.x + (size_t)i * bytes, info.dtype);
            for (int64_t row = 0; row + w->kernel[0] <= w->height; row++)
                for (int64_t column = 0; column + w->kernel[1] <= w->width; column++)
                    add_patch(w, row, column);
        }
    }
    return LKS_OK;
}

/* Filters beyond the pairs, where there are so many, stay as they are. */
static void fill_weight(whitening *w)
{
    const int64_t n = w->size, pairs = n < w->filters / 2 ? n : w->filters / 2;
    for (int64_t i = 0; i < n * n; i++) w->sum[i] /= (double)w->patches;
    lki_eigen_symmetric(w->sum, w->value, w->basis, (int)n);
    for (int64_t i = 0; i < pairs; i++) {
        const double scale = 1 / sqrt(fmax(w->value[i], 0) + EPSILON);
        for (int64_t k = 0; k < n; k++) {
            w->weight[i * n + k] = (float)(scale * w->basis[i * n + k]);
            w->weight[(pairs + i) * n + k] = -w->weight[i * n + k];
        }
    }
}

lks_status lki_whiten(lki_session *session)
{
    whitening w = {.session = session};
    lks_loader *loader = NULL;
    if (session->train == NULL)
        return LKI_FAIL(LKS_E_STATE, "model.whiten: the recipe has opened no training data");
    lks_status status = find_weight(&w);
    const size_t bytes = (size_t)(w.filters * w.size) * sizeof *w.weight;
    if (status == LKS_OK) status = whiten_begin(&w);
    if (status == LKS_OK)
        status = lki_session_loader(&loader, session, session->train, LKI_FOR_LOOKING);
    if (status == LKS_OK) status = whiten_sum(&w, loader);
    lks_loader_destroy(loader);
    LKI_TRY(lks_comm_agree(session->comm, status));
    LKI_TRY(lks_model_state_read(session->model, w.index, w.weight, bytes));
    fill_weight(&w);
    return lks_model_state_write(session->model, w.index, w.weight, bytes);
}
