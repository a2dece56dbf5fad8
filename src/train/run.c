#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "numeric/hash.h"
#include "train/run.h"

enum { FORMAT = 1, HEX = 16 };

/* The last line. It stands outside the JSON writer's hands, so that what it covers is plain bytes
 * and no two versions of the JSON library can disagree about them. */
#define SEAL_BEGIN ",\n  \"checksum\": \""
#define SEAL_END   "\"\n}\n"
enum { SEAL_BYTES = sizeof SEAL_BEGIN - 1 + HEX + sizeof SEAL_END - 1 };

void lks_run_clear(lks_run *run)
{
    if (!run) return;
    free((char *)run->fingerprint);
    free((char *)run->law);
    free((char *)run->config);
    free(run->history);
    free(run->confusion);
    *run = (lks_run){0};
}

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *hex(uint64_t value)
{
    char text[HEX + 1];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    return json_string(text);
}

/* Where every sample has one loss, how many there are is left out. */
static json_t *print_metrics(const lks_metrics *metrics)
{
    json_t *json = json_pack("{s:I, s:I, s:I, s:I, s:[o, o]}", "samples",
                             (json_int_t)metrics->samples, "correct", (json_int_t)metrics->correct,
                             "top5", (json_int_t)metrics->top5, "not_finite",
                             (json_int_t)metrics->not_finite, "loss_sum",
                             hex((uint64_t)metrics->loss_high), hex(metrics->loss_low));
    if (metrics->counted == metrics->samples || json == NULL) return json;
    if (json_object_set_new(json, "counted", json_integer(metrics->counted)) == 0) return json;
    json_decref(json);
    return NULL;
}

/* Those that were not measured are left out. */
static json_t *print_rates(const lks_rates *rates)
{
    return isnan(rates->f1) ? NULL
                            : json_pack("[f, f, f]", rates->precision, rates->recall, rates->f1);
}

static json_t *run_print_history(const lks_run *run)
{
    json_t *history = json_array();
    for (int64_t i = 0; i < run->epochs; i++) {
        const lks_epoch *epoch = &run->history[i];
        json_t *entry = json_pack(
            "{s:I, s:o, s:o, s:o, s:o, s:o, s:o*, s:o*}", "epoch", (json_int_t)epoch->epoch,
            "train", print_metrics(&epoch->train), "valid", print_metrics(&epoch->valid), "test",
            print_metrics(&epoch->test), "learning_rate", real_or_null(epoch->learning_rate),
            "seconds", real_or_null(epoch->seconds), "valid_rates",
            print_rates(&epoch->valid_rates), "test_rates", print_rates(&epoch->test_rates));
        if (json_array_append_new(history, entry) != 0) {
            json_decref(history);
            return NULL;
        }
    }
    return history;
}

static json_t *print_plateau(const lks_plateau *plateau)
{
    if (!(plateau->lr > 0.0)) return json_null(); /* there is none */
    return json_pack("{s:o, s:o, s:i}", "lr", real_or_null(plateau->lr), "best",
                     real_or_null(plateau->best), "bad", plateau->bad);
}

static json_t *print_loss_scale(const lks_progress *progress)
{
    if (!(progress->loss_scale > 0.0)) return NULL; /* there is none */
    return json_pack("{s:f, s:I, s:I, s:I}", "scale", progress->loss_scale, "good",
                     (json_int_t)progress->scale_good, "ups", (json_int_t)progress->scale_ups,
                     "downs", (json_int_t)progress->scale_downs);
}

static json_t *print_all(const lks_run *run, const char *tensors_name, const lki_identity *tensors,
                         json_error_t *error)
{
    json_t *file = json_pack("{s:s, s:I, s:o}", "file", tensors_name, "bytes",
                             (json_int_t)tensors->bytes, "checksum", hex(tensors->checksum));
    return json_pack_ex(
        error, 0,
        "{s:i, s:i, s:s, s:s, s:I, s:I, s:o, s:o, s:I, s:i, s:i, s:o, s:o, s:o*, s:s, s:s?, s:o, "
        "s:o, s:o, "
        "s:I, s:i, s:o, s:b, s:o*, s:o*, s:o, s:o}",
        "lockstep_checkpoint", FORMAT, "numerics", lks_numerics(), "version", lks_version(),
        "build", lks_build_info(), "step", (json_int_t)run->progress.step, "skipped_steps",
        (json_int_t)run->progress.skipped, "link", hex(run->progress.link), "seed", hex(run->seed),
        "global_batch", (json_int_t)run->global_batch, "replicas", run->replicas, "hash_every",
        run->hash_every, "data_hash", hex(run->data_hash), "test_hash", hex(run->test_hash),
        "vocabulary_hash", run->vocabulary_hash != 0 ? hex(run->vocabulary_hash) : NULL,
        "fingerprint", run->fingerprint ? run->fingerprint : "", "config", run->config, "so_far",
        print_metrics(&run->so_far), "so_far_seconds", real_or_null(run->so_far_seconds),
        "best_loss", real_or_null(run->best_loss), "best_step", (json_int_t)run->best_step,
        "bad_epochs", run->bad_epochs, "plateau", print_plateau(&run->plateau), "finished",
        run->finished, "loss_scale", print_loss_scale(&run->progress), "law",
        run->law != NULL ? json_string(run->law) : NULL, "history", run_print_history(run),
        "tensors", file);
}

lks_status lki_run_print(const lks_run *run, const char *tensors_name, const lki_identity *tensors,
                         char **text)
{
    const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(17);
    *text = NULL;
    const lki_text_caller caller = lki_text_enter();
    json_error_t error = {0};
    json_t *json = print_all(run, tensors_name, tensors, &error);
    const bool not_utf8 = !json && json_error_code(&error) == json_error_invalid_utf8;
    /* A writer that finds no memory for its own text leaves parts out: it gets the room first. */
    const size_t length = json ? json_dumpb(json, NULL, 0, flags) : 0;
    const size_t covered = length - 2; /* without the closing "\n}" */
    char *sealed = length > 0 ? malloc(length + SEAL_BYTES + 1) : NULL;
    const bool whole = sealed && json_dumpb(json, sealed, length, flags) == length;
    json_decref(json);
    lki_text_leave(caller);
    if (!whole) {
        free(sealed);
        if (not_utf8)
            return LKI_FAIL(LKS_E_INVALID,
                            "the checkpoint of step %lld cannot be written as JSON: the "
                            "configuration or the fingerprint is not UTF-8",
                            (long long)run->progress.step);
        return LKI_FAIL(LKS_E_NOMEM, "no memory to write the checkpoint of step %lld as JSON",
                        (long long)run->progress.step);
    }
    snprintf(sealed + covered, SEAL_BYTES + 1, SEAL_BEGIN "%016llx" SEAL_END,
             (unsigned long long)lki_hash(sealed, covered));
    *text = sealed;
    return LKS_OK;
}

static bool read_hex(const json_t *json, uint64_t *out)
{
    const char *text = json_string_value(json);
    if (!text || strlen(text) != HEX || strspn(text, "0123456789abcdef") != HEX) return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool read_real(const json_t *json, double *out)
{
    *out = json_is_null(json) ? (double)NAN : json_number_value(json);
    return json_is_null(json) || json_is_number(json);
}

/* Counts stay where sums and products of a few of them cannot overflow. */
static bool is_count(json_int_t value)
{
    return value >= 0 && value <= INT64_C(1) << 53;
}

enum { MOST_BAD = 1 << 30 };

static bool read_metrics(json_t *json, lks_metrics *out)
{
    json_int_t samples, correct, not_finite, counted;
    json_int_t top5 = 0; /* older records have none */
    json_t *high, *low;
    uint64_t loss_high;
    if (json_unpack(json, "{s:I, s:I, s?I, s:I, s?I, s:[o, o]}", "samples", &samples, "correct",
                    &correct, "top5", &top5, "not_finite", &not_finite, "counted", &counted,
                    "loss_sum", &high, &low) != 0 ||
        !read_hex(high, &loss_high) || !read_hex(low, &out->loss_low)) {
        return false;
    }
    out->samples = samples;
    out->correct = correct;
    out->top5 = top5;
    out->counted = json_object_get(json, "counted") == NULL ? samples : counted;
    out->not_finite = not_finite;
    out->loss_high = (int64_t)loss_high;
    return is_count(samples) && is_count(out->counted) && correct >= 0 && correct <= out->counted &&
           top5 >= 0 && top5 <= out->counted && not_finite >= 0 && not_finite <= out->counted;
}

/* Older records have none. */
static bool read_rates(json_t *json, lks_rates *out)
{
    double *value[] = {&out->precision, &out->recall, &out->f1};
    for (size_t i = 0; i < 3; i++) {
        const json_t *part = json_array_get(json, i);
        *value[i] = json == NULL ? (double)NAN : json_number_value(part);
        if (json != NULL && !(json_is_number(part) && *value[i] >= 0.0 && *value[i] <= 1.0))
            return false;
    }
    return json == NULL || json_array_size(json) == 3;
}

static bool read_epoch(json_t *json, lks_epoch *out)
{
    json_int_t epoch;
    json_t *train, *valid, *test, *rate, *seconds, *valid_rates = NULL, *test_rates = NULL;
    if (json_unpack(json, "{s:I, s:o, s:o, s:o, s:o, s:o, s?o, s?o}", "epoch", &epoch, "train",
                    &train, "valid", &valid, "test", &test, "learning_rate", &rate, "seconds",
                    &seconds, "valid_rates", &valid_rates, "test_rates", &test_rates) != 0) {
        return false;
    }
    out->epoch = epoch;
    return epoch >= 1 && is_count(epoch) && read_metrics(train, &out->train) &&
           read_metrics(valid, &out->valid) && read_metrics(test, &out->test) &&
           read_real(rate, &out->learning_rate) && read_real(seconds, &out->seconds) &&
           read_rates(valid_rates, &out->valid_rates) && read_rates(test_rates, &out->test_rates);
}

static bool read_history(json_t *json, lks_run *run)
{
    const size_t epochs = json_array_size(json);
    run->history = calloc(epochs + 1, sizeof *run->history);
    run->epochs = (int64_t)epochs;
    bool valid = json_is_array(json) && run->history;
    for (size_t i = 0; valid && i < epochs; i++) {
        valid = read_epoch(json_array_get(json, i), &run->history[i]);
    }
    return valid;
}

/* Records of before there were plateaus have none. */
static bool read_plateau(json_t *json, lks_plateau *out)
{
    json_t *lr, *best;
    if (json == NULL || json_is_null(json)) return true;
    return json_unpack(json, "{s:o, s:o, s:i}", "lr", &lr, "best", &best, "bad", &out->bad) == 0 &&
           read_real(lr, &out->lr) && read_real(best, &out->best) && out->lr > 0.0 &&
           out->bad >= 0 && out->bad <= MOST_BAD;
}

static bool read_tensors(json_t *json, lki_identity *out)
{
    json_int_t bytes;
    json_t *checksum;
    if (json_unpack(json, "{s:I, s:o}", "bytes", &bytes, "checksum", &checksum) != 0) return false;
    out->bytes = (size_t)bytes;
    return bytes >= 0 && read_hex(checksum, &out->checksum);
}

static bool read_loss_scale(json_t *json, lks_progress *out)
{
    double scale;
    json_int_t good, ups, downs;
    if (json == NULL) return true;
    if (json_unpack(json, "{s:f, s:I, s:I, s:I}", "scale", &scale, "good", &good, "ups", &ups,
                    "downs", &downs) != 0)
        return false;
    out->loss_scale = scale;
    out->scale_good = good;
    out->scale_ups = ups;
    out->scale_downs = downs;
    return scale >= 1 && scale <= 0x1p60 && frexp(scale, &(int){0}) == 0.5 && is_count(good) &&
           is_count(ups) && is_count(downs);
}

/* Everything of the record; false leaves `run` half filled. */
static bool read_all(json_t *json, lks_run *run, lki_identity *tensors)
{
    json_int_t step, skipped = 0, global_batch, best_step;
    json_t *link, *seed, *data, *config, *so_far, *seconds, *best, *history, *file;
    json_t *test = NULL, *vocabulary = NULL, *plateau = NULL,
           *scale = NULL; /* older records have none */
    const char *fingerprint, *law = NULL;
    int finished;
    run->numerics = 1; /* of records that do not say */
    if (json_unpack(json,
                    "{s?:i, s:I, s?:I, s:o, s:o, s:I, s:i, s:i, s:o, s?:o, s?:o, s:s, s:o, s:o, "
                    "s:o, s:o, s:I, s:i, "
                    "s?:o, s:b, s?:o, s?:s, s:o, s:o}",
                    "numerics", &run->numerics, "step", &step, "skipped_steps", &skipped, "link",
                    &link, "seed", &seed, "global_batch", &global_batch, "replicas", &run->replicas,
                    "hash_every", &run->hash_every, "data_hash", &data, "test_hash", &test,
                    "vocabulary_hash", &vocabulary, "fingerprint", &fingerprint, "config", &config,
                    "so_far", &so_far, "so_far_seconds", &seconds, "best_loss", &best, "best_step",
                    &best_step, "bad_epochs", &run->bad_epochs, "plateau", &plateau, "finished",
                    &finished, "loss_scale", &scale, "law", &law, "history", &history, "tensors",
                    &file) != 0) {
        return false;
    }
    run->progress.step = step;
    run->progress.skipped = skipped;
    run->global_batch = global_batch;
    run->best_step = best_step;
    run->finished = finished != 0;
    run->fingerprint = strdup(fingerprint);
    run->law = law != NULL ? strdup(law) : NULL;
    run->config = json_is_string(config) ? strdup(json_string_value(config)) : NULL;
    return run->fingerprint && (run->law || !law) && (run->config || json_is_null(config)) &&
           is_count(step) && skipped >= 0 && skipped <= step && global_batch >= 1 &&
           run->replicas >= 1 && run->hash_every >= 1 && best_step >= -1 && run->bad_epochs >= 0 &&
           run->bad_epochs <= MOST_BAD && read_hex(link, &run->progress.link) &&
           read_hex(seed, &run->seed) && read_hex(data, &run->data_hash) &&
           (!test || read_hex(test, &run->test_hash)) &&
           (!vocabulary || read_hex(vocabulary, &run->vocabulary_hash)) &&
           read_metrics(so_far, &run->so_far) && read_real(seconds, &run->so_far_seconds) &&
           read_real(best, &run->best_loss) && read_plateau(plateau, &run->plateau) &&
           read_loss_scale(scale, &run->progress) && read_history(history, run) &&
           read_tensors(file, tensors);
}

/* The file is whole and as it was written. */
static lks_status check_seal(const char *path, const char *text, size_t bytes)
{
    const size_t covered = bytes > SEAL_BYTES ? bytes - SEAL_BYTES : 0;
    char expected[SEAL_BYTES + 1];
    snprintf(expected, sizeof expected, SEAL_BEGIN "%016llx" SEAL_END,
             (unsigned long long)lki_hash(text, covered));
    if (covered > 0 && memcmp(text + covered, expected, SEAL_BYTES) == 0) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' is damaged: its last line is not the checksum of the lines before it",
                    path);
}

/* Whoever hears that it is no checkpoint removes it: a lack of memory is told apart. */
static lks_status fill(const char *path, json_t *json, bool no_memory, lks_run *run,
                       lki_identity *tensors)
{
    errno = 0;
    if (json_is_integer(json_object_get(json, "lockstep_checkpoint")) &&
        read_all(json, run, tensors))
        return LKS_OK;
    if (no_memory || errno == ENOMEM) return LKI_FAIL(LKS_E_NOMEM, "no memory to read '%s'", path);
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' is not a checkpoint of Lockstep: an entry is missing or not valid", path);
}

lks_status lki_run_parse(const char *path, const void *text, size_t bytes, lks_run *run,
                         lki_identity *tensors)
{
    LKI_TRY(check_seal(path, text, bytes));
    const lki_text_caller caller = lki_text_enter();
    bool no_memory;
    json_t *json = lki_json_load(text, bytes, NULL, &no_memory);
    lki_text_leave(caller);
    const json_t *format = json_object_get(json, "lockstep_checkpoint");
    lks_run found = {0};
    lki_identity named;
    lks_status status = LKS_OK;
    if (!no_memory && json_is_integer(format) && json_integer_value(format) > FORMAT) {
        const char *version = json_string_value(json_object_get(json, "version"));
        status = LKI_FAIL(LKS_E_FORMAT,
                          "'%s' has checkpoint format %lld, written by Lockstep %s; this is "
                          "Lockstep %s, which reads format %d: use the newer program",
                          path, (long long)json_integer_value(format), version ? version : "?",
                          lks_version(), FORMAT);
    } else {
        status = fill(path, no_memory ? NULL : json, no_memory, &found, &named);
    }
    json_decref(json);
    if (status == LKS_OK) {
        *run = found;
        *tensors = named;
    } else {
        lks_run_clear(&found);
    }
    return status;
}
