/* The record of a checkpoint: its text to the letter, and what is read of it at every limit. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric/hash.h"
#include "support/test.h"
#include "train/run.h"

static const lki_identity TENSORS = {.bytes = 4096, .checksum = UINT64_C(0xabcdef0123456789)};

/* Step 13, of which 2 were skipped, in the second of its epochs. */
static lks_run make_run(lks_epoch history[1])
{
    history[0] = (lks_epoch){.epoch = 1,
                             .train = {53, 20, 1, -3, UINT64_MAX, 31, 53},
                             .valid = {10, 3, 2, INT64_MAX, 1, 8, 90},
                             .test = {7, 7, 0, INT64_MIN, 0, 7, 7},
                             .learning_rate = 0.25,
                             .seconds = 0.5,
                             .valid_rates = {(double)NAN, (double)NAN, (double)NAN},
                             .test_rates = {0.5, 0.25, 0.375}};
    return (lks_run){.progress = {.step = 13, .link = 0x1234, .skipped = 2},
                     .seed = UINT64_MAX,
                     .global_batch = 8,
                     .replicas = 4,
                     .hash_every = 10,
                     .data_hash = UINT64_C(0xfedcba9876543210),
                     .test_hash = UINT64_C(0x8000000000000001),
                     .fingerprint = "a device",
                     .config = "{\"x\": 1}",
                     .so_far = {8, 2, 1, 1, 2, 2, 8},
                     .so_far_seconds = 0.125,
                     .best_loss = 1.5,
                     .best_step = 7,
                     .bad_epochs = 3,
                     .plateau = {.lr = 0.0625, .best = 2.5, .bad = 1},
                     .finished = true,
                     .history = history,
                     .epochs = 1};
}

static char *print_run(void)
{
    lks_epoch history[1];
    char *text;
    const lks_run run = make_run(history);
    LKT_OK(lki_run_print(&run, "step-00000013.safetensors", &TENSORS, &text));
    return text;
}

static const char BEGIN[] = "{\n  \"lockstep_checkpoint\": 1,\n  \"numerics\": %d,\n"
                            "  \"version\": \"%s\",\n  \"build\": \"%s\",\n";
static const char END[] = ",\n  \"checksum\": \"%016" PRIx64 "\"\n}\n";
static const char MIDDLE[] = "  \"step\": 13,\n"
                             "  \"skipped_steps\": 2,\n"
                             "  \"link\": \"0000000000001234\",\n"
                             "  \"seed\": \"ffffffffffffffff\",\n"
                             "  \"global_batch\": 8,\n"
                             "  \"replicas\": 4,\n"
                             "  \"hash_every\": 10,\n"
                             "  \"data_hash\": \"fedcba9876543210\",\n"
                             "  \"test_hash\": \"8000000000000001\",\n"
                             "  \"fingerprint\": \"a device\",\n"
                             "  \"config\": \"{\\\"x\\\": 1}\",\n"
                             "  \"so_far\": {\n"
                             "    \"samples\": 8,\n"
                             "    \"correct\": 2,\n"
                             "    \"top5\": 2,\n"
                             "    \"not_finite\": 1,\n"
                             "    \"loss_sum\": [\n"
                             "      \"0000000000000001\",\n"
                             "      \"0000000000000002\"\n"
                             "    ]\n"
                             "  },\n"
                             "  \"so_far_seconds\": 0.125,\n"
                             "  \"best_loss\": 1.5,\n"
                             "  \"best_step\": 7,\n"
                             "  \"bad_epochs\": 3,\n"
                             "  \"plateau\": {\n"
                             "    \"lr\": 0.0625,\n"
                             "    \"best\": 2.5,\n"
                             "    \"bad\": 1\n"
                             "  },\n"
                             "  \"finished\": true,\n"
                             "  \"history\": [\n"
                             "    {\n"
                             "      \"epoch\": 1,\n"
                             "      \"train\": {\n"
                             "        \"samples\": 53,\n"
                             "        \"correct\": 20,\n"
                             "        \"top5\": 31,\n"
                             "        \"not_finite\": 1,\n"
                             "        \"loss_sum\": [\n"
                             "          \"fffffffffffffffd\",\n"
                             "          \"ffffffffffffffff\"\n"
                             "        ]\n"
                             "      },\n"
                             "      \"valid\": {\n"
                             "        \"samples\": 10,\n"
                             "        \"correct\": 3,\n"
                             "        \"top5\": 8,\n"
                             "        \"not_finite\": 2,\n"
                             "        \"loss_sum\": [\n"
                             "          \"7fffffffffffffff\",\n"
                             "          \"0000000000000001\"\n"
                             "        ],\n"
                             "        \"counted\": 90\n"
                             "      },\n"
                             "      \"test\": {\n"
                             "        \"samples\": 7,\n"
                             "        \"correct\": 7,\n"
                             "        \"top5\": 7,\n"
                             "        \"not_finite\": 0,\n"
                             "        \"loss_sum\": [\n"
                             "          \"8000000000000000\",\n"
                             "          \"0000000000000000\"\n"
                             "        ]\n"
                             "      },\n"
                             "      \"learning_rate\": 0.25,\n"
                             "      \"seconds\": 0.5,\n"
                             "      \"test_rates\": [\n"
                             "        0.5,\n"
                             "        0.25,\n"
                             "        0.375\n"
                             "      ]\n"
                             "    }\n"
                             "  ],\n"
                             "  \"tensors\": {\n"
                             "    \"file\": \"step-00000013.safetensors\",\n"
                             "    \"bytes\": 4096,\n"
                             "    \"checksum\": \"abcdef0123456789\"\n"
                             "  }";

static void is_printed_to_the_letter(void **state)
{
    (void)state;
    char begin[1024], end[64];
    char *text = print_run();
    const size_t first = (size_t)snprintf(begin, sizeof begin, BEGIN, lks_numerics(), lks_version(),
                                          lks_build_info());
    assert_true(strncmp(text, begin, first) == 0);
    assert_true(strncmp(text + first, MIDDLE, strlen(MIDDLE)) == 0);
    const size_t covered = first + strlen(MIDDLE);
    snprintf(end, sizeof end, END, lki_hash(text, covered));
    assert_string_equal(text + covered, end);
    free(text);
}

/* ---------------------------------------------------------------- reading */

/* The text with `find` exchanged for `put`, and the right checksum; freed with free(). */
static char *edit(const char *find, const char *put)
{
    const size_t tail = strlen(",\n  \"checksum\": \"0123456789abcdef\"\n}\n");
    char *text = print_run(), *edited = malloc(strlen(text) + strlen(put) + 1), sum[17];
    assert_non_null(edited);
    const char *at = strstr(text, find);
    if (at == NULL) fail_msg("there is no '%s' in the record", find);
    sprintf(edited, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    snprintf(sum, sizeof sum, "%016" PRIx64, lki_hash(edited, strlen(edited) - tail));
    memcpy(edited + strlen(edited) - 20, sum, 16);
    free(text);
    return edited;
}

/* What a failure leaves alone. */
static const lki_identity BEFORE = {.bytes = 1, .checksum = 2};

static lks_status parse(const char *find, const char *put, lks_run *run, lki_identity *tensors)
{
    char *text = edit(find, put);
    *run = (lks_run){.replicas = 99};
    *tensors = BEFORE;
    const lks_status status = lki_run_parse("r.json", text, strlen(text), run, tensors);
    free(text);
    return status;
}

typedef struct change {
    const char *find, *put;
} change;

static void takes(const change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lks_run run;
        lki_identity tensors;
        if (parse(changes[i].find, changes[i].put, &run, &tensors) != LKS_OK)
            fail_msg("%s is not read: %s", changes[i].put, lks_last_error()->message);
        lks_run_clear(&run);
    }
}

static void refuses(const change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lks_run run;
        lki_identity tensors;
        if (parse(changes[i].find, changes[i].put, &run, &tensors) == LKS_OK)
            fail_msg("%s is read", changes[i].put);
        assert_int_equal(lks_last_error()->status, LKS_E_FORMAT);
        assert_string_equal(
            lks_last_error()->message,
            "'r.json' is not a checkpoint of Lockstep: an entry is missing or not valid");
        assert_true(run.replicas == 99 && run.fingerprint == NULL && run.history == NULL);
        assert_memory_equal(&tensors, &BEFORE, sizeof tensors);
    }
}

/* Both sides of every limit. */
static void numbers_have_limits(void **state)
{
    (void)state;
    const change good[] = {{"\"step\": 13", "\"step\": 2"},
                           {"\"step\": 13", "\"step\": 9007199254740992"},
                           {"\"skipped_steps\": 2", "\"skipped_steps\": 0"},
                           {"\"skipped_steps\": 2", "\"skipped_steps\": 13"},
                           {"\"global_batch\": 8", "\"global_batch\": 1"},
                           {"\"replicas\": 4", "\"replicas\": 1"},
                           {"\"hash_every\": 10", "\"hash_every\": 1"},
                           {"\"best_step\": 7", "\"best_step\": -1"},
                           {"\"bad_epochs\": 3", "\"bad_epochs\": 0"},
                           {"\"bad_epochs\": 3", "\"bad_epochs\": 1073741824"},
                           {"\"bad\": 1\n", "\"bad\": 0\n"},
                           {"\"bad\": 1\n", "\"bad\": 1073741824\n"},
                           {"\"samples\": 8", "\"samples\": 2"},
                           {"\"samples\": 8", "\"samples\": 9007199254740992"},
                           {"\"correct\": 2,", "\"correct\": 0,"},
                           {"\"correct\": 2,", "\"correct\": 8,"},
                           {"\"top5\": 2,", "\"top5\": 0,"},
                           {"\"top5\": 2,", "\"top5\": 8,"},
                           {"\"not_finite\": 1", "\"not_finite\": 0"},
                           {"\"not_finite\": 1", "\"not_finite\": 8"},
                           {"\"epoch\": 1", "\"epoch\": 9007199254740992"},
                           {"        0.25,\n", "        0,\n"},
                           {"        0.25,\n", "        1.0,\n"},
                           {"\"bytes\": 4096", "\"bytes\": 0"}};
    const change bad[] = {{"\"step\": 13", "\"step\": 1"}, /* fewer than were skipped */
                          {"\"step\": 13", "\"step\": -1"},
                          {"\"step\": 13", "\"step\": 9007199254740993"},
                          {"\"skipped_steps\": 2", "\"skipped_steps\": -1"},
                          {"\"skipped_steps\": 2", "\"skipped_steps\": 14"},
                          {"\"global_batch\": 8", "\"global_batch\": 0"},
                          {"\"replicas\": 4", "\"replicas\": 0"},
                          {"\"hash_every\": 10", "\"hash_every\": 0"},
                          {"\"best_step\": 7", "\"best_step\": -2"},
                          {"\"bad_epochs\": 3", "\"bad_epochs\": -1"},
                          {"\"bad_epochs\": 3", "\"bad_epochs\": 1073741825"},
                          {"\"bad\": 1\n", "\"bad\": -1\n"},
                          {"\"bad\": 1\n", "\"bad\": 1073741825\n"},
                          {"\"samples\": 8", "\"samples\": 1"}, /* fewer than are right */
                          {"\"samples\": 8", "\"samples\": 9007199254740993"},
                          {"\"correct\": 2,", "\"correct\": -1,"},
                          {"\"correct\": 2,", "\"correct\": 9,"},
                          {"\"top5\": 2,", "\"top5\": -1,"},
                          {"\"top5\": 2,", "\"top5\": 9,"},
                          {"\"not_finite\": 1", "\"not_finite\": -1"},
                          {"\"not_finite\": 1", "\"not_finite\": 9"},
                          {"\"counted\": 90", "\"counted\": -1"},
                          {"\"counted\": 90", "\"counted\": 7"}, /* fewer than among the five */
                          {"\"epoch\": 1", "\"epoch\": 0"},
                          {"\"epoch\": 1", "\"epoch\": 9007199254740993"},
                          {"\"lr\": 0.0625", "\"lr\": 0.0"},
                          {"\"lr\": 0.0625", "\"lr\": null"},
                          {"        0.25,\n", "        -0.25,\n"},
                          {"        0.25,\n", "        1.25,\n"},
                          {"        0.25,\n", ""},
                          {"        0.25,\n", "        0.25,\n 0.25,\n"},
                          {"        0.25,\n", "        null,\n"},
                          {"\"bytes\": 4096", "\"bytes\": -1"}};
    takes(good, sizeof good / sizeof *good);
    refuses(bad, sizeof bad / sizeof *bad);
}

/* Every entry has its type; 64 bits are 16 small digits; a real number may be null. */
static void entries_have_types(void **state)
{
    (void)state;
    const change good[] = {{"\"best_loss\": 1.5", "\"best_loss\": 2"},
                           {"\"so_far_seconds\": 0.125", "\"so_far_seconds\": null"},
                           {"\"learning_rate\": 0.25", "\"learning_rate\": null"},
                           {"\"seconds\": 0.5", "\"seconds\": null"},
                           {"\"best\": 2.5", "\"best\": null"}};
    const change bad[] = {{"\"link\": \"0000000000001234", "\"link\": \"000000000000123"},
                          {"\"link\": \"0000000000001234", "\"link\": \"00000000000012345"},
                          {"\"link\": \"0000000000001234", "\"link\": \"000000000000123A"},
                          {"\"link\": \"0000000000001234", "\"link\": \"0x00000000001234"},
                          {"\"link\": \"0000000000001234\"", "\"link\": 1234567890123456"},
                          {"\"seed\": \"f", "\"seed\": \"g"},
                          {"\"data_hash\": \"f", "\"data_hash\": \" "},
                          {"\"test_hash\": \"8", "\"test_hash\": \"+"},
                          {"\"fingerprint\": \"a device\"", "\"fingerprint\": null"},
                          {"\"config\": \"{\\\"x\\\": 1}\"", "\"config\": 1"},
                          {"\"best_loss\": 1.5", "\"best_loss\": \"1.5\""},
                          {"\"so_far_seconds\": 0.125", "\"so_far_seconds\": true"},
                          {"\"learning_rate\": 0.25", "\"learning_rate\": []"},
                          {"\"seconds\": 0.5", "\"seconds\": \"\""},
                          {"\"best\": 2.5", "\"best\": {}"},
                          {"\"lr\": 0.0625", "\"lr\": \"0.0625\""},
                          {"      \"0000000000000001\",\n      \"0", "      \"0"},
                          {"\"0000000000000002\"", "\"000000000000000\""},
                          {"\"fffffffffffffffd\"", "\"fffffffffffffff\""},
                          {"\"7fffffffffffffff\"", "\"7ffffffffffffff\""},
                          {"\"8000000000000000\"", "\"800000000000000\""},
                          {"\"samples\": 53", "\"samples\": 5.3"},
                          {"\"checksum\": \"abcdef", "\"checksum\": \"ABCDEF"},
                          {"\"step\": 13,", "\"step\": 13, \"step\": 13,"},
                          {"\"lockstep_checkpoint\": 1", "\"lockstep_checkpoint\": 1.0"},
                          {"{\n  \"lock", "[\n  \"lock"},
                          {"\"history\": [\n    {", "\"history\": [\n    1, {"}};
    takes(good, sizeof good / sizeof *good);
    refuses(bad, sizeof bad / sizeof *bad);
}

static void all_comes_back(void **state)
{
    (void)state;
    lks_epoch history[1];
    const lks_run run = make_run(history);
    lks_run found;
    lki_identity tensors;
    LKT_OK(parse("\"step\": 13", "\"step\": 13", &found, &tensors));
    assert_int_equal(found.numerics, lks_numerics());
    assert_memory_equal(&found.progress, &run.progress, sizeof run.progress);
    assert_memory_equal(&found.so_far, &run.so_far, sizeof run.so_far);
    assert_memory_equal(&found.plateau.lr, &run.plateau.lr, sizeof run.plateau.lr);
    assert_memory_equal(&found.plateau.best, &run.plateau.best, sizeof run.plateau.best);
    assert_int_equal(found.plateau.bad, run.plateau.bad);
    assert_memory_equal(found.history, history, sizeof history);
    assert_int_equal(found.epochs, 1);
    assert_memory_equal(&tensors, &TENSORS, sizeof tensors);
    assert_true(found.finished);
    lks_run_clear(&found);
    assert_null(found.config);
    lks_run_clear(NULL);
}

/* What older records do not have. */
static void what_was_not_written_has_a_value(void **state)
{
    (void)state;
    lks_run run;
    lki_identity tensors;
    LKT_OK(parse("\"numerics\"", "\"numerical\"", &run, &tensors));
    assert_int_equal(run.numerics, 1);
    lks_run_clear(&run);
    LKT_OK(parse("\"skipped_steps\"", "\"skipped\"", &run, &tensors));
    assert_int_equal(run.progress.skipped, 0);
    lks_run_clear(&run);
    LKT_OK(parse("\"test_hash\"", "\"hash_of_test\"", &run, &tensors));
    assert_int_equal(run.test_hash, 0);
    assert_true(run.data_hash != 0);
    lks_run_clear(&run);
    LKT_OK(parse("\"config\": \"{\\\"x\\\": 1}\"", "\"config\": null", &run, &tensors));
    assert_null(run.config);
    lks_run_clear(&run);
    LKT_OK(parse("\"finished\": true", "\"finished\": false", &run, &tensors));
    assert_false(run.finished);
    lks_run_clear(&run);
    LKT_OK(parse("\"best\": 2.5", "\"best\": null", &run, &tensors));
    assert_true(isnan(run.plateau.best) && run.plateau.lr == 0.0625);
    lks_run_clear(&run);
}

static void newer_formats_name_their_program(void **state)
{
    (void)state;
    lks_run run;
    lki_identity tensors;
    char expected[300];
    snprintf(expected, sizeof expected,
             "'r.json' has checkpoint format 2, written by Lockstep %s; this is Lockstep %s, which "
             "reads format 1: use the newer program",
             lks_version(), lks_version());
    LKT_FAILS(LKS_E_FORMAT, expected,
              parse("\"lockstep_checkpoint\": 1", "\"lockstep_checkpoint\": 2", &run, &tensors));
    char version[64];
    snprintf(version, sizeof version, "1,\n  \"numerics\": %d,\n  \"version\"", lks_numerics());
    char other[80];
    snprintf(other, sizeof other, "7,\n  \"numerics\": %d,\n  \"varsion\"", lks_numerics());
    LKT_FAILS(LKS_E_FORMAT, "has checkpoint format 7, written by Lockstep ?; this is Lockstep ",
              parse(version, other, &run, &tensors));
}

/* A seal of nothing is none. */
static void seals_cover_something(void **state)
{
    (void)state;
    lks_run run;
    lki_identity tensors;
    char text[64];
    snprintf(text, sizeof text, END, lki_hash("", 0));
    LKT_FAILS(LKS_E_FORMAT,
              "'r' is damaged: its last line is not the checksum of the lines before it",
              lki_run_parse("r", text, strlen(text), &run, &tensors));
    snprintf(text, sizeof text, "{\"a\": 1%c", '\0');
    const size_t covered = strlen(text);
    snprintf(text + covered, sizeof text - covered, END, lki_hash(text, covered));
    LKT_FAILS(LKS_E_FORMAT, "'r' is not a checkpoint of Lockstep",
              lki_run_parse("r", text, strlen(text), &run, &tensors));
    LKT_FAILS(LKS_E_FORMAT, "'r' is damaged",
              lki_run_parse("r", text, strlen(text) - 1, &run, &tensors));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_printed_to_the_letter),
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(entries_have_types),
        cmocka_unit_test(all_comes_back),
        cmocka_unit_test(what_was_not_written_has_a_value),
        cmocka_unit_test(newer_formats_name_their_program),
        cmocka_unit_test(seals_cover_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
