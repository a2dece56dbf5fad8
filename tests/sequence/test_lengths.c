/*
 * Frames with lengths from NumPy's arrays: what is read of them, whatever lies behind their end; classes of samples and of
 * positions; what is refused; and the same training, by the program, whatever the padding holds and however long it is.
 */
#include "cli/program.h"

#include <math.h>

#include "data/dataset.h"
#include "data/npy_files.h"

enum { COUNT = 7, POSITIONS = 5, FEATURES = 2, ELEMENTS = POSITIONS * FEATURES };

static bytes x, y, lengths, archive;
static const int64_t usual[COUNT] = {5, 3, 0, 1, 5, 4, 2};

static float value_of(int64_t sample, int64_t position, int64_t feature)
{
    return (float)(sample * 64 + position * 8 + feature + 1) / 32;
}

static void put_float(bytes *to, float value, int size)
{
    const double wide = (double)value;
    uint64_t bits = 0;
    memcpy(&bits, size == 8 ? (const void *)&wide : &value, (size_t)size);
    put_number(to, bits, size);
}

/* Behind the end of a sample `padding`. */
static void put_frames(const char *type, bool fortran, float padding)
{
    const int size = type[2] - '0';
    put_npy(&x, type, fortran, "(7, 5, 2)");
    for (int k = 0; k < COUNT * ELEMENTS; k++) {
        const int sample = fortran ? k % COUNT : k / ELEMENTS;
        const int position = fortran ? k / COUNT % POSITIONS : k / FEATURES % POSITIONS;
        const int feature = fortran ? k / COUNT / POSITIONS : k % FEATURES;
        const bool is_frame = position < usual[sample];
        put_float(&x, is_frame ? value_of(sample, position, feature) : padding, size);
    }
}

static void put_integers(bytes *to, const char *type, const char *shape, const int64_t *values,
                         int count)
{
    put_npy(to, type, false, shape);
    for (int i = 0; i < count; i++) put_number(to, (uint64_t)values[i], type[2] - '0');
}

static void put_usual(void)
{
    static const int64_t labels[COUNT] = {0, 1, 2, 0, 1, 2, 2};
    put_frames("<f4", false, NAN);
    put_integers(&y, "<i8", "(7,)", labels, COUNT);
    put_integers(&lengths, "<i4", "(7,)", usual, COUNT);
}

static void write_archive(void)
{
    const member members[] = {{"x.npy", &x, 0, false, false},
                              {"y.npy", &y, 0, false, false},
                              {"lengths.npy", &lengths, 8, false, false}};
    make_zip(&archive, members, 3, false);
    write_bytes(in_folder("a.npz"), &archive);
}

static lks_context *context;

static lks_dataset *open_archive(int64_t classes)
{
    lks_dataset *data;
    write_archive();
    LKT_OK(lks_dataset_open_folder(&data, context, in_folder("a.npz"), false, classes));
    return data;
}

static uint64_t hash_of(lks_dataset *data)
{
    uint64_t hash;
    LKT_OK(lks_dataset_hash(data, &hash));
    lks_dataset_destroy(data);
    return hash;
}

static void refuses(lks_status status, const char *sentence)
{
    lks_dataset *data;
    write_archive();
    LKT_FAILS(status, sentence,
              lks_dataset_open_folder(&data, context, in_folder("a.npz"), false, 0));
}

static void frames_end_where_lengths_say(void **state)
{
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    put_usual();
    lks_dataset *data = open_archive(0);
    const lks_dataset_info info = lks_dataset_get_info(data);
    assert_int_equal(info.dtype, LKS_F32);
    assert_int_equal(info.shape.ndim, 2);
    assert_int_equal(info.shape.dim[0], POSITIONS);
    assert_int_equal(info.shape.dim[1], FEATURES);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.target_shape.ndim, 0);
    for (int64_t i = 0; i < COUNT; i++) {
        float sample[POSITIONS][FEATURES];
        int32_t label;
        LKT_OK(lks_dataset_read(data, i, sample, &label));
        for (int64_t t = 0; t < POSITIONS; t++)
            for (int64_t f = 0; f < FEATURES; f++)
                assert_true(sample[t][f] == (t < usual[i] ? value_of(i, t, f) : 0));
    }
    const uint64_t hash = hash_of(data);
    /* Whatever they hold behind it, of whatever type and order. */
    for (int k = 0; k < 6; k++) {
        put_frames(k % 3 == 2 ? "<f8" : "<f4", k > 2, (float)k - 1);
        assert_true(hash_of(open_archive(0)) == hash);
    }
    put_integers(&lengths, "<i8", "(7, 1)", usual, COUNT);
    assert_true(hash_of(open_archive(0)) == hash);
    lks_context_destroy(context);
}

/* A class for each position: none where it is padding, and where the array says so. */
static void positions_may_have_classes(void **state)
{
    int64_t labels[COUNT * POSITIONS];
    int32_t wanted[COUNT][POSITIONS], found[POSITIONS];
    float sample[ELEMENTS];
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    put_usual();
    for (int i = 0; i < COUNT; i++)
        for (int t = 0; t < POSITIONS; t++) {
            const bool padding = t >= usual[i], none = i == 4 && t == 2;
            labels[i * POSITIONS + t] = padding ? -100 : none ? -1 : (i + t) % 4;
            wanted[i][t] = padding || none ? LKS_NO_CLASS : (i + t) % 4;
        }
    put_integers(&y, "<i8", "(7, 5)", labels, COUNT * POSITIONS);
    for (int k = 0; k < 2; k++) {
        if (k == 1) put_frames("<f4", true, 7);
        lks_dataset *data = open_archive(0);
        const lks_dataset_info info = lks_dataset_get_info(data);
        assert_int_equal(info.classes, 4);
        assert_int_equal(info.target_shape.ndim, 1);
        assert_int_equal(info.target_shape.dim[0], POSITIONS);
        for (int64_t i = 0; i < COUNT; i++) {
            LKT_OK(lks_dataset_read(data, i, sample, found));
            assert_memory_equal(found, wanted[i], sizeof found);
            assert_int_equal(lki_dataset_counted(data, i), usual[i] - (i == 4));
        }
        lks_dataset_destroy(data);
    }
    labels[3 * POSITIONS] = -2;
    put_integers(&y, "<i8", "(7, 5)", labels, COUNT * POSITIONS);
    refuses(LKS_E_FORMAT, "y.npy': label number 3 at position 0 is -2, expected 0 to 65535");
    lks_context_destroy(context);
}

static void what_does_not_fit_is_refused(void **state)
{
    int64_t other[COUNT];
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (int k = 0; k < 2; k++) {
        put_usual();
        memcpy(other, usual, sizeof other);
        other[3] = k == 0 ? 6 : -1;
        put_integers(&lengths, "<i8", "(7,)", other, COUNT);
        refuses(LKS_E_FORMAT, k == 0
                                  ? "lengths.npy': the length of sample 3 is 6, expected 0 to 5"
                                  : "the length of sample 3 is -1, expected 0 to 5, the positions");
    }
    put_usual();
    put_npy(&lengths, "<f4", false, "(7,)");
    for (int i = 0; i < COUNT; i++) put_float(&lengths, 2.5f, 4);
    refuses(LKS_E_FORMAT, "lengths.npy' is of float32 and has 1 dimension, expected integers in 1");
    put_integers(&lengths, "<i8", "(6,)", usual, 6);
    refuses(LKS_E_FORMAT, "has 7 samples but '");
    assert_non_null(strstr(lks_last_error()->message, "' has 6 lengths, expected as many"));
    put_usual();
    put_npy(&x, "<f4", false, "(7, 2)");
    for (int i = 0; i < 2 * COUNT; i++) put_float(&x, 1, 4);
    refuses(LKS_E_FORMAT,
            "x.npy' has 2 dimensions of float32, expected 3 of floats (samples, posi");
    put_npy(&x, "|u1", false, "(7, 5, 2)");
    for (int i = 0; i < COUNT * ELEMENTS; i++) put_number(&x, 1, 1);
    refuses(LKS_E_FORMAT, "x.npy' has 3 dimensions of uint8, expected 3 of floats");
    put_usual();
    put_integers(&y, "<i8", "(7, 2)", (const int64_t[2 * COUNT]){0}, 2 * COUNT);
    refuses(LKS_E_FORMAT,
            "y.npy' has 2 dimensions, expected 1, with one label a sample, or 2, with");
    lks_context_destroy(context);
}

/* ---------------------------------------------------------------- the program */

enum { SAMPLES = 48, SOME = 12 };

/* Recordings that rise, fall, or swing, in so many positions of which as many as `most` are frames; the others hold `padding`. */
static void put_recordings(int samples, int positions, int most, float padding, bool by_position)
{
    char shape[64];
    snprintf(shape, sizeof shape, "(%d, %d, 2)", samples, positions);
    put_npy(&x, "<f4", false, shape);
    snprintf(shape, sizeof shape, by_position ? "(%d, %d)" : "(%d,)", samples, positions);
    put_npy(&y, "<i8", false, shape);
    snprintf(shape, sizeof shape, "(%d,)", samples);
    put_npy(&lengths, "<i8", false, shape);
    for (int i = 0; i < samples; i++) {
        const int class = i % 3, length = 3 + i * 5 % (most - 2);
        for (int t = 0; t < positions; t++) {
            const float rise = (float)t / 8, swing = t % 2 ? 1.f : -1.f;
            const float level = class == 0 ? rise : class == 1 ? -rise : swing;
            put_float(&x, t < length ? level : padding, 4);
            put_float(&x, t < length ? 1 + (float)(i * 7 % 5) / 8 : padding, 4);
            if (by_position) put_number(&y, (uint64_t)(t % 2 ? class : 0), 8);
        }
        if (!by_position) put_number(&y, (uint64_t) class, 8);
        put_number(&lengths, (uint64_t)length, 8);
    }
}

static void write_recordings(const char *name, int positions, float padding, bool by_position)
{
    static bytes test[3];
    put_recordings(SOME, positions, 8, padding, by_position);
    test[0] = x, test[1] = y, test[2] = lengths;
    put_recordings(SAMPLES, positions, 8, padding, by_position);
    const member members[] = {{"x_train.npy", &x, 0, false, false},
                              {"y_train.npy", &y, 0, false, false},
                              {"lengths_train.npy", &lengths, 0, false, false},
                              {"x_test.npy", &test[0], 0, false, false},
                              {"y_test.npy", &test[1], 0, false, false},
                              {"lengths_test.npy", &test[2], 0, false, false}};
    make_zip(&archive, members, 6, false);
    write_bytes(in_folder(name), &archive);
}

static const char encoder[] =
    "model: {name: encoder, depth: 1, heads: 2, width: 16, rotary: 100, masked: true}\n"
    "train: {epochs: 12, batch_size: 10, replicas: 10}\n"
    "optimizer: {name: adam, lr: 0.01}\n";

static const char listed[] = "model:\n"
                             "  layers:\n"
                             "    - masking\n"
                             "    - dense: {name: up, units: 24}\n"
                             "    - attention: {heads: 2, masked: true}\n"
                             "    - dense: 3\n"
                             "train: {epochs: 4, batch_size: 10, replicas: 3}\n";

/* What it prints; `hash` receives the last line's. */
static void trains(const char *config, const char *archive_name, const char *more)
{
    run("train --quiet %s --data %s %s", config, archive_name, more);
    expect_ok();
}

static void no_padding_changes_a_training(void **state)
{
    static char first[OUTPUT_SIZE];
    (void)state;
    write_text("c.yaml", encoder);
    write_recordings("zeros.npz", 8, 0, false);
    trains("c.yaml", "zeros.npz", "--workers 1");
    snprintf(first, sizeof first, "%s", last.out);
    assert_non_null(strstr(first, "hash"));
    write_recordings("other.npz", 8, 99, false);
    trains("c.yaml", "other.npz", "--workers 2");
    assert_string_equal(last.out, first);
    write_recordings("long.npz", 70, NAN, false);
    trains("c.yaml", "long.npz", "--workers 3");
    assert_string_equal(last.out, first);
    /* What is normalised is still padding where it was. */
    trains("c.yaml", "other.npz", "--set data.mean=0.5 --set data.std=2");
    snprintf(first, sizeof first, "%s", last.out);
    trains("c.yaml", "long.npz", "--set data.mean=0.5 --set data.std=2");
    assert_string_equal(last.out, first);
    trains("c.yaml", "other.npz", "--out run");
    run("eval c.yaml --data other.npz --out run");
    expect_ok();
    expect_out("Accuracy: 12/12");
    run("predict c.yaml --data other.npz --out run --format csv");
    expect_ok();
}

static void positions_are_learned(void **state)
{
    (void)state;
    write_text("p.yaml", listed);
    write_recordings("p.npz", 8, 5, true);
    run("info p.yaml --data p.npz");
    expect_ok();
    expect_out("masking");
    trains("p.yaml", "p.npz", "--out run");
    run("eval p.yaml --data p.npz --out run");
    expect_ok();
    expect_out("Accuracy: ");
    run("predict p.yaml --data p.npz --out run");
    expect(2,
           "predictions are of samples that have one class, but these have one for each of 8 pos");
    write_text("n.yaml", "model: {layers: [{dense: 24}, {attention: {heads: 2, masked: true}}, "
                         "{dense: 3}]}\n");
    run("train n.yaml --data p.npz --steps 1");
    expect(2, "or a masking of frames to stand before it");
}

static void data_says_how_long_frames_are(void **state)
{
    (void)state;
    write_recordings("a.npz", 12, 7, false);
    run("data check a.npz");
    expect_ok();
    assert_string_equal(last.out,
                        "48 training samples of 12x2\nlengths  3 to 8 frames, 5.5 on average\n"
                        "12 test samples of 12x2\nlengths  3 to 8 frames, 5.5 on average\n"
                        "a.npz: nothing is wrong\n");
    run("data stats a.npz");
    expect_ok();
    expect_out("a.npz: 48 training samples of 12x2\nlengths  3 to 8 frames, 5.5 on average\n");
    expect_out("floats from -1 to 1.5;"); /* not 7 */
    run("data show a.npz --count 2 --first 1");
    expect_ok();
    expect_out("a.npz: of 48 training samples of 12 frames of 2 features");
    expect_out("\n       1  class 1  8 frames: -0 1.25\n       2  class 2  7 frames: -1 1.5\n");
    run("data show a.npz --augment");
    expect(2, "--augment is for images, but a.npz has frames; drop it");
    write_recordings("p.npz", 12, 7, true);
    run("data show p.npz --count 1 --first 1");
    expect_ok();
    expect_out("       1  class 0 1 0 1 0 1 ...  8 frames: -0 1.25\n");
    run("data check p.npz");
    expect_ok();
    run("data stats p.npz");
    expect_ok();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_end_where_lengths_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(positions_may_have_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_padding_changes_a_training, set_up, tear_down),
        cmocka_unit_test_setup_teardown(positions_are_learned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_says_how_long_frames_are, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
