#include "cli/verbs/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/verbs/record.h"

/* A value of a record, which may come from anywhere, for a terminal. */
static const char *value_text(cli_pool *pool, const json_t *value)
{
    char *text = value != NULL ? text_json(value) : NULL;
    const char *clean = text != NULL ? text_clean(pool, text) : "nothing";
    free(text);
    return clean;
}

static void say_setting(cli_pool *pool, const char *section, const char *key, const json_t *a,
                        const json_t *b)
{
    if (a != NULL && b != NULL && json_equal(a, b)) return;
    say("setting %s.%s: %s and %s", text_clean(pool, section), text_clean(pool, key),
        value_text(pool, a), value_text(pool, b));
}

/* Settings that are not equal may explain the rest; they are no difference of the result. */
static void say_settings(cli_pool *pool, const json_t *a, const json_t *b)
{
    const char *section, *key;
    json_t *keys, *value;
    json_object_foreach((json_t *)json_object_get(a, "config"), section, keys)
    {
        const json_t *others = json_object_get(json_object_get(b, "config"), section);
        json_object_foreach(keys, key, value)
            say_setting(pool, section, key, value, json_object_get(others, key));
    }
    json_object_foreach((json_t *)json_object_get(b, "config"), section, keys)
    {
        const json_t *others = json_object_get(json_object_get(a, "config"), section);
        json_object_foreach(keys, key, value) if (json_object_get(others, key) == NULL)
            say_setting(pool, section, key, NULL, value);
    }
    static const char *const facts[] = {"numerics", "version", "build", "fingerprint", "workers"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const json_t *x = json_object_get(a, facts[i]), *y = json_object_get(b, facts[i]);
        if (json_is_string(x) && json_is_string(y) && !json_equal(x, y))
            say("%s: %s and %s", facts[i], text_clean(pool, json_string_value(x)),
                text_clean(pool, json_string_value(y)));
        if (json_is_integer(x) && json_is_integer(y) && !json_equal(x, y))
            say("%s: %lld and %lld", facts[i], (long long)json_integer_value(x),
                (long long)json_integer_value(y));
    }
}

static json_int_t compare_records_number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const json_t *with_number(const json_t *list, const char *key, json_int_t number)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i,
                       item) if (compare_records_number_of(item, key) == number) return item;
    return NULL;
}

/* The hash chain tells between which steps two runs part. */
static bool same_links(const json_t *a, const json_t *b)
{
    size_t i;
    const json_t *link;
    json_int_t last = 0;
    json_array_foreach(json_object_get(a, "links"), i, link)
    {
        const json_int_t step = compare_records_number_of(link, "step");
        const json_t *other = with_number(json_object_get(b, "links"), "step", step);
        const json_t *x = json_object_get(link, "link"), *y = json_object_get(other, "link");
        if (x == NULL || y == NULL) continue;
        if (!json_equal(x, y)) {
            say("step %lld: the links of the hash chain differ; at step %lld they did not",
                (long long)step, (long long)last);
            return false;
        }
        last = step;
    }
    return true;
}

static bool same_epochs(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"train_loss", "train_correct", "train_samples",
                                       "valid_loss", "valid_correct", "valid_samples",
                                       "test_loss",  "test_correct",  "test_samples"};
    size_t i;
    const json_t *epoch;
    json_array_foreach(json_object_get(a, "epochs"), i, epoch)
    {
        const json_int_t number = compare_records_number_of(epoch, "epoch");
        const json_t *other = with_number(json_object_get(b, "epochs"), "epoch", number);
        if (other == NULL) continue;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const json_t *x = json_object_get(epoch, keys[k]), *y = json_object_get(other, keys[k]);
            if (x == NULL || y == NULL || json_equal(x, y)) continue;
            char p[TEXT_NUMBER_SIZE], q[TEXT_NUMBER_SIZE];
            say("epoch %lld: %s is %s and %s (difference %.3g)", (long long)number, keys[k],
                lks_text_number(p, json_number_value(x)), lks_text_number(q, json_number_value(y)),
                fabs(json_number_value(x) - json_number_value(y)));
            return false;
        }
    }
    return true;
}

lks_status compare_records(bool *equal, const char *path_a, const char *path_b)
{
    cli_pool pool = {0};
    json_t *a = NULL, *b = NULL;
    lks_status status = record_read(&a, path_a);
    if (status == LKS_OK) status = record_read(&b, path_b);
    if (status == LKS_OK) {
        const char *x = json_string_value(json_object_get(a, "hash"));
        const char *y = json_string_value(json_object_get(b, "hash"));
        const long long step_a = compare_records_number_of(a, "steps"),
                        step_b = compare_records_number_of(b, "steps");
        const bool same_hash = step_a == step_b && strcmp(x, y) == 0;
        say_settings(&pool, a, b);
        const bool links = same_links(a, b), epochs = same_epochs(a, b);
        if (!same_hash)
            say("hash: %s at step %lld and %s at step %lld", text_clean(&pool, x), step_a,
                text_clean(&pool, y), step_b);
        *equal = links && epochs && same_hash;
    }
    json_decref(a);
    json_decref(b);
    pool_clear(&pool);
    return status;
}
