#include "recipe/board/images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recipe/board/png.h"
#include "recipe/data/augment.h"

lks_status lki_images_open(lks_loader **out, const lks_recipe *recipe)
{
    const lki_session *session = &recipe->session;
    const lks_dataset_info info = session->info;
    lks_loader_opts opts = {.global_batch = 1, .in_order = true, .threads = -1};
    *out = NULL;
    if (!lki_config_has(session->config, LKI_KEY_LOG_IMAGES)) return LKS_OK;
    if (strcmp(lki_png_version(), "none") == 0)
        return lki_config_fail(
            session->config, LKI_KEY_LOG_IMAGES,
            "is set, but this program was built without libpng; leave it out, or "
            "install libpng, then configure and build again");
    if (info.dtype != LKS_U8 || info.shape.ndim != 3 ||
        (info.shape.dim[2] != 1 && info.shape.dim[2] != 3))
        return lki_config_fail(session->config, LKI_KEY_LOG_IMAGES,
                               "is set, but the samples are no images of bytes with 1 or 3 "
                               "channels; leave it out");
    LKI_TRY(lki_augment_read(session->config, NULL, &opts));
    return lks_loader_create(out, session->context, session->train, &opts);
}

lks_status lki_images_add(lki_events *events, const lks_recipe *recipe, lks_loader *loader,
                          int64_t epoch)
{
    const lks_dataset_info info = lks_dataset_get_info(lks_loader_dataset(loader));
    const int64_t count = lki_config_int(recipe->config, LKI_KEY_LOG_IMAGES);
    const int height = (int)info.shape.dim[0], width = (int)info.shape.dim[1];
    const int channels = (int)info.shape.dim[2];
    LKI_TRY(lks_loader_seek(loader, (epoch - 1) * info.samples));
    for (int64_t i = 0; i < count && i < info.samples; i++) {
        lks_batch batch;
        char tag[40], *file;
        size_t bytes;
        LKI_TRY(lks_loader_next(loader, &batch));
        LKI_TRY(lki_png_encode(&file, &bytes, batch.x, height, width, channels));
        snprintf(tag, sizeof tag, "samples/%" PRId64, i);
        lki_events_image(events, tag, height, width, channels, file, bytes);
        free(file);
    }
    return LKS_OK;
}
