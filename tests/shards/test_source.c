/* Shards as data of a recipe: which rows are where, what they are standardised with, and what is wrong with them. */
#include "shards/shards.h"

#include <glob.h>
#include <math.h>

#include "numeric/hash.h"

/* Of the file of 40 rows: another one is another order of sums, and moves the bits of trainings. */
#define HASH_OF_STATISTICS 0x2c18100138a463cbu

enum { COLUMNS = WIDTH + TARGETS };

/* Means and deviations of rows in extended precision, in two passes. */
static void measure(long double mean[COLUMNS], long double deviation[COLUMNS], const int *rows,
                    int count)
{
    for (int c = 0; c < COLUMNS; c++) {
        mean[c] = deviation[c] = 0;
        for (int i = 0; i < count; i++) mean[c] += (long double)element(rows[i], c) / count;
        for (int i = 0; i < count; i++) {
            const long double off = (long double)element(rows[i], c) - mean[c];
            deviation[c] += off * off / count;
        }
        deviation[c] = c == WIDTH - 1 ? 1 : sqrtl(deviation[c]);
    }
}

static void rows_are_standardised_by_the_training_alone(void **state)
{
    (void)state;
    int seen[ROWS] = {0}, trained[ROWS], count = 0;
    long double mean[COLUMNS], deviation[COLUMNS];
    lks_recipe *recipe;
    write_shards();
    LKT_OK(open_shards(&recipe, "test_fraction: 0.1", "validation: {samples: 5}\n",
                       LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_dataset *const set[3] = {parts.train, parts.valid, parts.test};
    const int64_t samples[3] = {40, 5, 5};
    const lks_unit *unit = lks_dataset_units(parts.train);
    assert_int_equal(parts.data.classes, 0);
    for (int i = 0; i < 40; i++) trained[count++] = (int)lks_dataset_position(parts.train, i);
    measure(mean, deviation, trained, count);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(lks_dataset_get_info(set[k]).samples, samples[k]);
        for (int64_t i = 0; i < samples[k]; i++) {
            const int row = (int)lks_dataset_position(set[k], i);
            float x[COLUMNS];
            LKT_OK(lks_dataset_read(set[k], i, x, x + WIDTH));
            seen[row]++;
            for (int c = 0; c < COLUMNS; c++) {
                const long double expected = ((long double)element(row, c) - mean[c]) /
                                             deviation[c];
                if (fabsl(x[c] - expected) > 1e-6L * (1 + fabsl(expected)))
                    fail_msg("row %d, column %d is %g, expected %Lg", row, c, x[c], expected);
            }
        }
    }
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1);
    for (int c = 0; c < TARGETS; c++) {
        assert_true(fabsl(unit[c].mean - mean[WIDTH + c]) < 1e-13L * fabsl(mean[WIDTH + c]));
        assert_true(fabsl(unit[c].deviation / deviation[WIDTH + c] - 1) < 1e-13L);
        assert_true(unit[c].standardised);
    }
    lks_recipe_close(recipe);
}

static uint64_t hash_of(const char *keys)
{
    lks_recipe *recipe;
    uint64_t hash;
    LKT_OK(open_shards(&recipe, keys, "", LKS_RECIPE_TRAIN));
    LKT_OK(lks_dataset_hash(lks_recipe_get_parts(recipe).train, &hash));
    lks_recipe_close(recipe);
    return hash;
}

static void mapped_and_read_rows_have_the_same_bits(void **state)
{
    (void)state;
    write_shards();
    const uint64_t mapped = hash_of(""), plain = hash_of("standardize: false");
    float x[WIDTH], y[TARGETS];
    lks_recipe *recipe;
    LKT_OK(open_shards(&recipe, "standardize: false", "", LKS_RECIPE_TRAIN));
    LKT_OK(lks_dataset_read(lks_recipe_get_parts(recipe).train, 49, x, y));
    for (int c = 0; c < WIDTH; c++) assert_true(x[c] == element(49, c));
    for (int c = 0; c < TARGETS; c++) assert_true(y[c] == element(49, WIDTH + c));
    lks_recipe_close(recipe);
    write_text("s/config.yaml", "{timestep: 1000, loading_mode: controlled}");
    assert_true(hash_of("") == mapped);
    assert_true(hash_of("standardize: false") == plain);
    assert_int_equal(remove(in_folder("s/config.yaml")), 0); /* one timestep needs none */
    assert_true(hash_of("") == mapped);
    for (int i = 0; i < SHARDS; i++) {
        write_shard(0, i, "<f8", rows_of(i), WIDTH, false, 0);
        write_shard(1, i, "<f8", rows_of(i), TARGETS, false, 0);
    }
    write_text("s/metadata.json",
               "{\"1000\": {\"flattened\": {\"dtype\": \"float64\", \"dataset_len\": 50, "
               "\"num_shards\": 7, \"x_shape\": [8, 5], \"y_shape\": [8, 3]}}}");
    assert_true(hash_of("") == mapped);
}

static void statistics_are_kept_and_have_one_value(void **state)
{
    (void)state;
    static uint8_t first[4096], other[4096];
    char command[256];
    glob_t found;
    write_shards();
    write_text("c.yaml", "data: {shards: s, test_fraction: 0.1}\nvalidation: {samples: 5}\n"
                         "model: {name: mlp, hidden: [6]}\ntrain: {epochs: 2}\n");
    const uint64_t measured = hash_of("test_fraction: 0.1");
    for (int threads = 1; threads <= 8; threads += 7) {
        run("data stats c.yaml --threads %d", threads);
        expect_ok();
        assert_non_null(
            strstr(last.out, "s: 40 of 50 rows are for training; 5 columns of samples, 3"));
        assert_non_null(strstr(last.out, "1 of these columns have one value only"));
        assert_int_equal(glob(in_folder("s/stats-flattened-1000-*.npy"), 0, NULL, &found), 0);
        assert_int_equal(found.gl_pathc, 1);
        FILE *file = fopen(found.gl_pathv[0], "rb");
        assert_int_equal(fread(threads == 1 ? first : other, 1, 4096, file), 128 + 2 * COLUMNS * 8);
        fclose(file);
        globfree(&found);
    }
    assert_memory_equal(first, other, sizeof first);
    if (lki_hash(first, sizeof first) != HASH_OF_STATISTICS)
        fail_msg("the hash is %016llx", (unsigned long long)lki_hash(first, sizeof first));
    assert_true(hash_of("test_fraction: 0.1") == measured); /* from the file, as it was measured */
    run("train c.yaml");
    expect_ok();
    assert_null(strstr(last.err, "were measured"));
    /* A shard of either array that is newer says that they are of others; one that is as old does not. */
    static const char *const shards[] = {"x/3", "y/6", "x/0"};
    for (int i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "s/data/processed/flattened-1000/%s.npy", shards[i]);
        assert_int_equal(shell("touch -d 'now + 1 minute' %s", command), 0);
        run("train c.yaml");
        expect_ok();
        assert_non_null(strstr(last.err, "1 of 8 columns have one value"));
        assert_int_equal(shell("touch -r s/stats*.npy %s", command), 0);
        run("train c.yaml");
        expect_ok();
        assert_null(strstr(last.err, "1 of 8 columns have one value"));
    }
    /* Nor are they any where a deviation is 0. */
    assert_int_equal(
        shell("dd if=/dev/zero of=$(ls s/stats*.npy) bs=8 seek=%d count=1 conv=notrunc "
              "2>none.txt",
              128 / 8 + COLUMNS),
        0);
    run("train c.yaml");
    expect_ok();
    assert_non_null(strstr(last.err, "1 of 8 columns have one value"));
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct fault {
        const char *file, *content, *says;
    } faults[] = {
        {"metadata.json", "{}", "has no timesteps"},
        {"metadata.json", "{\"1000\": {}}", "has no \"1000\": {\"flattened\": ...}"},
        {"config.yaml", "timestep: 250", "has no \"250\": {\"flattened\""},
        {"config.yaml", "loading_mode: fast", "is neither efficient (files are mapped) nor"},
        {"metadata.json", "{\"1000\": {\"flattened\": {\"dtype\": \"int32\"}}}",
         "has no dtype that is float32"},
        {"metadata.json", "{\"1000\": {\"flattened\": {\"dtype\": \"float32\"}}}",
         "has no dataset_len that is an integer"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": "
         "8, \"x_shape\": [8, 5], \"y_shape\": [8, 3]}}}",
         "50 rows in shards of 8 are 7 shards, but num_shards is 8"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": "
         "7, \"x_shape\": [8, 5], \"y_shape\": [9, 3]}}}",
         "has shards of 8 samples, but of 9 targets"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": "
         "7, \"x_shape\": [8, 0], \"y_shape\": [8, 3]}}}",
         "of 0 and 3 columns; expected at least 1"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 60000, "
         "\"num_shards\": 60000, \"x_shape\": [1, 5], \"y_shape\": [1, 3]}}}",
         "60000 shards, expected at most 30000"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": "
         "7, \"x_shape\": [8, 6], \"y_shape\": [8, 3]}}}",
         "x/0.npy' has 2 dimensions and 5 columns, but metadata.json says 2 dimensions and 6"},
        {"metadata.json",
         "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": "
         "7, \"x_shape\": 8, \"y_shape\": [8, 3]}}}",
         "has no x_shape that is a list of rows and columns"},
    };
    lks_recipe *recipe;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char name[40];
        write_shards();
        snprintf(name, sizeof name, "s/%s", faults[i].file);
        write_text(name, faults[i].content);
        LKT_FAILS(LKS_E_FORMAT, faults[i].says, open_shards(&recipe, "", "", LKS_RECIPE_TRAIN));
        lks_recipe_close(recipe);
    }
    write_shards();
    write_text("s/metadata.json", "{\"1\": {}, \"2\": {}}");
    assert_int_equal(remove(in_folder("s/config.yaml")), 0);
    LKT_FAILS(LKS_E_FORMAT, "has several timesteps", open_shards(&recipe, "", "", 1));
    lks_recipe_close(recipe);
}

/* A shard that is not as the metadata says; `status` and the sentence. */
static void assert_refused(lks_status status, const char *says)
{
    lks_recipe *recipe;
    for (int controlled = 0; controlled < 2; controlled++) {
        write_text("s/config.yaml", controlled ? "loading_mode: controlled" : "timestep: 1000");
        LKT_FAILS(status, says, open_shards(&recipe, "", "", LKS_RECIPE_TRAIN));
        lks_recipe_close(recipe);
    }
    write_shards();
}

static void wrong_shards_are_named(void **state)
{
    (void)state;
    char text[300];
    lks_recipe *recipe;
    float x[WIDTH], y[TARGETS];
    write_shards();
    assert_int_equal(remove(in_folder("s/data/processed/flattened-1000/y/5.npy")), 0);
    assert_refused(LKS_E_IO, "shard 5 of 7 is missing: there is no '");
    write_shard(0, 2, "<f4", 7, WIDTH, false, 0);
    assert_refused(LKS_E_FORMAT, "x/2.npy' has 7 rows, but metadata.json says 8 for shard 2 of 7");
    write_shard(1, 6, "<f4", EACH, TARGETS, false, 0); /* the last is not full */
    assert_refused(LKS_E_FORMAT, "y/6.npy' has 8 rows, but metadata.json says 2 for shard 6 of 7");
    write_shard(0, 1, "<f8", EACH, WIDTH, false, 0);
    assert_refused(LKS_E_FORMAT, "x/1.npy' holds float64, but metadata.json says float32");
    write_shard(0, 1, "<i4", EACH, WIDTH, false, 0);
    assert_refused(LKS_E_FORMAT, "x/1.npy' holds int32, but metadata.json says float32");
    write_shard(0, 1, "<f4", EACH, WIDTH, true, 0);
    assert_refused(LKS_E_FORMAT, "x/1.npy' is in Fortran's order");
    write_text("s/data/processed/flattened-1000/x/4.npy", "");
    assert_refused(LKS_E_FORMAT, "x/4.npy' is no .npy file");
    assert_int_equal(
        shell("cd s/data/processed/flattened-1000/x && gzip -c 4.npy > z && mv z 4.npy"), 0);
    assert_refused(LKS_E_FORMAT, "x/4.npy' is packed by gzip; unpack it");
    write_shard(0, 3, "<f4", EACH, WIDTH, false, NAN);
    snprintf(text, sizeof text,
             "x/3.npy': row 0 (sample 24) has a NaN in column 0, expected numbers");
    assert_refused(LKS_E_FORMAT, text);
    write_shard(1, 3, "<f4", EACH, TARGETS, false, -INFINITY);
    assert_refused(LKS_E_FORMAT, "y/3.npy': row 0 (sample 24) has an infinite value in column 0");
    write_shard(0, 3, "<f4", EACH, WIDTH, false, NAN);
    LKT_OK(open_shards(&recipe, "standardize: false", "", LKS_RECIPE_TRAIN));
    LKT_FAILS(LKS_E_FORMAT, "row 0 (sample 24) has a NaN in column 0",
              lks_dataset_read(lks_recipe_get_parts(recipe).train, 24, x, y));
    lks_recipe_close(recipe);
}

/* A value that no mean has been made of is found when its row is read, mapped or not. */
static void a_nan_that_is_held_back_is_named(void **state)
{
    (void)state;
    char says[80];
    float x[WIDTH], y[TARGETS];
    lks_recipe *recipe;
    int64_t held = 0; /* the first row of a shard whose floats are used where they are */
    write_shards();
    LKT_OK(open_shards(&recipe, "test_fraction: 0.5", "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_dataset *test = lks_recipe_get_parts(recipe).test;
    while (lks_dataset_position(test, held) % (2 * EACH) != 0) held++;
    const int shard = (int)lks_dataset_position(test, held) / EACH;
    lks_recipe_close(recipe);
    write_shard(0, shard, "<f4", rows_of(shard), WIDTH, false, NAN);
    snprintf(says, sizeof says, "row 0 (sample %d) has a NaN in column 0", shard * EACH);
    for (int controlled = 0; controlled < 2; controlled++) {
        write_text("s/config.yaml", controlled ? "loading_mode: controlled" : "timestep: 1000");
        LKT_OK(open_shards(&recipe, "test_fraction: 0.5", "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
        LKT_FAILS(LKS_E_FORMAT, says,
                  lks_dataset_read(lks_recipe_get_parts(recipe).test, held, x, y));
        lks_recipe_close(recipe);
    }
}

static void shards_are_trained_and_tested(void **state)
{
    (void)state;
    char hash[64];
    write_shards();
    write_text("c.yaml", "data: {shards: s, test_fraction: 0.1}\nvalidation: {samples: 5}\n"
                         "model: {name: mlp, hidden: [6]}\ntrain: {epochs: 2, batch_size: 8}\n");
    run("train c.yaml --workers 1 --out o");
    expect_ok();
    assert_non_null(strstr(last.out, "hash "));
    snprintf(hash, sizeof hash, "%.60s", strstr(last.out, "hash "));
    run("train c.yaml --workers 3 --data s"); /* a folder that has metadata.json */
    expect_ok();
    assert_non_null(strstr(last.out, hash));
    run("eval c.yaml --out o");
    expect_ok();
    write_text("both.yaml", "data: {shards: s, table: t.csv}\nmodel: {name: mlp}\n");
    run("train both.yaml");
    expect(2, "data.table and data.shards name two data sets; drop one");
    write_text("none.yaml", "data: {name: shards}\nmodel: {name: mlp}\n");
    run("train none.yaml");
    expect(2, "data.name is shards, which needs data.shards: DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_standardised_by_the_training_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(mapped_and_read_rows_have_the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(statistics_are_kept_and_have_one_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_shards_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_nan_that_is_held_back_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shards_are_trained_and_tested, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
