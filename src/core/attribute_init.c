#include "core/attribute_init.h"

#include <math.h>

#include "base/check.h"
#include "base/text.h"
#include "core/range.h"

static lks_status check_kind(const lki_attribute *attribute, const lks_init *init, const char *who)
{
    int length;
    if ((unsigned)init->kind > LKS_INIT_PARTIAL_IDENTITY)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is %d, which is no kind of initialisation", who,
                        attribute->name, (int)init->kind);
    if (lki_word_at(attribute->range, (int)init->kind, &length) == NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is %s, which is for weights; use zeros", who,
                        attribute->name,
                        init->kind == LKS_INIT_IDENTITY ? "identity" : "partial_identity");
    return LKS_OK;
}

lks_status lki_init_check(const lki_attribute *attribute, const lks_init *init, const char *who)
{
    const char *name = attribute->name;
    const bool scaled = init->kind == LKS_INIT_UNIFORM || init->kind == LKS_INIT_NORMAL;

    LKI_TRY(check_kind(attribute, init, who));
    if (scaled && !(init->scale > 0.0f && isfinite(init->scale)))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: %s has scale %g, expected a positive number for uniform or normal",
                        who, name, (double)init->scale);
    if (!isfinite(init->value))
        return LKI_FAIL(LKS_E_INVALID, "%s: %s has value %g, expected a finite number", who, name,
                        (double)init->value);
    if (!(init->gain >= 0.0f && isfinite(init->gain)))
        return LKI_FAIL(LKS_E_INVALID, "%s: %s has gain %g, expected a positive number", who, name,
                        (double)init->gain);
    if (!isfinite(init->slope))
        return LKI_FAIL(LKS_E_INVALID, "%s: %s has slope %g, expected a finite number", who, name,
                        (double)init->slope);
    return LKS_OK;
}

/* The kind's one number that is not at its default; NAN: none. */
static float init_number(const lks_init *init)
{
    switch (init->kind) {
    case LKS_INIT_UNIFORM:
    case LKS_INIT_NORMAL:
        return init->scale;
    case LKS_INIT_CONSTANT:
        return init->value;
    case LKS_INIT_KAIMING_UNIFORM:
    case LKS_INIT_KAIMING_NORMAL:
        return init->slope != 0.0f ? init->slope : NAN;
    case LKS_INIT_XAVIER_UNIFORM:
    case LKS_INIT_XAVIER_NORMAL:
        return init->gain != 0.0f && init->gain != 1.0f ? init->gain : NAN;
    case LKS_INIT_DEFAULT:
    case LKS_INIT_ZEROS:
    case LKS_INIT_ONES:
    case LKS_INIT_IDENTITY:
    case LKS_INIT_PARTIAL_IDENTITY:
        break;
    }
    return NAN;
}

const char *lki_init_print(const lki_attribute *attribute, const lks_init *init, char *text,
                           size_t size)
{
    const bool kaiming = init->kind == LKS_INIT_KAIMING_UNIFORM ||
                         init->kind == LKS_INIT_KAIMING_NORMAL;
    const float number = init_number(init);
    char digits[LKI_NUMBER_SIZE] = "";
    int length = 0;
    const char *word = lki_word_at(attribute->range, (int)init->kind, &length);

    if (!isnan(number)) lki_text_float(digits, number);
    lki_text(text, size, "%.*s%s%s%s", length, word != NULL ? word : "",
             digits[0] != '\0' ? ":" : "", digits, kaiming && init->fan_out ? ":fan_out" : "");
    return text;
}
