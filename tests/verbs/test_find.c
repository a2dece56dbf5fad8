/* lockstep find: the rates that are tried, what is suggested, the same for any number of workers; sizes of batches,
 * and what ends them. */
#include "cli/program.h"

#include <math.h>

static const char net[] = "data: {name: digits, samples: 600, test_samples: 100, mean: 0.13}\n"
                          "model: {name: mlp, hidden: [16]}\n"
                          "train: {batch_size: 50, replicas: 4, seed: 3}\n"
                          "optimizer: {name: sgd, lr: 0.1}\n";

static double element(const json_t *json, const char *key, size_t at)
{
    return json_number_value(json_array_get(json_object_get(json, key), at));
}

/* Which of the rates a number is. */
static size_t place_of(const json_t *json, double rate)
{
    size_t i = 0;
    const size_t count = json_array_size(json_object_get(json, "rate"));
    while (i < count && element(json, "rate", i) != rate) i++;
    assert_true(i < count);
    return i;
}

static double mean_of(const json_t *json, size_t first, size_t count)
{
    double sum = 0;
    for (size_t i = first; i < first + count; i++) sum += element(json, "loss", i);
    return sum / (double)count;
}

/* A suggestion is a rate at which this network learns: half-way down, between rates that change nothing and those
 * at which the loss grows. */
static void rates_grow_until_the_loss_does(void **state)
{
    (void)state;
    static char first[OUTPUT_SIZE];
    write_text("c.yaml", net);
    run("find lr c.yaml --from 1e-4 --to 1000 --steps 150 --format json --workers 1");
    expect_ok();
    memcpy(first, last.out, sizeof first);
    json_t *json = read_json_text(last.out);
    const size_t done = json_array_size(json_object_get(json, "rate"));
    assert_int_equal(json_array_size(json_object_get(json, "loss")), done);
    assert_int_equal(json_array_size(json_object_get(json, "smoothed")), done);
    assert_true(done > 20 && done < 150);
    for (size_t i = 0; i < done; i++) {
        const double wanted = 1e-4 * pow(1e7, (double)i / 149);
        assert_true(fabs(element(json, "rate", i) / wanted - 1) < 1e-12);
    }
    const double suggestion = json_number_of(json, "suggestion"),
                 least = json_number_of(json, "least");
    assert_true(suggestion > 0.01 && suggestion < least && least < 10);
    /* The loss falls there, and is smallest where that is said. */
    const size_t at = place_of(json, suggestion), end = place_of(json, least);
    assert_true(mean_of(json, at - 6, 6) > mean_of(json, at + 1, 6));
    for (size_t i = 0; i < done; i++)
        assert_true(element(json, "smoothed", i) >= element(json, "smoothed", end));
    /* It has ended where the loss had grown, and is not bent by that before. */
    assert_true(element(json, "loss", done - 1) > 2 * element(json, "loss", 0));
    /* A loss that has grown counts as twice what it began with; a line through some overshoots a little. */
    for (size_t i = 0; i < done; i++)
        assert_true(element(json, "smoothed", i) < 2.5 * mean_of(json, 0, 10));
    for (size_t i = 0; i < end; i++) {
        const double near = mean_of(json, i < 5 ? 0 : i - 5, i < 5 ? i + 6 : 11);
        assert_true(fabs(element(json, "smoothed", i) / near - 1) < 0.12);
    }
    json_decref(json);
    for (int workers = 2; workers <= 4; workers++) {
        run("find lr c.yaml --from 1e-4 --to 1000 --steps 150 --format json --workers %d", workers);
        expect_ok();
        assert_string_equal(last.out, first);
    }
}

static void sweeps_are_shown_and_written(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    write_text("c.yaml", net);
    run("find lr c.yaml --from 1e-3 --to 1 --steps 40 --csv f.csv --svg f.svg");
    expect_ok();
    expect_out("c.yaml: sgd, batch 50, rates from 0.001 to 1 in 40 steps\n\n"
               "loss over the learning rate\n");
    expect_out("  rate\na: smoothed, b: the loss of each step\n\nThe loss is least, ");
    expect_out(" and falls fastest at\nsuggestion  optimizer.lr ");
    read_text(text, "f.csv");
    assert_memory_equal(text, "rate,loss,smoothed\n0.001,", 25);
    int lines = 0;
    for (const char *c = text; *c != '\0'; c++) lines += *c == '\n';
    assert_int_equal(lines, 41);
    read_text(text, "f.svg");
    assert_non_null(strstr(text, ">rate</text>"));
    assert_non_null(strstr(text, "</svg>"));
    run("find lr c.yaml --from 1e-12 --to 1e-10 --steps 40 --format json");
    expect_ok();
    json_t *json = read_json_text(last.out);
    assert_true(json_is_null(json_object_get(json, "suggestion")));
    json_decref(json);
    run("find lr c.yaml --from 1e-12 --to 1e-10 --steps 40");
    expect_out("The loss falls nowhere: try other rates (--from, --to) or more steps (--steps).\n");
}

static void sizes_go_as_far_as_samples_and_memory(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    run("find batch c.yaml --seconds 0.01 --format json");
    expect_ok();
    json_t *json = read_json_text(last.out), *size;
    const json_t *sizes = json_object_get(json, "sizes");
    double before = 0, budget = 0, fastest = 0, suggested = 0;
    int64_t batch = 4; /* the replicas */
    size_t i;
    json_array_foreach(sizes, i, size)
    {
        const json_t *speed = json_object_get(size, "samples_per_second");
        assert_int_equal(json_number_of(size, "batch"), batch);
        assert_true(json_number_of(size, "memory_bytes") > before);
        before = json_number_of(size, "memory_bytes");
        if (batch == 128) budget = before;
        if (json_is_number(speed)) fastest = fmax(fastest, json_number_value(speed));
        if (json_number_of(json, "suggestion") == (double)batch)
            suggested = json_number_value(speed);
        batch *= 2;
    }
    assert_int_equal(batch, 1024); /* 512 of 600 samples are a batch, 1024 are none */
    assert_int_equal(json_number_of(json, "largest"), 512);
    /* It is as fast as any, but for what was not worth its size. */
    assert_true(suggested > 0.93 * 0.95 * fastest);
    json_decref(json);
    run("find batch c.yaml --seconds 0.01 --memory %.0f", budget);
    expect_ok();
    expect_out("\nThe largest is 128: the next does not fit into --memory.\nsuggestion  "
               "train.batch_size ");
    run("find batch c.yaml --seconds 0.01 --memory %.6fkB", 1e-3 * (budget - 1));
    expect_out("\nThe largest is 64: ");
    run("find batch c.yaml --seconds 0.01");
    expect_out("\nThe largest is 512: there are no more samples.\n");
    run("find batch c.yaml --seconds 0.01 --set data.samples=512"); /* all of them are a batch */
    expect_out("\nThe largest is 512: there are no more samples.\n");
}

/* By the speeds that it gives: how many sizes it measures. A size is worth its samples with 2% more; two that are not
 * are tried. */
static size_t worth_measuring(const json_t *sizes)
{
    double best = 0;
    size_t fastest = 0;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *speed = json_object_get(json_array_get(sizes, i), "samples_per_second");
        if (i > fastest + 2) return i;
        if (!json_is_number(speed)) fail_msg("size %zu is not measured", i);
        if (json_number_value(speed) <= 1.02 * best) continue;
        best = json_number_value(speed);
        fastest = i;
    }
    return json_array_size(sizes);
}

/* A machine that is busy may find one more of 14 sizes faster, again and again; but not every time. */
static void no_size_is_measured_behind_two_in_vain(void **state)
{
    (void)state;
    bool some = false;
    write_text("c.yaml", net);
    for (int i = 0; i < 5 && !some; i++) {
        run("find batch c.yaml --seconds 0.001 --workers 1 --format json --set data.samples=60000");
        expect_ok();
        json_t *json = read_json_text(last.out);
        const json_t *sizes = json_object_get(json, "sizes");
        const size_t measured = worth_measuring(sizes);
        assert_int_equal(json_array_size(sizes), 14);
        for (size_t k = measured; k < json_array_size(sizes); k++) {
            assert_true(
                json_is_null(json_object_get(json_array_get(sizes, k), "samples_per_second")));
            some = true;
        }
        json_decref(json);
    }
    assert_true(some);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    run("find c.yaml");
    expect(2, "find");
    run("find rate c.yaml");
    expect(2, "find 'rate': it finds lr or batch, of a configuration");
    run("find lr c.yaml --from 1 --to 0.1");
    expect(2, "--from is 1 and --to 0.1, expected a rate that grows");
    run("find lr c.yaml --from 0");
    expect(2, "--from is '0', expected a number above 0");
    run("find lr c.yaml --steps 3");
    expect(2, "train.steps is 3, expected from 20 to 100000 steps of a sweep");
    run("find lr c.yaml --csv a --svg a");
    expect(2, "a");
    run("find lr c.yaml --csv none/a");
    expect(3, "none/a");
    run("find lr c.yaml --from 100 --to 1e30");
    expect(6, "begin with a smaller one: --from ");
    run("find lr none.yaml");
    expect(3, "none.yaml");
    run("find batch c.yaml --memory 3X");
    expect(2, "--memory is '3X', expected bytes such as 800M or 4G");
    run("find batch c.yaml --memory 1K");
    expect(7, "--memory is less than 4 samples take; give it more");
    run("find batch c.yaml --seconds -1");
    expect(2, "--seconds is '-1', expected a number above 0");
    run("find batch c.yaml --seconds 0.01 --csv a");
    expect(2, "--csv is of 'find lr', which 'find batch' has no use for; drop it\n");
    run("find batch c.yaml --seconds 0.01 --steps 40");
    expect(2, "--steps is of 'find lr'");
    run("find lr c.yaml --steps 40 --memory 4G");
    expect(2, "--memory is of 'find batch', which 'find lr' has no use for; drop it\n");
}

/* Each step is a rate: of a few the curve is smoothed over decades, and what it suggests may be anywhere there. */
static void few_steps_are_told(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    run("find lr c.yaml --from 1e-4 --to 1 --steps 20");
    expect(0, "lockstep: 20 steps are few for rates from 0.0001 to 1: losses are smoothed over a "
              "factor of 4, and the suggestion may be wrong by as much; give --steps 25 or more\n");
    expect_out("suggestion  optimizer.lr ");
    run("find lr c.yaml --from 1e-4 --to 1 --steps 25");
    expect_ok();
    assert_string_equal(last.err, "");
    expect_out("suggestion  optimizer.lr ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rates_grow_until_the_loss_does),
        TEST(sweeps_are_shown_and_written),
        TEST(sizes_go_as_far_as_samples_and_memory),
        TEST(no_size_is_measured_behind_two_in_vain),
        TEST(mistakes_are_explained),
        TEST(few_steps_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
