/* Data sets of NumPy's arrays in the program: an archive or a folder in the place of any other data. */
#include "cli/program.h"

#include "data/npy_files.h"

enum { SAMPLES = 60, SIDE = 8, PIXELS = SIDE * SIDE };

static bytes x, y, archive;

/* Images of three classes that differ in their mean, as bytes, or as floats of 0..1. */
static void make_arrays(const char *type, int count)
{
    char shape[64];
    snprintf(shape, sizeof shape, "(%d, %d, %d)", count, SIDE, SIDE);
    put_npy(&x, type, false, shape);
    for (int i = 0; i < count * PIXELS; i++) {
        const int value = i / PIXELS % 3 * 80 + i * 37 % 64;
        const float part = (float)value / 255;
        uint32_t bits;
        memcpy(&bits, &part, sizeof bits);
        put_number(&x, type[1] == 'f' ? bits : (uint64_t)value, type[2] - '0');
    }
    snprintf(shape, sizeof shape, "(%d,)", count);
    put_npy(&y, "<i8", false, shape);
    for (int i = 0; i < count; i++) put_number(&y, (uint64_t)(i % 3), 8);
}

static void make_archive(const char *name, const char *type, int method)
{
    static bytes test_x, test_y;
    make_arrays(type, 15);
    test_x = x;
    test_y = y;
    make_arrays(type, SAMPLES);
    const member members[] = {{"train_images.npy", &x, method, false, false},
                              {"train_labels.npy", &y, method, false, false},
                              {"test_images.npy", &test_x, method, false, false},
                              {"test_labels.npy", &test_y, method, false, false}};
    make_zip(&archive, members, 4, false);
    write_bytes(in_folder(name), &archive);
}

static void archives_are_looked_at(void **state)
{
    (void)state;
    make_archive("a.npz", "|u1", 8);
    make_archive("f.npz", "<f4", 0);
    run("data check a.npz");
    expect(0, "");
    assert_string_equal(last.out, "60 training samples of 8x8x1\n15 test samples of 8x8x1\n"
                                  "a.npz: nothing is wrong\n");
    run("data stats a.npz");
    expect_ok();
    expect_out("a.npz: 60 training samples of 8x8x1\nbytes from 0 to 223; scaled to 0..1");
    char mean[64];
    snprintf(mean, sizeof mean, "%.60s", strstr(last.out, "  mean: 0."));
    mean[14] = '\0'; /* as many digits as floats have, too */
    run("data stats f.npz");
    expect_ok();
    expect_out(
        "f.npz: 60 training samples of 8x8x1\nfloats from 0 to 0.87451; for a configuration:");
    expect_out(mean);
    expect_out("\n2               20   33.33%");
    run("data show a.npz --test --count 1");
    expect_ok();
    static char shown[OUTPUT_SIZE];
    snprintf(shown, sizeof shown, "%s", strchr(last.out, '\n'));
    run("data show f.npz --test --count 1");
    expect_ok();
    assert_string_equal(strchr(last.out, '\n'), shown);
    shell("mkdir d && mv a.npz d");
    run("data check d");
    expect_ok();
    run("data show a.npz");
    expect(2, "'a.npz' is neither a data set that is known");
    make_archive("a.npz", "|u1", 8);
    shell("truncate -s 900 a.npz");
    run("data check a.npz");
    expect(4, "'a.npz': the zip archive has no list of its members at its end; it is truncated");
}

static void what_is_not_finite_is_found(void **state)
{
    (void)state;
    make_arrays("<f4", SAMPLES);
    const uint32_t infinity = 0x7f800000;
    memcpy(x.data + x.count - 4, &infinity, 4);
    write_bytes(in_folder("x_train.npy"), &x);
    write_bytes(in_folder("y_train.npy"), &y);
    run("data check .");
    expect(4, "sample 59 of ./x_train.npy has the value inf at its element 63, expected finite");
}

/* Check and training refuse the same, and name both shapes, or types. */
static void splits_are_compared(void **state)
{
    (void)state;
    make_arrays("|u1", SAMPLES);
    shell("mkdir s t");
    write_bytes(in_folder("s/x_train.npy"), &x);
    write_bytes(in_folder("t/x_train.npy"), &x);
    char *shape = memmem(x.data, x.count, "8, 8)", 5);
    assert_non_null(shape);
    memcpy(shape, "4,16)", 5);
    write_bytes(in_folder("s/x_test.npy"), &x);
    make_arrays("<f4", SAMPLES);
    write_bytes(in_folder("t/x_test.npy"), &x);
    write_bytes(in_folder("y_train.npy"), &y);
    shell("cp y_train.npy s && cp y_train.npy s/y_test.npy && cp s/y* t");
    write_text("c.yaml", "model: {name: mlp}\n");
    run("data check s");
    expect(4, "s: training samples are 8x8x1, but test samples are 4x16x1, expected one shape");
    expect_out("60 training samples of 8x8x1\n60 test samples of 4x16x1\n");
    run("train c.yaml --data s --set train.batch_size=10");
    expect(4, "training samples (s/x_train.npy) are 8x8x1, but test samples (s/x_test.npy) are "
              "4x16x1, expected one shape; 'lockstep data check' looks at the files\n");
    run("data check t");
    expect(4, "t: training samples are U8, but test samples are F32, expected one type");
    run("train c.yaml --data t --set train.batch_size=10");
    expect(4, "training samples (t/x_train.npy) are U8, but test samples (t/x_test.npy) are F32, "
              "expected one type;");
}

/* One hash for an archive, packed or not, and for files; for any number of workers and processes. */
static void trainings_are_the_same(void **state)
{
    (void)state;
    static const char options[] = "--set model.name=mlp --set train.epochs=60 --set "
                                  "train.batch_size=10 --set optimizer.lr=0.05";
    static char hash[OUTPUT_SIZE];
    write_text("c.yaml", "model: {name: mlp}\n");
    for (int k = 0; k < 2; k++) {
        const char *type = k == 0 ? "|u1" : "<f4";
        make_archive("a.npz", type, 8);
        run("train --quiet c.yaml --data a.npz --workers 1 %s", options);
        expect_ok();
        memcpy(hash, last.out, sizeof hash);
        make_archive("b.npz", type, 0);
        run("train --quiet c.yaml --data b.npz --workers 2 %s", options);
        expect_ok();
        assert_string_equal(last.out, hash);
        make_arrays(type, SAMPLES);
        shell("mkdir -p d");
        write_bytes(in_folder("d/x_train.npy"), &x);
        write_bytes(in_folder("d/y_train.npy"), &y);
        run("train --quiet c.yaml --data d --workers 3 --out run%d %s", k, options);
        expect_ok();
        assert_string_equal(last.out, hash);
        /* A training learns from them, and tells what they are. */
        run("eval c.yaml --data a.npz --out run%d %s", k, options);
        expect_ok();
        expect_out("100");
        run("predict c.yaml --data d --out run%d --images d/x_train.npy --count 3 %s", k, options);
        expect_ok();
        expect_out("2\t2\t");
    }
    run("predict c.yaml --data a.npz --out run1 --images b.npz %s", options);
    expect(4, "b.npz");
    make_arrays("|u1", SAMPLES);
    write_bytes(in_folder("bytes.npy"), &x);
    run("predict c.yaml --data a.npz --out run1 --images bytes.npy %s", options);
    expect(2, "samples of bytes.npy are U8, but those of the data are F32");
    run("train --quiet c.yaml --data c.yaml %s", options);
    expect(3, "is not at c.yaml: Not a directory");
    make_zip(&archive, &(member){"foo.npy", &x, 0, false, false}, 1, false);
    write_bytes(in_folder("foo.npz"), &archive);
    run("train --quiet c.yaml --data foo.npz %s", options);
    expect(4,
           "'foo.npz' has 1 array: foo, none called as samples and labels are; expected x_train");
    run("data check foo.npz");
    expect(4, "'foo.npz' has 1 array: foo, none called");
    shell(": >none.npz");
    run("train --quiet c.yaml --data none.npz %s", options);
    expect(4, "'none.npz' is empty, expected a zip archive of arrays; write it again");
    run("data show a.npz --out a.npz");
    expect(2, "a.npz");
    run("train --quiet c.yaml --data a.npz --set data.classes=2 %s", options);
    expect(4, "label number 2 is 2, expected 0 to 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(archives_are_looked_at),
        TEST(what_is_not_finite_is_found),
        TEST(splits_are_compared),
        TEST(trainings_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
