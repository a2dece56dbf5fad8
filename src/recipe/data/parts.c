#include "recipe/data/parts.h"

#include "base/check.h"
#include "recipe/data/series.h"
#include "recipe/data/text.h"

lks_status lki_parts_limit(lks_dataset **used, lks_dataset **slice, const lki_config *config,
                           lks_dataset *whole, lki_key key)
{
    const int64_t samples = lks_dataset_get_info(whole).samples;
    *used = whole;
    if (!lki_config_has(config, key) || lki_config_int(config, key) == samples) return LKS_OK;
    if (lki_config_int(config, key) > samples)
        return lki_config_fail(config, key, "is %lld, but there %s only %lld sample%s",
                               (long long)lki_config_int(config, key), samples == 1 ? "is" : "are",
                               (long long)samples, LKI_S(samples));
    const lks_status status = lks_dataset_slice(slice, whole, 0, lki_config_int(config, key));
    *used = *slice;
    return status;
}

/* Holds samples back for validation. */
static lks_status hold_back(lki_parts *parts, const lki_config *config)
{
    const bool by_fraction = lki_config_has(config, LKI_KEY_VALIDATION_FRACTION);
    const lki_key key = by_fraction ? LKI_KEY_VALIDATION_FRACTION : LKI_KEY_VALIDATION_SAMPLES;
    if (!lki_config_has(config, key)) return LKS_OK;
    lks_dataset *limited = parts->train;
    const int64_t samples = lks_dataset_get_info(limited).samples;
    const int64_t held = by_fraction ? (int64_t)(lki_config_float(config, key) * (double)samples)
                                     : lki_config_int(config, key);
    if (held < 1 || held >= samples)
        return lki_config_fail(
            config, key, "would hold back %lld of %lld sample%s, expected at least 1 and not all",
            (long long)held, (long long)samples, LKI_S(samples));
    /* Of the limited part, which stays open beneath; where there is none, of the whole. */
    parts->limited = parts->slice[0];
    parts->slice[0] = NULL;
    lks_status status;
    if (lki_config_bool(config, LKI_KEY_VALIDATION_SHUFFLE)) {
        status = lks_dataset_split(&parts->slice[0], &parts->slice[1], limited, held);
    } else {
        status = lks_dataset_slice(&parts->slice[0], limited, 0, samples - held);
        if (status == LKS_OK)
            status = lks_dataset_slice(&parts->slice[1], limited, samples - held, held);
    }
    parts->train = parts->slice[0];
    parts->valid = parts->slice[1];
    return status;
}

static bool holds_back(const lki_config *config)
{
    return lki_config_has(config, LKI_KEY_VALIDATION_FRACTION) ||
           lki_config_has(config, LKI_KEY_VALIDATION_SAMPLES);
}

/* Of a text the tokens are parted, and of a series the rows, before there are samples. */
static lks_status cut_windows(lki_parts *out, const lki_config *config, lks_dataset *whole)
{
    LKI_TRY(lki_config_has(config, LKI_KEY_DATA_TEXT) ? lki_text_source_cut(out, config, whole)
                                                      : lki_series_source_cut(out, config, whole));
    return lki_parts_limit(&out->train, &out->limited, config, out->slice[0], LKI_KEY_DATA_SAMPLES);
}

lks_status lki_parts_cut(lki_parts *out, const lki_config *config, lks_dataset *whole)
{
    *out = (lki_parts){0};
    const bool windows = lki_config_has(config, LKI_KEY_DATA_TEXT) ||
                         lki_config_has(config, LKI_KEY_DATA_SERIES);
    if (windows && holds_back(config)) return cut_windows(out, config, whole);
    LKI_TRY(lki_parts_limit(&out->train, &out->slice[0], config, whole, LKI_KEY_DATA_SAMPLES));
    return hold_back(out, config);
}

void lki_parts_close(lki_parts *parts)
{
    for (int i = 0; i < 2; i++) lks_dataset_destroy(parts->slice[i]);
    lks_dataset_destroy(
        parts->limited); /* which may be a part of a slice: none looks at its base */
    *parts = (lki_parts){0};
}
