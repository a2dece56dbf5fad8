/* Images as in a mirror, for means of outputs. */
#include <string.h>

#include "base/check.h"
#include "model/model.h"

lks_status lki_mirror_check(const lks_model *model)
{
    const lks_tensor *input = model->program.graph->input;
    if (!model->opts.mirror) return LKS_OK;
    if (input->shape.ndim != 3)
        return LKI_FAIL(LKS_E_SHAPE,
                        "mirror: samples have %d dimension%s, expected images, which have rows, "
                        "columns and channels; leave it out",
                        input->shape.ndim, LKI_S(input->shape.ndim));
    if (!model->program.backend->memory->host)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "mirror: device '%s' has memory of its own, in which outputs cannot be "
                        "averaged; leave it out",
                        model->program.backend->name);
    return LKS_OK;
}

static size_t images_bytes(const lks_model *model)
{
    return lki_align((size_t)model->program.max_pass *
                     lki_tensor_bytes(model->program.graph->input));
}

size_t lki_mirror_bytes(const lks_model *model)
{
    if (!model->opts.mirror) return 0;
    return images_bytes(model) +
           (size_t)model->program.max_pass * lki_tensor_bytes(model->program.output);
}

lki_mirror lki_mirror_place(const lks_model *model, char *memory)
{
    return (lki_mirror){.x = memory, .out = (float *)(void *)(memory + images_bytes(model))};
}

lks_status lki_mirror_make(lks_model *model)
{
    if (!model->opts.mirror) return LKS_OK;
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, lki_mirror_bytes(model), "mirrored images"));
    model->mirror = lki_mirror_place(model, memory);
    return LKS_OK;
}

void lki_mirror_images(const lks_model *model, const lki_mirror *mirror, const void *x,
                       int64_t count)
{
    const lks_tensor *input = model->program.graph->input;
    const size_t rows = (size_t)(count * input->shape.dim[0]),
                 columns = (size_t)input->shape.dim[1];
    const size_t pixel = (size_t)input->shape.dim[2] * lks_dtype_size(input->dtype);
    for (size_t r = 0; r < rows; r++) {
        const char *in = (const char *)x + r * columns * pixel;
        char *out = mirror->x + (r + 1) * columns * pixel;
        for (size_t c = 0; c < columns; c++, in += pixel) memcpy(out -= pixel, in, pixel);
    }
}
