/* Shards that are written: of two arrays, and of drawn columns of air; on from where an earlier run was stopped, and what is
 * wrong with them. */
#include <lockstep/tools.h>

#include "shards/shards.h"

#include <fcntl.h>
#include <math.h>
#include <sys/file.h>

#include "base/file.h"
#include "data/shards/air.h"
#include "numeric/hash.h"

/* Of rows 0 to 19 of seed 0. */
#define HASH_OF_COLUMNS      0x2dd5ee4d37721b0cu
#define SHARD(array, number) "o/data/processed/flattened-1000/" array "/" #number ".npy"

/* Element (row, column) of the two arrays. */
static double number(int row, int column)
{
    return row * 10 + column - 100;
}

/* An array of 10 rows, with `columns` in all dimensions of its shape but the first. */
static void write_array(const char *name, const char *type, bool fortran, const char *shape,
                        int columns, double at_37)
{
    static bytes file;
    const int rows = 10;
    put_npy(&file, type, fortran, shape);
    for (int i = 0; i < rows * columns; i++) {
        const int row = fortran ? i % rows : i / columns, column = fortran ? i / rows : i % columns;
        const double wide = row == 3 && column == 7 % columns ? at_37 : number(row, column);
        const float single = (float)wide;
        const int16_t small = (int16_t)(((int)wide & 255) << 8 | ((int)wide >> 8 & 255));
        if (strcmp(type, "<f8") == 0) put(&file, &wide, 8);
        if (strcmp(type, "<f4") == 0) put(&file, &single, 4);
        if (strcmp(type, ">i2") == 0) put(&file, &small, 2);
    }
    write_bytes(in_folder(name), &file);
}

static void assert_shard(const char *name, int first, int rows, int columns)
{
    lki_file file;
    lki_npy npy;
    LKT_OK(lki_file_open(&file, NULL, in_folder(name)));
    LKT_OK(lki_npy_read(&npy, file.data, file.bytes, name));
    assert_string_equal(npy.type, "float32");
    assert_false(npy.fortran);
    assert_int_equal(npy.ndim, 2);
    assert_int_equal(npy.dim[0], rows);
    assert_int_equal(npy.dim[1], columns);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float found;
            memcpy(&found, npy.data + (r * columns + c) * 4, 4);
            if (found != (float)number(first + r, c))
                fail_msg("%s: row %d, column %d is %g", name, r, c, (double)found);
        }
    lki_file_close(&file);
}

static void arrays_of_every_kind_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *type, *shape;
        bool fortran;
    } forms[] = {{"<f4", "(10, 12)", false}, {"<f8", "(10, 12)", true},
                 {">i2", "(10, 12)", true},  {"<f4", "(10, 12)", true},
                 {">i2", "(10, 12)", false}, {"<f8", "(10, 12, 1)", false}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        write_array("x.npy", forms[i].type, forms[i].fortran, forms[i].shape, 12, number(3, 7));
        write_array("y.npy", "<f8", false, "(10,)", 1, number(3, 0));
        run("data shard x.npy y.npy --out o --rows 4 --threads %d", (int)i % 3 + 1);
        expect_ok();
        assert_non_null(strstr(last.out, "o: 10 rows of 12 inputs and 1 targets in 3 shards"));
        if (i > 0) assert_non_null(strstr(last.err, "3 shards had been written by an earlier run"));
        assert_shard(SHARD("x", 0), 0, 4, 12);
        assert_shard(SHARD("x", 1), 4, 4, 12);
        assert_shard(SHARD("x", 2), 8, 2, 12);
        assert_shard(SHARD("y", 2), 8, 2, 1);
    }
    write_text("c.yaml", "data: {shards: o, test_fraction: 0.2}\nmodel: {name: mlp, hidden: [4]}\n"
                         "train: {batch_size: 4}\n");
    run("train c.yaml");
    expect_ok();
}

static void what_is_there_is_kept(void **state)
{
    (void)state;
    struct stat before, after;
    write_array("x.npy", "<f4", false, "(10, 12)", 12, number(3, 7));
    write_array("y.npy", "<f4", false, "(10, 2)", 2, number(3, 1));
    run("data shard x.npy y.npy --out o --rows 2");
    expect_ok();
    assert_int_equal(stat(in_folder(SHARD("x", 0)), &before), 0);
    assert_int_equal(shell("rm o/metadata.json " SHARD("y", 1)), 0);
    assert_int_equal(
        shell("printf x | dd of=" SHARD("x", 2) " bs=1 seek=200 conv=notrunc 2>/dev/null"), 0);
    assert_int_equal(shell("truncate -s 100 " SHARD("x", 3)), 0);
    run("data shard x.npy y.npy --out o --rows 2");
    expect_ok();
    assert_non_null(strstr(last.err, "2 shards had been written by an earlier run"));
    assert_int_equal(stat(in_folder(SHARD("x", 0)), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    for (int i = 0; i < 5; i++) {
        char name[80];
        snprintf(name, sizeof name, "o/data/processed/flattened-1000/x/%d.npy", i);
        assert_shard(name, 2 * i, 2, 12);
    }
    assert_true(there("o/metadata.json"));
    run("data shard x.npy y.npy --out o --rows 3");
    expect(3, "o/metadata.json' is of other shards than those to be written; remove that folder");
    assert_shard(SHARD("x", 0), 0, 2, 12);
}

static void bad_arrays_are_said(void **state)
{
    (void)state;
    write_array("x.npy", "<f8", false, "(10, 12)", 12, NAN);
    write_array("y.npy", "<f4", false, "(5, 2)", 1, 0); /* 10 numbers */
    run("data shard x.npy y.npy --out o");
    expect(4, "'x.npy' has 10 rows, but 'y.npy' has 5; every sample has one target");
    write_array("y.npy", "<f4", false, "(10,)", 1, 0);
    run("data shard x.npy y.npy --out o");
    expect(4, "'x.npy': row 3 has a NaN in column 7, expected numbers");
    assert_false(there("o/metadata.json"));
    write_array("x.npy", "<f8", false, "(10, 12)", 12, 1e39);
    run("data shard x.npy y.npy --out o");
    expect(4, "'x.npy': row 3 has an infinite or too large value in column 7");
    run("data shard none.npy y.npy --out o");
    expect(3, "cannot open 'none.npy': there is no such file or folder");
    run("data shard y.npy --out o");
    expect(2, "data shard needs two arrays: lockstep data shard x.npy y.npy --out DIR");
    run("data shard y.npy y.npy");
    expect(2, "data shard needs a folder to write to: give --out DIR");
    run("data shard y.npy y.npy --out o --rows 0");
    expect(2, "--rows is '0', expected a number of rows, at least 1");
    run("data columns --out o");
    expect(2, "data columns needs to know how many: give --rows 20480");
    run("data columns y.npy --rows 3 --out o");
    expect(2, "data columns takes nothing more, found 'y.npy'");
    lks_shards_result written;
    LKT_FAILS(
        LKS_E_INVALID, "shards of -2 rows were asked for, expected at least 1, or 0 for 320",
        lks_shards_draw(&written, NULL, 3, &(lks_shards_opts){.out = in_folder("o"), .rows = -2}));
}

static void two_runs_do_not_meet(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("o"), 0777), 0);
    const int other = open(in_folder("o"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    run("data columns --rows 3 --out o");
    expect(3, "'o' is being written by another process that makes shards; wait for its end");
    close(other);
    run("data columns --rows 3 --out o");
    expect_ok();
}

/* No file may have more than 32 kB, which a shard of targets has not, but one of samples; then all goes on from there. And a
 * disk of 1 MB, where one can be had. */
static void a_full_disk_is_one_sentence(void **state)
{
    (void)state;
    const int code = shell(
        "trap '' XFSZ; ulimit -f 64; '%s' data columns --rows 40 --threads 1 --out o 2>err.txt",
        program());
    read_text(last.err, "err.txt");
    assert_int_equal(code, 3);
    assert_non_null(strstr(last.err, "the file would be larger than is allowed"));
    assert_false(there("o/metadata.json") || there(SHARD("x", 0)));
    assert_int_equal(shell("test -z \"$(find o -name '.*lockstep*')\""), 0);
    run("data columns --rows 40 --out o");
    expect_ok();
    const int small = shell(
        "mkdir d && unshare -rm sh -c \"mount -t tmpfs -o size=1m none d && '%s' "
        "data columns --rows 640 --threads 1 --out d 2>err.txt; echo \\$? >code; ls -A "
        "d/data/processed/flattened-1000/x >files\" 2>none.txt",
        program());
    read_text(last.err, "err.txt");
    if (small != 0 || strstr(last.err, "lockstep") == NULL) {
        print_message("no small disk can be mounted: skipped\n");
        return;
    }
    read_text(last.out, "code");
    assert_string_equal(last.out, "3\n");
    assert_non_null(strstr(last.err, "no space left on the device; free some or give another"));
    read_text(last.out, "files");
    assert_string_equal(last.out, "");
}

/* Of the values' bytes: a change of the model, or of a machine's arithmetic. */
static void columns_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    float x[LKI_AIR_INPUTS], y[LKI_AIR_OUTPUTS];
    uint64_t hash = 0;
    for (int row = 0; row < 20; row++) {
        lki_air_column(0, row, x, y);
        hash = lki_hash_link(hash, (int64_t)lki_hash(x, sizeof x), lki_hash(y, sizeof y));
    }
    if (hash != HASH_OF_COLUMNS) fail_msg("the hash is %016llx", (unsigned long long)hash);
    lki_air_column(0, (int64_t)1 << 32, x, y);
    const float other = x[0];
    lki_air_column(0, 0, x, y);
    assert_true(x[0] != other);
    lki_air_column(1, 0, x, y);
    assert_true(x[0] != other);
}

/* What any such model owes: no longwave comes from space, shortwave comes as the sun stands, none is made on the way, and what the
 * ground sends up is what it reflects and emits. */
static void columns_obey_physics(void **state)
{
    (void)state;
    enum { L = LKI_AIR_LEVELS, SCALARS = 2 * L + LKI_AIR_LAYERS - 1 };
    float x[LKI_AIR_INPUTS], y[LKI_AIR_OUTPUTS];
    assert_int_equal(LKI_AIR_INPUTS, 4128);
    assert_int_equal(LKI_AIR_OUTPUTS, 552);
    for (int row = 0; row < 200; row++) {
        lki_air_column(7, row, x, y);
        const float *down = y, *up = y + L, *warm_down = y + 2 * L, *warm_up = y + 3 * L;
        const double skin = (double)x[SCALARS], zenith = (double)x[SCALARS + 1];
        double albedo = 0, emissivity = 0;
        for (int i = 2; i < 14; i++) albedo += (double)x[SCALARS + i] / 12;
        for (int i = 14; i < 16; i++) emissivity += (double)x[SCALARS + i] / 2;
        const double emitted = emissivity * 5.670374419e-8 * skin * skin * skin * skin;
        assert_true(warm_down[0] == 0);
        assert_true(fabs((double)down[0] - zenith * (double)x[SCALARS + 16]) < 1e-3);
        assert_true(fabs((double)up[L - 1] - albedo * (double)down[L - 1]) < 1e-3);
        assert_true(fabs((double)warm_up[L - 1] - emitted -
                         (1 - emissivity) * (double)warm_down[L - 1]) < 1e-2);
        for (int k = 0; k < L; k++) {
            assert_true(up[k] >= 0 && up[k] <= down[k]);
            assert_true(k == 0 || down[k] - up[k] <= (down[k - 1] - up[k - 1]) * 1.00001F);
            assert_true(warm_down[k] >= 0 && warm_up[k] > 50 && warm_up[k] < 600);
            assert_true(k == 0 || x[L + k] > x[L + k - 1]); /* pressure */
            assert_true(x[k] > 150 && x[k] < 320);          /* temperature */
        }
    }
}

static void columns_are_learned(void **state)
{
    (void)state;
    double loss = 9;
    run("data columns --rows 3200 --out o");
    expect_ok();
    write_text("c.yaml",
               "data: {shards: o, test_fraction: 0.1}\nmodel: {name: mlp, hidden: [32]}\n"
               "train: {batch_size: 16, epochs: 5}\noptimizer: {name: adam, lr: 0.001}\n");
    run("train c.yaml");
    expect_ok();
    const char *at = strstr(last.out, "epoch 5/5");
    assert_non_null(at);
    assert_int_equal(sscanf(strstr(at, "test "), "test %lf", &loss), 1);
    if (!(loss < 0.5)) fail_msg("the test's loss is %g, of a variance of 1", loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arrays_of_every_kind_are_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_there_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_arrays_are_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_runs_do_not_meet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_one_sentence, set_up, tear_down),
        cmocka_unit_test(columns_have_the_same_bits_everywhere),
        cmocka_unit_test(columns_obey_physics),
        cmocka_unit_test_setup_teardown(columns_are_learned, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("write", tests, NULL, NULL);
}
