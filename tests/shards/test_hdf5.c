/* Shards of HDF5 files: the same bytes as of equal .npy files, whatever numbers, order of bytes and layout they have, in bounded
 * memory; and what is wrong with them. The files are libhdf5's own. */
#include "shards/shards.h"

#include <sys/resource.h>

#include <lockstep/tools.h>

#include "base/file.h"
#include "data/hdf5/hdf5.h"

static lks_status cut(const char *x, const char *y, const char *out, int threads)
{
    lks_shards_result made;
    lks_context *context;
    char path[2][4200], to[4200];
    snprintf(path[0], sizeof path[0], "%s/%s", folder, x);
    snprintf(path[1], sizeof path[1], "%s/%s", folder, y);
    snprintf(to, sizeof to, "%s/%s", folder, out);
    LKT_OK(lks_context_create(&context, NULL));
    const lks_status status = lks_shards_cut(
        &made, context, path[0], path[1],
        &(lks_shards_opts){.out = to, .rows = 7, .threads = threads});
    lks_context_destroy(context);
    return status;
}

static void expect_failure(const char *x, lks_status status, const char *says)
{
    assert_int_equal(cut(x, "y.npy", "bad", 1), status);
    if (strstr(lks_last_error()->message, says) == NULL)
        fail_msg("'%s', expected '%s'", lks_last_error()->message, says);
    assert_false(there("bad/metadata.json"));
}

/* 30 rows of 4 x 3 numbers, and a target for each. */
enum { NUMBERS = 30, INNER = 4, LAST = 3, ALL = NUMBERS * INNER * LAST };

static void write_targets(void)
{
    static bytes file;
    put_npy(&file, "<f4", false, "(30, 1)");
    for (int i = 0; i < NUMBERS; i++) put(&file, &(float){(float)i}, 4);
    write_bytes(in_folder("y.npy"), &file);
}

#if defined(LKT_HAVE_HDF5)

#include <hdf5.h>

typedef struct form {
    const char *npy; /* of little-endian numbers: "<i2" */
    hid_t little, big;
} form;

/* Number `i` with the bytes of a form. */
static void put_element(uint8_t *to, const form *f, int i, bool big)
{
    const int size = f->npy[2] - '0';
    const double wide = i * 1.37 - 99;
    const float single = (float)wide;
    const int64_t integer = f->npy[1] == 'u' ? 5 * i % 251 : i % 101 - 50;
    uint64_t bits = (uint64_t)(size == 8 && f->npy[1] != 'u' ? integer * 123456789012 : integer);
    uint32_t low;
    memcpy(&low, &single, sizeof low);
    if (f->npy[1] == 'f') bits = low;
    if (f->npy[1] == 'f' && size == 8) memcpy(&bits, &wide, sizeof bits);
    for (int b = 0; b < size; b++) to[big ? size - 1 - b : b] = (uint8_t)(bits >> 8 * b);
}

typedef struct layout {
    hsize_t chunk[3]; /* 0: contiguous */
    bool deflate, shuffle;
} layout;

static void write_dataset(hid_t file, const char *name, hid_t type, int ndim, const hsize_t *dim,
                          const layout *l, const void *elements)
{
    const hid_t links = H5Pcreate(H5P_LINK_CREATE), how = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_create_intermediate_group(links, 1) >= 0);
    if (l->chunk[0] > 0) assert_true(H5Pset_chunk(how, ndim, l->chunk) >= 0);
    if (l->shuffle) assert_true(H5Pset_shuffle(how) >= 0);
    if (l->deflate) assert_true(H5Pset_deflate(how, 1) >= 0);
    const hid_t space = H5Screate_simple(ndim, dim, NULL);
    const hid_t set = H5Dcreate2(file, name, type, space, links, how, H5P_DEFAULT);
    assert_true(set >= 0);
    if (elements != NULL)
        assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(how);
    H5Pclose(links);
}

static hid_t make_file(const char *name)
{
    const hid_t file = H5Fcreate(in_folder(name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static void write_npy(const form *f, const uint8_t *elements)
{
    static bytes file;
    put_npy(&file, f->npy, false, "(30, 4, 3)");
    put(&file, elements, (size_t)(ALL * (f->npy[2] - '0')));
    write_bytes(in_folder("x.npy"), &file);
}

static void numbers_of_every_kind_are_those_of_npy(void **state)
{
    (void)state;
    static const hsize_t dim[] = {NUMBERS, INNER, LAST};
    static const layout layouts[] = {{{0}, false, false},
                                     {{4, 3, 2}, true, false},
                                     {{30, 4, 3}, true, true},
                                     {{1, 1, 1}, false, false}};
    const form forms[] = {
        {"<f4", H5T_IEEE_F32LE, H5T_IEEE_F32BE}, {"<f8", H5T_IEEE_F64LE, H5T_IEEE_F64BE},
        {"<i1", H5T_STD_I8LE, H5T_STD_I8BE},     {"<i2", H5T_STD_I16LE, H5T_STD_I16BE},
        {"<i4", H5T_STD_I32LE, H5T_STD_I32BE},   {"<i8", H5T_STD_I64LE, H5T_STD_I64BE},
        {"<u1", H5T_STD_U8LE, H5T_STD_U8BE},     {"<u2", H5T_STD_U16LE, H5T_STD_U16BE},
        {"<u4", H5T_STD_U32LE, H5T_STD_U32BE},   {"<u8", H5T_STD_U64LE, H5T_STD_U64BE}};
    static uint8_t elements[2][ALL * 8];
    write_targets();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const size_t size = (size_t)(forms[i].npy[2] - '0');
        for (int big = 0; big < 2; big++)
            for (int k = 0; k < ALL; k++)
                put_element(elements[big] + (size_t)k * size, &forms[i], k, big);
        write_npy(&forms[i], elements[0]);
        LKT_OK(cut("x.npy", "y.npy", "of_npy", 1));
        for (int big = 0; big < 2; big++) {
            const hid_t file = make_file("x.h5");
            write_dataset(file, "/some/group/x", big ? forms[i].big : forms[i].little, 3, dim,
                          &layouts[(i + (size_t)big) % 4], elements[big]);
            if (i % 2 == 1) /* with another one, it has to be named */
                write_dataset(file, "/other", H5T_STD_I8LE, 1, dim, &layouts[0], NULL);
            H5Fclose(file);
            LKT_OK(cut(i % 2 == 1 ? big ? "x.h5:/some/group/x" : "x.h5:some/group/x" : "x.h5",
                       "y.npy", "of_hdf5", (int)i % 3 + 1));
            if (shell("diff -r of_npy of_hdf5 && rm -r of_hdf5") != 0)
                fail_msg("%s%s: not as of .npy", forms[i].npy, big ? ", big-endian" : "");
        }
        assert_int_equal(shell("rm -r of_npy"), 0);
    }
}

/* h5py writes such ones. */
static void halves_and_text_before_a_file(void **state)
{
    (void)state;
    static const hsize_t dim[] = {NUMBERS, 2};
    static const layout plain = {{0}, false, false};
    static uint16_t elements[NUMBERS * 2];
    static bytes npy;
    write_targets();
    for (int i = 0; i < NUMBERS * 2; i++) elements[i] = (uint16_t)(0x3c00 + 37 * i);
    put_npy(&npy, "<f2", false, "(30, 2)");
    put(&npy, elements, sizeof elements);
    write_bytes(in_folder("x.npy"), &npy);
    const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
    assert_true(H5Tset_fields(half, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(half, 2) >= 0 &&
                H5Tset_ebias(half, 15) >= 0);
    const hid_t how = H5Pcreate(H5P_FILE_CREATE);
    assert_true(H5Pset_userblock(how, 1024) >= 0);
    const hid_t file = H5Fcreate(in_folder("a:b.h5"), H5F_ACC_TRUNC, how, H5P_DEFAULT);
    write_dataset(file, "a:b", half, 2, dim, &plain, elements);
    H5Fclose(file);
    H5Pclose(how);
    H5Tclose(half);
    LKT_OK(cut("x.npy", "y.npy", "of_npy", 2));
    LKT_OK(cut("a:b.h5:/a:b", "y.npy", "of_hdf5", 2));
    assert_int_equal(shell("diff -r of_npy of_hdf5"), 0);
}

static void what_is_no_array_of_numbers_is_said(void **state)
{
    (void)state;
    static const hsize_t dim[] = {NUMBERS, 2}, none[] = {0, 2};
    static const layout plain = {{0}, false, false};
    static double elements[NUMBERS * 2];
    write_targets();
    elements[2 * 11 + 1] = 1e39;
    const hid_t record = H5Tcreate(H5T_COMPOUND, 16), text = H5Tcopy(H5T_C_S1);
    const hid_t narrow = H5Tcopy(H5T_STD_I32LE), brain = H5Tcopy(H5T_IEEE_F32LE);
    assert_true(H5Tinsert(record, "a", 0, H5T_IEEE_F64LE) >= 0 &&
                H5Tset_precision(narrow, 24) >= 0);
    assert_true(H5Tset_fields(brain, 15, 7, 8, 0, 7) >= 0 && H5Tset_size(brain, 2) >= 0);
    const hid_t file = make_file("x.h5");
    write_dataset(file, "/a/large", H5T_IEEE_F64LE, 2, dim, &plain, elements);
    write_dataset(file, "/records", record, 2, dim, &plain, NULL);
    write_dataset(file, "/text", text, 2, dim, &plain, NULL);
    write_dataset(file, "/narrow", narrow, 2, dim, &plain, NULL);
    write_dataset(file, "/brain", brain, 2, dim, &plain, NULL);
    write_dataset(file, "/empty", H5T_IEEE_F64LE, 2, none, &plain, NULL);
    write_dataset(file, "/number", H5T_IEEE_F64LE, 0, dim, &plain, NULL);
    write_dataset(file, "/short", H5T_IEEE_F64LE, 1, (hsize_t[]){5}, &plain, NULL);
    assert_true(H5Lcreate_hard(file, "/", file, "/a/circle", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/nothing", file, "/dangling", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    H5Tclose(record);
    H5Tclose(text);
    H5Tclose(narrow);
    H5Tclose(brain);
    expect_failure("x.h5", LKS_E_FORMAT, "x.h5' has several datasets: ");
    expect_failure("x.h5:/y", LKS_E_FORMAT, "x.h5' has no dataset '/y'; it has /a/");
    expect_failure("x.h5:/a", LKS_E_FORMAT, "x.h5' has no dataset '/a'; it has ");
    expect_failure("x.h5:/dangling", LKS_E_FORMAT, "has no dataset '/dangling'");
    expect_failure("x.h5:/a/large", LKS_E_FORMAT,
                   "x.h5:/a/large': row 11 has an infinite or too large value in column 1");
    expect_failure("x.h5:/records", LKS_E_FORMAT, "'/records' has records of several fields");
    expect_failure("x.h5:/text", LKS_E_FORMAT, "'/text' has text, expected integers of 1 to 8");
    expect_failure("x.h5:/narrow", LKS_E_FORMAT, "'/narrow' has numbers of an unusual form");
    expect_failure("x.h5:/brain", LKS_E_FORMAT, "'/brain' has numbers of an unusual form");
    expect_failure("x.h5:/empty", LKS_E_FORMAT, "'/empty' has no rows");
    expect_failure("x.h5:/number", LKS_E_FORMAT, "'/number' has 0 dimensions, expected 1 to 8");
    expect_failure("x.h5:/short", LKS_E_FORMAT, "x.h5:/short' has 5 rows, but '");
}

static void what_is_no_hdf5_file_is_said(void **state)
{
    (void)state;
    static const hsize_t dim[] = {NUMBERS, 2};
    static const layout plain = {{0}, false, false}, packed = {{NUMBERS, 2}, true, false};
    static double elements[NUMBERS * 2];
    char command[256];
    struct stat info;
    write_targets();
    for (int i = 0; i < NUMBERS * 2; i++) elements[i] = i * 0.7;
    hid_t file = make_file("x.h5");
    H5Fclose(file);
    expect_failure("x.h5", LKS_E_FORMAT, "x.h5' has no datasets, expected one");
    expect_failure("x.h5:/x", LKS_E_FORMAT, "has no dataset '/x'; it has none");
    file = make_file("x.h5");
    write_dataset(file, "/x", H5T_IEEE_F64LE, 2, dim, &plain, elements);
    H5Fclose(file);
    assert_int_equal(stat(in_folder("x.h5"), &info), 0);
    snprintf(command, sizeof command, "head -c %d x.h5 >cut.h5", (int)info.st_size - 1);
    assert_int_equal(shell("%s", command), 0);
    expect_failure("cut.h5:/x", LKS_E_FORMAT,
                   "is a damaged HDF5 file, or one that was not closed: "
                   "libhdf5 says: truncated file");
    assert_int_equal(shell("printf '%%0600d' 7 >no.h5"), 0);
    expect_failure("no.h5", LKS_E_FORMAT, "no.h5' is no HDF5 file");
    expect_failure("no.h5:/x", LKS_E_FORMAT, "it has no dataset '/x'");
    expect_failure("none.h5:/x", LKS_E_IO, "none.h5:/x': there is no such file");
    file = make_file("damaged.h5"); /* what is compressed ends in a checksum */
    write_dataset(file, "/x", H5T_IEEE_F64LE, 2, dim, &packed, elements);
    H5Fclose(file);
    assert_int_equal(stat(in_folder("damaged.h5"), &info), 0);
    snprintf(command, sizeof command,
             "printf 'xxxxxxxx' | dd of=damaged.h5 bs=1 seek=%d conv=notrunc 2>/dev/null",
             (int)info.st_size - 60);
    assert_int_equal(shell("%s", command), 0);
    expect_failure("damaged.h5", LKS_E_FORMAT, "damaged.h5' cannot be read: libhdf5 says: ");
    run("data shard x.h5:/x y.npy --out o --threads 2");
    expect_ok();
    run("doctor");
    assert_non_null(strstr(last.out, "libhdf5"));
}

/* 40 MB in two files, of which a shard has 3.5 kB. */
static int shards_need_little(void *user)
{
    struct rusage before, after;
    (void)user;
    getrusage(RUSAGE_SELF, &before);
    LKT_CHECK(cut("large.h5", "y.h5", "o", 2) == LKS_OK);
    getrusage(RUSAGE_SELF, &after);
    print_message("%ld kB more\n", after.ru_maxrss - before.ru_maxrss);
    LKT_CHECK(after.ru_maxrss - before.ru_maxrss < 25 * 1024);
    return 0;
}

static void rows_are_read_by_blocks(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* which keeps what is freed */
#endif
    enum { TALL = 1000, WIDE = 5000 };
    static const hsize_t dim[] = {TALL, WIDE}, of_y[] = {TALL};
    static const layout chunks = {{3, WIDE}, true, false}, plain = {{0}, false, false};
    hid_t file = make_file("large.h5");
    write_dataset(file, "/x", H5T_IEEE_F64BE, 2, dim, &chunks, NULL);
    H5Fclose(file);
    file = make_file("y.h5");
    write_dataset(file, "/y", H5T_STD_I8LE, 1, of_y, &plain, NULL);
    H5Fclose(file);
    assert_int_equal(lkt_in_child(shards_need_little, NULL), 0);
}

static const struct CMUnitTest hdf5_tests[] = {
    cmocka_unit_test_setup_teardown(numbers_of_every_kind_are_those_of_npy, set_up, tear_down),
    cmocka_unit_test_setup_teardown(halves_and_text_before_a_file, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_is_no_array_of_numbers_is_said, set_up, tear_down),
    cmocka_unit_test_setup_teardown(what_is_no_hdf5_file_is_said, set_up, tear_down),
    cmocka_unit_test_setup_teardown(rows_are_read_by_blocks, set_up, tear_down),
};

#else

static void a_build_without_says_so(void **state)
{
    (void)state;
    write_targets();
    assert_int_equal(shell("printf '\\211HDF\\r\\n\\032\\n' >x.h5"), 0);
    expect_failure("x.h5:/x", LKS_E_UNSUPPORTED,
                   "x.h5' is an HDF5 file, and this program was "
                   "built without libhdf5; build it where hdf5.h is");
    lki_hdf5 *array;
    lki_npy npy;
    assert_int_equal(lki_hdf5_open(&array, &npy, NULL, "x", NULL), LKS_E_UNSUPPORTED);
    assert_null(array);
    assert_int_equal(lki_hdf5_read(array, 0, 1, NULL), LKS_E_UNSUPPORTED);
    lki_hdf5_close(array);
}

static const struct CMUnitTest hdf5_tests[] = {
    cmocka_unit_test_setup_teardown(a_build_without_says_so, set_up, tear_down)};

#endif

int main(void)
{
    return cmocka_run_group_tests_name("hdf5", hdf5_tests, NULL, NULL);
}
