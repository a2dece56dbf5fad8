#include "recipe/data/split.h"

#include "base/check.h"
#include "data/dataset.h"
#include "recipe/data/held.h"
#include "recipe/data/parts.h"

/* *out is the training's part or the test's; NULL where there is no test. */
static lks_status split_test(lks_dataset **out, const lki_config *config, lks_dataset *whole,
                             bool test)
{
    lks_dataset *rest, *held;
    int64_t count;
    *out = NULL;
    LKI_TRY(lki_held_rows(&count, config, LKI_KEY_DATA_TEST_FRACTION,
                          lks_dataset_get_info(whole).samples));
    if (count == 0) return LKS_OK;
    LKI_TRY(lks_dataset_split(&rest, &held, whole, count));
    lks_dataset_destroy(test ? rest : held);
    *out = test ? held : rest;
    return LKS_OK;
}

lks_status lki_split_take(lks_dataset **out, const lki_config *config, lks_dataset *whole,
                          bool test)
{
    lks_dataset *part;
    const lks_status status = split_test(&part, config, whole, test);
    *out = status == LKS_OK ? whole : NULL;
    if (status == LKS_OK && part == NULL) return LKS_OK;
    if (status == LKS_OK) {
        part->close = whole->close; /* it has what the whole has, and closes it */
        whole->close = NULL;
        *out = part;
    }
    lks_dataset_destroy(whole);
    return status;
}

lks_status lki_split_mark(uint8_t *used, const lki_config *config, lks_dataset *whole)
{
    lki_parts parts = {0};
    lks_dataset *rest;
    lks_status status = split_test(&rest, config, whole, false);
    if (status == LKS_OK) status = lki_parts_cut(&parts, config, rest != NULL ? rest : whole);
    const int64_t count = lks_dataset_get_info(parts.train).samples;
    for (int64_t i = 0; i < count && status == LKS_OK; i++)
        used[lks_dataset_position(parts.train, i)] = 1;
    lki_parts_close(&parts);
    lks_dataset_destroy(rest);
    return status;
}
