/* Lists of augmentations: checked, and done to an image. */
#include "augment/augment.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "base/named.h"
#include "numeric/random.h"

static const void *const rules[] = {
#define X(KIND, name) &lki_augmentation_##name,
    LKS_AUGMENTATIONS(X)
#undef X
};
static const lki_named named = LKI_NAMED(rules);

const lki_augmentation_rule *lki_augmentation_at(int number)
{
    return lki_named_at(&named, number);
}

const lki_augmentation_rule *lki_augmentation_find(const char *name)
{
    return lki_named_find(&named, name);
}

const lki_augmentation_rule *lki_augmentation_of(lks_augmentation_kind kind)
{
    const lki_augmentation_rule *rule;
    for (int i = 0; (rule = lki_augmentation_at(i)) != NULL; i++)
        if (rule->kind == kind) return rule;
    return NULL;
}

void lki_draw_words(const lki_draw *draw, uint32_t block, uint32_t out[LKI_DRAW_WORDS])
{
    const uint64_t sample = (uint64_t)draw->sample;
    const uint32_t counter[4] = {(uint32_t)draw->epoch, (uint32_t)sample, (uint32_t)(sample >> 32),
                                 block};
    lki_philox(draw->key, counter, out);
}

/* ---------------------------------------------------------------- checks */

static lks_status check_images(const lks_dataset_info *info, const char *where, const char *name)
{
    if (info->dtype == LKS_U8 && info->shape.ndim == 3) return LKS_OK;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "%s%s is for images of bytes (rows, columns, channels), but samples are %s of "
                    "%d dimension%s; drop it",
                    where, name,
                    info->dtype == LKS_U8    ? "bytes"
                    : info->dtype == LKS_I32 ? "tokens"
                                             : "floats",
                    info->shape.ndim, LKI_S(info->shape.ndim));
}

static lki_image image_of(const lks_dataset_info *info)
{
    return (lki_image){
        .rows = info->shape.dim[0], .columns = info->shape.dim[1], .channels = info->shape.dim[2]};
}

lks_status lki_augmentation_check(const lks_augmentation *opts, const lks_dataset_info *info,
                                  const char *where)
{
    const lki_augmentation_rule *rule = lki_augmentation_of(opts->kind);
    char who[200];
    if (rule == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%saugmentation: kind is %d, expected LKS_AUGMENT_CROP or another "
                        "lks_augmentation_kind",
                        where, (int)opts->kind);
    snprintf(who, sizeof who, "%s%s", where, rule->name);
    lks_augmentation filled = *opts;
    lki_attributes_fill(&rule->attributes, &filled);
    LKI_TRY(lki_attributes_check(&rule->attributes, &filled, who));
    LKI_TRY(check_images(info, where, rule->name));
    const lki_image image = image_of(info);
    return rule->check != NULL ? rule->check(&filled, &image, who) : LKS_OK;
}

lks_status lks_augmentation_check(const lks_augmentation *augmentation,
                                  const lks_dataset_info *info)
{
    if (augmentation == NULL) return LKI_FAIL_NULL(augmentation);
    if (info == NULL) return LKI_FAIL_NULL(info);
    return lki_augmentation_check(augmentation, info, "");
}

/* ---------------------------------------------------------------- a list of them */

typedef struct entry {
    const lki_augmentation_rule *rule;
    lks_augmentation opts; /* with defaults filled in */
    uint64_t key;
} entry;

struct lki_augment {
    lks_context *context;
    size_t bytes; /* of this, with its entries and spaces */
    lki_image size;
    size_t image_bytes;
    uint8_t *space; /* an image for each */
    int count;
    entry list[];
};

/* The second of a kind has numbers of its own: its key is that of "crop 2". */
static uint64_t key_of(const lki_augment *augment, int number)
{
    const lki_augmentation_rule *rule = augment->list[number].rule;
    char name[64];
    int same = 1;
    for (int i = 0; i < number; i++) same += augment->list[i].rule == rule;
    if (same == 1)
        snprintf(name, sizeof name, "%s", rule->name);
    else
        snprintf(name, sizeof name, "%s %d", rule->name, same);
    return lki_random_key(lks_context_seed(augment->context), "augment", name);
}

lks_status lki_augment_create(lki_augment **out, lks_context *context, const lks_augmentation *list,
                              int count, const lks_dataset_info *info, int spaces)
{
    *out = NULL;
    if (count == 0) return LKS_OK;
    for (int i = 0; i < count; i++) LKI_TRY(lki_augmentation_check(&list[i], info, ""));
    const lki_image size = image_of(info);
    const size_t image_bytes = (size_t)(size.rows * size.columns * size.channels);
    const size_t each = lki_align(image_bytes);
    const size_t head = lki_align(sizeof(lki_augment) + (size_t)count * sizeof(entry));
    void *memory = NULL;
    LKI_TRY(lki_alloc(context, &memory, head + (size_t)spaces * each, "augmentation"));
    lki_augment *augment = memory;
    augment->context = context;
    augment->bytes = head + (size_t)spaces * each;
    augment->size = size;
    augment->image_bytes = image_bytes;
    augment->space = (uint8_t *)memory + head;
    augment->count = count;
    for (int i = 0; i < count; i++) {
        entry *e = &augment->list[i];
        e->rule = lki_augmentation_of(list[i].kind);
        e->opts = list[i];
        lki_attributes_fill(&e->rule->attributes, &e->opts);
        e->key = key_of(augment, i);
    }
    *out = augment;
    return LKS_OK;
}

void lki_augment_destroy(lki_augment *augment)
{
    if (augment != NULL) lki_free(augment->context, augment, augment->bytes);
}

void lki_augment_run(const lki_augment *augment, int64_t epoch, int64_t sample, uint8_t *image,
                     int space)
{
    uint8_t *other = augment->space + (size_t)space * lki_align(augment->image_bytes);
    lki_image step = augment->size;
    const unsigned saved = lki_float_enter(); /* some draw with doubles */
    uint8_t *now = image, *next = other;
    for (int i = 0; i < augment->count; i++) {
        const entry *e = &augment->list[i];
        const lki_draw draw = {e->key, epoch, sample};
        step.in = now;
        step.out = next;
        e->rule->apply(&e->opts, &draw, &step);
        now = step.out;
        next = now == image ? other : image;
    }
    lki_float_leave(saved);
    if (now != image) memcpy(image, now, augment->image_bytes);
}
