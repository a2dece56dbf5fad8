#include "recipe/data/held.h"

#include "base/check.h"

lks_status lki_held_rows(int64_t *out, const lki_config *config, lki_key key, int64_t rows)
{
    *out = 0;
    if (!lki_config_has(config, key)) return LKS_OK;
    *out = (int64_t)(lki_config_float(config, key) * (double)rows);
    if (*out >= 1) return LKS_OK;
    return lki_config_fail(config, key, "would hold back none of %lld row%s", (long long)rows,
                           LKI_S(rows));
}

lks_status lki_held_at_end(const lki_config *config, const char *of)
{
    if (lki_config_has(config, LKI_KEY_VALIDATION_SAMPLES))
        return lki_config_fail(config, LKI_KEY_VALIDATION_SAMPLES,
                               "is for data whose samples have nothing in common; of %s give "
                               "validation.fraction, its end",
                               of);
    if (lki_config_bool(config, LKI_KEY_VALIDATION_SHUFFLE))
        return lki_config_fail(config, LKI_KEY_VALIDATION_SHUFFLE,
                               "is true, but of %s the end is held back; drop it", of);
    return LKS_OK;
}
