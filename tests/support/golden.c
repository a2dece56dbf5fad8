#include "support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/test.h"

json_t *lkt_json_load(const char *path)
{
    const char *source = getenv("LKT_SOURCE");
    char full[4096];
    json_error_t problem;

    snprintf(full, sizeof full, "%s/%s", source != NULL ? source : ".", path);
    json_t *json = json_load_file(full, 0, &problem);
    if (json == NULL) fail_msg("%s: %s", full, problem.text);
    return json;
}

int64_t lkt_json_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

double lkt_json_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* The finalizer of MurmurHash3 (A. Appleby 2011). */
uint32_t lkt_hashed(uint32_t i, uint32_t stream)
{
    uint32_t h = i + stream * 0x9E3779B9u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
}

void lkt_golden_write(lks_model *model, const char *name, uint32_t stream, float bound, float more)
{
    const int index = lks_model_state_find(model, name);

    assert_true(index >= 0);
    const size_t bytes = lks_model_state_info(model, index).bytes;
    float *values = malloc(bytes);
    assert_non_null(values);
    for (uint32_t i = 0; i < bytes / sizeof *values; i++)
        values[i] = ((float)(lkt_hashed(i, stream) >> 8) * 0x1p-23f - 1) * bound + more;
    LKT_OK(lks_model_state_write(model, index, values, bytes));
    free(values);
}

void lkt_golden_train(lks_model *model, const json_t *golden, const char *who, const float *x,
                      const int32_t *y, int64_t elements, int batch, double lr)
{
    const double factor = lkt_json_number(golden, "factor");
    const json_t *losses = json_object_get(golden, "losses");
    const json_t *errors = json_object_get(golden, "f32_loss_errors");

    for (size_t step = 0; step < json_array_size(losses); step++) {
        const int64_t first = (int64_t)(step % 3) * batch;
        const lks_batch part = {.x = x + first * elements, .y = y + first, .count = batch};
        const double expected = json_number_value(json_array_get(losses, step));
        const double bound = factor * json_number_value(json_array_get(errors, step));
        lks_metrics metrics;

        LKT_OK(lks_model_step(model, &part, lr, &metrics));
        if (!(fabs(lks_metrics_loss(&metrics) - expected) <= bound))
            fail_msg("%s, step %zu: loss %.9g, PyTorch %.9g +- %.2g", who, step,
                     lks_metrics_loss(&metrics), expected, bound);
    }
}
