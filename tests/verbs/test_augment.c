/* lockstep train with data.augment: the same bits, resumed too; and what the network sees. */
#include "cli/program.h"

static const char config[] = "data:\n"
                             "  samples: 300\n"
                             "  test_samples: 50\n"
                             "  augment:\n"
                             "    - crop: {padding: 3, fill: reflect}\n"
                             "    - flip\n"
                             "    - rotate: {degrees: 10, interpolation: bilinear}\n"
                             "    - translate: [1, 2]\n"
                             "    - resized_crop: {scale: 0.5}\n"
                             "    - cutout: 5\n"
                             "    - jitter: {brightness: 0.4, contrast: 0.2}\n"
                             "model: {name: mlp, hidden: [16]}\n"
                             "train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3}\n";

static void same_bits_however_it_runs(void **state)
{
    (void)state;
    char first[32], other[32];
    write_text("c.yaml", config);
    run("train c.yaml --workers 1 --set data.threads=0");
    assert_int_equal(last_hash(first), 12);
    for (int workers = 1; workers <= 3; workers++) {
        run("train c.yaml --workers %d --set data.threads=%d --set data.ahead=%d", workers,
            workers + 1, workers);
        assert_int_equal(last_hash(other), 12);
        assert_string_equal(first, other);
    }
    run("train c.yaml --out run --steps 8 --workers 2"); /* in the middle of an epoch */
    run("train c.yaml --out run --resume --workers 3");
    assert_int_equal(last_hash(other), 12);
    assert_string_equal(first, other);
    run("train c.yaml --set data.augment=null");
    assert_int_equal(last_hash(other), 12);
    assert_string_not_equal(first, other);
    run("train c.yaml --seed 4");
    last_hash(other);
    assert_string_not_equal(first, other);
}

static void mixed_runs_have_the_same_bits(void **state)
{
    (void)state;
    static char plain[OUTPUT_SIZE];
    char first[32], other[32];
    write_text("c.yaml", config);
    run("train c.yaml --set data.mixup=0.3 --workers 1 --set data.threads=0");
    assert_int_equal(last_hash(first), 12);
    run("train c.yaml --set data.mixup=0.3 --workers 3 --set data.threads=2 --set data.ahead=3");
    assert_int_equal(last_hash(other), 12);
    assert_string_equal(first, other);
    run("train c.yaml --set data.mixup=0.3 --out run --steps 8 --workers 2");
    run("train c.yaml --set data.mixup=0.3 --out run --resume --workers 3");
    assert_int_equal(last_hash(other), 12);
    assert_string_equal(first, other);
    run("train c.yaml --set data.mixup=0.4");
    assert_int_equal(last_hash(other), 12);
    assert_string_not_equal(first, other);
    run("train c.yaml --out run --resume --epochs 3");
    expect(5, "data.mixup was 0.3, is 0.0;");
    run("eval c.yaml --out run");
    expect_ok();
    snprintf(plain, sizeof plain, "%s", last.out);
    run("eval c.yaml --out run --set data.mixup=0.3");
    expect_ok();
    assert_string_equal(plain, last.out);
    write_text("c.yaml", "data: {samples: 50, mixup: 1}\nmodel: {name: mlp}\n");
    run("data show c.yaml --count 3 --augment");
    expect_ok();
    snprintf(plain, sizeof plain, "%s", last.out);
    write_text("c.yaml", "data: {samples: 50, mixup: 0.001}\nmodel: {name: mlp}\n");
    run("data show c.yaml --count 3 --augment");
    expect_ok();
    assert_string_not_equal(plain, last.out);
    run("train c.yaml --set data.mixup=0.0009");
    expect(2, "data.mixup is 0.0009, expected 0, or 0.001 to 1000\n");
    run("train c.yaml --set data.mixup=1001");
    expect(2, "data.mixup is '1001', expected a number from 0 to 1000");
}

/* It makes the run what it is, and is for training alone. */
static void it_is_part_of_the_run(void **state)
{
    (void)state;
    static char before[OUTPUT_SIZE];
    write_text("c.yaml", config);
    run("train c.yaml --out run --steps 6");
    run("train c.yaml --out run --resume --set data.augment=[flip]");
    expect(5,
           "data.augment was [{crop: {padding: 3, fill: reflect}}, flip, {rotate: {degree..., is "
           "[flip]; use the same, start in another folder, or give --accept-changes");
    run("train c.yaml --out run --resume --set data.augment=[flip] --accept-changes");
    expect(0, "continuing from step 6");
    run("eval c.yaml --out run");
    expect_ok();
    snprintf(before, sizeof before, "%s", last.out);
    run("eval c.yaml --out run --set data.augment=null");
    expect_ok();
    assert_string_equal(before, last.out);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct row {
        const char *entry, *said;
    } rows[] = {
        {"- crp",
         "c.yaml:2: unknown augmentation 'crp'; the nearest is crop; lockstep --help-layers "
         "lists them\n"},
        {"- {crop: 4, flip: random}", "c.yaml:2: an augmentation is written '- flip' or '- crop: "
                                      "{padding: 4}', with one name for each '-'\n"},
        {"- crop: {pading: 4}", "c.yaml:2: crop has no option 'pading'; the nearest is padding; "},
        {"- crop: {fill: grey}", "c.yaml:2: crop fill is 'grey', expected zero or reflect\n"},
        {"- crop: 0", "c.yaml:2: crop padding is '0', expected an integer of at least 1\n"},
        {"- crop: 28", "c.yaml:2: crop: padding is 28, but images have 28 rows and 28 columns; "
                       "expected less than both\n"},
        {"- flip: 3", "c.yaml:2: flip mode is '3', expected random or alternating\n"},
        {"- jitter: {hue: 0.1}", "c.yaml:2: jitter: images have 1 channel, expected red, green and "
                                 "blue, or one without saturation and hue\n"},
        {"- rotate: {interpolation: cubic}",
         "c.yaml:2: rotate interpolation is 'cubic', expected nearest or bilinear\n"},
        {"- cutout: 29", "c.yaml:2: cutout: size is 29, but images have 28 rows and 28 columns; "
                         "expected at most that\n"},
        {"flip", "c.yaml:2: data.augment is 'flip', expected a list"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "model: {name: mlp}\ndata: {augment: %s%.*s%s, samples: 100, test_samples: 50}\n",
                 rows[i].entry[0] == '-' ? "[" : "", 200,
                 rows[i].entry + (rows[i].entry[0] == '-' ? 2 : 0),
                 rows[i].entry[0] == '-' ? "]" : "");
        write_text("c.yaml", text);
        run("train c.yaml");
        expect(2, rows[i].said);
    }
}

static void sheets_show_what_the_network_sees(void **state)
{
    (void)state;
    static char plain[OUTPUT_SIZE], first[OUTPUT_SIZE];
    write_text("c.yaml", config);
    run("data show c.yaml --count 3");
    expect_ok();
    snprintf(plain, sizeof plain, "%s", strchr(last.out, '\n'));
    run("data show c.yaml --count 3 --augment");
    expect_ok();
    expect_out("c.yaml: 3 of 300 training samples, as epoch 1 sees them\n");
    snprintf(first, sizeof first, "%s", strchr(last.out, '\n'));
    assert_string_not_equal(plain, first);
    run("data show c.yaml --count 3 --augment --epoch 2");
    expect_out(", as epoch 2 sees them\n");
    assert_string_not_equal(strchr(last.out, '\n'), first);
    run("data show c.yaml --count 3 --augment --epoch 1");
    assert_string_equal(strchr(last.out, '\n'), first);
    run("data show digits --augment");
    expect(2, "--augment needs a configuration that has data.augment or data.mixup, such as ");
    run("data show c.yaml --augment --test");
    expect(2, "--augment: test samples are seen as they are; drop --test\n");
    run("data show c.yaml --epoch 2");
    expect(2, "--epoch is for --augment; samples as they are do not change\n");
    run("data show c.yaml --augment --epoch 0");
    expect(2, "--epoch is '0', expected an integer from 1 to 1000000\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(same_bits_however_it_runs),
        TEST(mixed_runs_have_the_same_bits),
        TEST(it_is_part_of_the_run),
        TEST(what_is_wrong_is_said),
        TEST(sheets_show_what_the_network_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
