/* NumPy's arrays in folders and .npz archives: names, members, what is damaged, and what numpy itself writes. */
#include "data/folder.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/npy_files.h"
#include "data/numpy/zip.h"

enum { SIZE = 4 };

static bytes archive, content[6];

static const char *in(const char *name)
{
    static char path[2][4200];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void drop(const char *name)
{
    assert_int_equal(unlink(in(name)), 0);
}

/* So many samples of 2x2 bytes, all `value`; so many labels, the largest of them `value`. */
static const bytes *images(bytes *out, int count, int value)
{
    char shape[32];
    snprintf(shape, sizeof shape, "(%d, 2, 2)", count);
    put_npy(out, "|u1", false, shape);
    for (int i = 0; i < count * SIZE; i++) put_number(out, (uint64_t)value, 1);
    return out;
}

static const bytes *labels(bytes *out, int count, int value)
{
    char shape[32];
    snprintf(shape, sizeof shape, "(%d,)", count);
    put_npy(out, "<i8", false, shape);
    for (int i = 0; i < count; i++) put_number(out, (uint64_t)(i == 0 ? value : 0), 8);
    return out;
}

/* Which of several candidates is opened is told by the value of its first byte, and its label. */
static void finds_in(const char *path, bool test_split, int value, int label)
{
    lks_dataset *set;
    uint8_t x[SIZE];
    int32_t y;
    assert_true(lks_dataset_folder_has(path, test_split));
    LKT_OK(lks_dataset_open_folder(&set, context, path, test_split, 0));
    LKT_OK(lks_dataset_read(set, 0, x, &y));
    assert_int_equal(x[0], value);
    assert_int_equal(y, label);
    lks_dataset_destroy(set);
}

static void fails_in(const char *path, lks_status status, const char *part, bool test_split)
{
    lks_dataset *set = (lks_dataset *)(void *)context; /* must become NULL */
    LKT_FAILS(status, part, lks_dataset_open_folder(&set, context, path, test_split, 0));
    assert_null(set);
}

static void put_pair(const char *x, const char *y, int value)
{
    write_bytes(in(x), images(&content[0], 3, value));
    write_bytes(in(y), labels(&content[1], 3, value));
}

static void names_are_taken_in_order(void **state)
{
    (void)state;
    /* Backwards: each is preferred to those before it. */
    put_pair("X.npy", "y.npy", 1);
    finds_in(folder, false, 1, 1);
    put_pair("x.npy", "y.npy", 2);
    finds_in(folder, false, 2, 2);
    put_pair("images.npy", "labels.npy", 3);
    finds_in(folder, false, 3, 3);
    put_pair("train_data.npy", "train_labels.npy", 4);
    finds_in(folder, false, 4, 4);
    put_pair("train_images.npy", "train_labels.npy", 5);
    finds_in(folder, false, 5, 5);
    put_pair("train_x.npy", "train_y.npy", 6);
    finds_in(folder, false, 6, 6);
    put_pair("X_train.npy", "y_train.npy", 7);
    finds_in(folder, false, 7, 7);
    put_pair("x_train.npy", "y_train.npy", 8);
    finds_in(folder, false, 8, 8);
    assert_false(lks_dataset_folder_has(folder, true));
    fails_in(folder, LKS_E_IO, "has no test samples; expected", true);
    put_pair("val_images.npy", "val_labels.npy", 1);
    finds_in(folder, true, 1, 1);
    put_pair("x_val.npy", "y_val.npy", 2);
    finds_in(folder, true, 2, 2);
    put_pair("test_images.npy", "test_labels.npy", 3);
    finds_in(folder, true, 3, 3);
    put_pair("X_test.npy", "y_test.npy", 4);
    finds_in(folder, true, 4, 4);
    put_pair("x_test.npy", "y_test.npy", 5);
    finds_in(folder, true, 5, 5);
    /* Half a pair is for nobody where a whole one is there, and told where none is. */
    drop("y_test.npy");
    finds_in(folder, true, 3, 3);
    drop("x_train.npy");
    drop("X_train.npy");
    finds_in(folder, false, 6, 6);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    write_bytes(in("x_train.npy"), images(&content[0], 3, 1));
    fails_in(folder, LKS_E_IO, "has the array x_train.npy, but no y_train.npy; put that", false);
    drop("x_train.npy");
    write_bytes(in("y_train.npy"), labels(&content[0], 3, 1));
    fails_in(folder, LKS_E_IO, "has the array y_train.npy, but no x_train.npy; put that", false);
    fails_in(in("y_train.npy"), LKS_E_IO, "has no training samples; expected train-images", false);
    drop("y_train.npy");
    /* Labels of the test split that training has not. */
    put_pair("x_train.npy", "y_train.npy", 2);
    put_pair("x_test.npy", "y_test.npy", 3);
    fails_in(folder, LKS_E_FORMAT, "y_test.npy' has labels up to 3, but '", true);
    lks_dataset *set;
    LKT_OK(lks_dataset_open_folder(&set, context, folder, true, 7));
    assert_int_equal(lks_dataset_get_info(set).classes, 7);
    lks_dataset_destroy(set);
    put_pair("x_test.npy", "y_test.npy", 1);
    LKT_OK(lks_dataset_open_folder(&set, context, folder, true, 0));
    assert_int_equal(lks_dataset_get_info(set).classes, 3);
    lks_dataset_destroy(set);
}

/* Two pairs, with a member between them that is of no interest. */
static void make_archive(int method, bool wide, bool wide_end)
{
    const member members[] = {
        {"x_train.npy", images(&content[0], 3, 11), method, wide, false},
        {"y_train.npy", labels(&content[1], 3, 5), method, wide, false},
        {"notes.txt", images(&content[2], 40, 0), 8, false, false},
        {"x_test.npy", images(&content[3], 3, 22), method, wide, false},
        {"y_test.npy", labels(&content[4], 3, 4), 0, wide, false},
    };
    make_zip(&archive, members, 5, wide_end);
}

static void archives_are_read(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        make_archive(k & 1 ? 8 : 0, k & 2, k & 4);
        write_bytes(in("a.npz"), &archive);
        finds_in(in("a.npz"), false, 11, 5);
        finds_in(in("a.npz"), true, 22, 4);
        finds_in(folder, true, 22, 4);
    }
    archive.data[archive.count - 2] = 9; /* a comment */
    put(&archive, "a comment", 9);
    write_bytes(in("a.npz"), &archive);
    finds_in(folder, false, 11, 5);
    put_pair("x_train.npy", "y_train.npy", 3);
    finds_in(folder, false, 3, 3); /* files come first */
    drop("x_train.npy");
    drop("y_train.npy");
    write_bytes(in("b.NPZ"), &archive);
    fails_in(folder, LKS_E_INVALID, "there are 2 .npz files where '", false);
    finds_in(in("b.NPZ"), false, 11, 5);
    /* The later of two members of one name. */
    const member twice[] = {{"x.npy", images(&content[0], 1, 1), 0, false, false},
                            {"y.npy", labels(&content[1], 1, 0), 0, false, false},
                            {"x.npy", images(&content[2], 1, 2), 0, false, false}};
    make_zip(&archive, twice, 3, false);
    write_bytes(in("c.npz"), &archive);
    finds_in(in("c.npz"), false, 2, 0);
}

static void other_archives_are_refused(void **state)
{
    (void)state;
    static const struct {
        member first;
        const char *says;
    } cases[] = {
        {{"x.npy", NULL, 8, false, true}, "the member 'x.npy' is encrypted, expected it open"},
        {{"x.npy", NULL, 12, false, false}, "is packed by method 12, expected stored or deflated"},
        {{"x.pny", NULL, 0, false, false}, "has the array y.npy, but no x.npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        member members[] = {cases[i].first, {"y.npy", labels(&content[1], 3, 1), 0, false, false}};
        members[0].content = images(&content[0], 3, 1);
        make_zip(&archive, members, 2, false);
        write_bytes(in("a.npz"), &archive);
        fails_in(in("a.npz"), i == 2 ? LKS_E_IO : LKS_E_FORMAT, cases[i].says, false);
    }
    const member other[] = {{"other.npy", images(&content[0], 3, 1), 0, false, false}};
    make_zip(&archive, other, 1, false);
    write_bytes(in("a.npz"), &archive);
    fails_in(folder, LKS_E_IO, "has no training samples; expected", false);
    fails_in(in("a.npz"), LKS_E_FORMAT, "a.npz' has 1 array: other, none called as samples", false);
    fails_in(in("a.npz"), LKS_E_FORMAT,
             "; expected x_train and y_train, X_train and y_train, train_x", false);
    fails_in(in("a.npz"), LKS_E_FORMAT, ", X and y; save them by such names", false);
    fails_in(in("a.npz"), LKS_E_IO, "has no test samples; expected", true);
    const member tests[] = {{"x_test.npy", images(&content[0], 3, 1), 0, false, false},
                            {"a long name that nobody would give to an array of his.npy",
                             images(&content[1], 3, 1), 0, false, false},
                            {"y_test.npy", labels(&content[2], 3, 1), 0, false, false}};
    make_zip(&archive, tests, 3, false);
    write_bytes(in("a.npz"), &archive);
    finds_in(in("a.npz"), true, 1, 1);
    fails_in(in("a.npz"), LKS_E_IO, "has no training samples; expected", false);
    make_zip(&archive, tests + 1, 1, false);
    write_bytes(in("a.npz"), &archive);
    fails_in(in("a.npz"), LKS_E_FORMAT, "a.npz' has 1 array, none called", false);
    archive.count = 0;
    write_bytes(in("a.npz"), &archive);
    fails_in(in("a.npz"), LKS_E_FORMAT, "a.npz' is empty, expected a zip archive of arrays", false);
    put(&archive, "no archive", 10);
    write_bytes(in("a.npz"), &archive);
    fails_in(in("a.npz"), LKS_E_FORMAT, "a.npz' begins as no zip archive does, expected", false);
    write_bytes(in("a.zip"), &archive);
    fails_in(in("a.zip"), LKS_E_IO, "has no training samples; expected", false);
}

/* Reads what the tests look for; true: all is as it was. */
static bool reads_archive(const char **sentence)
{
    lki_zip zip;
    static const char *const names[] = {"x_train.npy", "y_train.npy"};
    bool same = true;
    lks_status status = lki_zip_open(&zip, archive.data, archive.count, "a.npz");
    for (int i = 0; i < 2 && status == LKS_OK; i++) {
        lki_file inflated = {.context = context};
        const uint8_t *data;
        size_t count;
        status = lki_zip_read(&zip, names[i], &data, &count, &inflated);
        if (status == LKS_OK)
            same = same && count == content[i].count && memcmp(data, content[i].data, count) == 0;
        lki_file_close(&inflated);
    }
    *sentence = status == LKS_OK ? "" : lks_last_error()->message;
    return status == LKS_OK && same;
}

/* With any byte changed an archive is refused, or gives the same arrays: CRCs are compared. */
static void no_damage_gives_other_arrays(void **state)
{
    (void)state;
    const char *sentence;
    int refused = 0;
    for (int k = 0; k < 4; k++) {
        make_archive(k & 1 ? 8 : 0, k & 2, k & 2);
        assert_true(reads_archive(&sentence));
        const size_t whole = archive.count;
        for (size_t i = 0; i < whole; i++)
            for (int bit = 0; bit < 8; bit++) {
                archive.data[i] ^= (uint8_t)(1 << bit);
                const bool same = reads_archive(&sentence);
                if (!same && *sentence == '\0') fail_msg("bit %d of byte %zu", bit, i);
                refused += !same;
                archive.data[i] ^= (uint8_t)(1 << bit);
            }
        for (size_t cut = 0; cut < whole; cut++) {
            archive.count = cut;
            assert_false(reads_archive(&sentence));
            assert_non_null(strstr(sentence, "has no list of its members at its end; it is"));
        }
        archive.count = whole;
    }
    assert_true(refused > 1000);
}

/* Sizes in the list that are lies, with the CRC of nothing. */
static void sizes_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        int field, method; /* offset in the entry of the list */
        uint64_t value;
        const char *says;
    } cases[] = {
        {24, 8, 1 << 30, "the deflate data gives 89 bytes, fewer than the 1073741824"},
        {24, 8, 50, "the deflate data gives more than the 50 bytes that the file says"},
        {24, 0, 100, "is stored, but has 89 bytes in the place of 100"},
        {20, 8, 10, "the deflate data ends too early, after 10 bytes"},
        {20, 8, 1 << 20, "is not where the list of the zip archive says"},
        {42, 8, 1, "is not where the list of the zip archive says"},
        {42, 8, 1 << 30, "is not where the list of the zip archive says"},
        {28, 8, 60000, "the list of the zip archive is damaged"},
        {16, 8, 1, "has another CRC than the list of the zip archive says"},
    };
    const char *sentence;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_archive(cases[i].method, false, false);
        lki_zip zip;
        LKT_OK(lki_zip_open(&zip, archive.data, archive.count, "a.npz"));
        const size_t entry = (size_t)(zip.list - archive.data);
        const size_t end = archive.count;
        archive.count = entry + (size_t)cases[i].field;
        put_number(&archive, cases[i].value, cases[i].field == 28 ? 2 : 4);
        archive.count = end;
        assert_false(reads_archive(&sentence));
        if (strstr(sentence, cases[i].says) == NULL)
            fail_msg("no '%s' in: %s", cases[i].says, sentence);
    }
}

/* A failure of memory anywhere leaves nothing behind. */
static void memory_may_be_short(void **state)
{
    (void)state;
    make_archive(8, false, false);
    write_bytes(in("a.npz"), &archive);
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {.fail_at = 0};
        const lks_context_opts opts = {.allocator = lkt_heap_allocator(&heap)};
        lks_context *small;
        lks_dataset *set;
        LKT_OK(lks_context_create(&small, &opts));
        const int64_t live = heap.live;
        heap.fail_at = heap.allocations + n;
        const lks_status status = lks_dataset_open_folder(&set, small, in("a.npz"), true, 0);
        if (status != LKS_OK) assert_int_equal(status, LKS_E_NOMEM);
        lks_dataset_destroy(set);
        assert_int_equal(heap.live, live);
        lks_context_destroy(small);
        assert_int_equal(heap.errors, 0);
        if (status == LKS_OK) {
            assert_true(n > 5);
            return;
        }
    }
}

/* What numpy writes: arrays of one value by formula, in every type, order and way of saving. */
static void numpy_is_read(void **state)
{
    (void)state;
    static const char script[] =
        "import sys\n"
        "try:\n    import numpy as np\nexcept ImportError:\n    sys.exit(77)\n"
        "k = 0\n"
        "x = (np.arange(5 * 6 * 7 * 3) * 29 % 251).reshape(5, 6, 7, 3)\n"
        "y = np.array([4, 0, 2, 1, 3])\n"
        "for t in ['u1', 'i2', '>i4', 'i8', '>u8', 'f4', '>f8', 'f2']:\n"
        "    for order in 'CF':\n"
        "        for chw in range(2):\n"
        "            a = np.array(x.transpose(0, 3, 1, 2) if chw else x, dtype=t, order=order)\n"
        "            save = np.savez_compressed if k % 2 else np.savez\n"
        "            save(f'{sys.argv[1]}/{k}.npz', x_train=a, y_train=y.astype(['i1', '>i8'][k % "
        "2]))\n"
        "            k += 1\n";
    char command[10000];
    uint64_t expected[2], hash;
    uint8_t x[5 * 126];
    float f[5 * 126];
    const int32_t y[] = {4, 0, 2, 1, 3};
    lks_dataset *set;
    snprintf(command, sizeof command, "python3 -c \"%s\" '%s'", script, folder);
    const int code = system(command);
    if (code == 77 << 8 || code == 127 << 8) {
        print_message("no numpy for python3: skipped\n");
        skip();
    }
    assert_int_equal(code, 0);
    for (int i = 0; i < 5 * 126; i++) f[i] = x[i] = (uint8_t)(i * 29 % 251);
    for (int k = 0; k < 2; k++) {
        const lks_dataset_info info = {
            .samples = 5, .shape = {3, {6, 7, 3}}, .dtype = k ? LKS_F32 : LKS_U8, .classes = 5};
        LKT_OK(lks_dataset_from_arrays(&set, context, &info, k ? (void *)f : x, y));
        LKT_OK(lks_dataset_hash(set, &expected[k]));
        lks_dataset_destroy(set);
    }
    for (int k = 0; k < 32; k++) {
        char name[16];
        snprintf(name, sizeof name, "%d.npz", k);
        LKT_OK(lks_dataset_open_folder(&set, context, in(name), false, 0));
        LKT_OK(lks_dataset_hash(set, &hash));
        if (hash != expected[k >= 20]) fail_msg("%s has other samples", name);
        lks_dataset_destroy(set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_taken_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_missing_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(archives_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_archives_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_damage_gives_other_arrays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_that_lie_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_may_be_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numpy_is_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
