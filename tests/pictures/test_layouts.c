/* Where pictures lie, and of which class and split they are. */
#include "pictures/packing.h"

static void expect_layout(const char *what, const char *how, int64_t training, int64_t test)
{
    lks_pack_result result;
    static int number;
    char out[20];
    snprintf(out, sizeof out, "layout%d", number++);
    LKT_OK(pack(&result, what, out, (lks_pack_opts){0}));
    if (strstr(result.how, how) == NULL) fail_msg("no \"%s\" in: %s", how, result.how);
    assert_int_equal(result.samples[0], training);
    assert_int_equal(result.samples[1], test);
}

static void test_pictures_have_a_folder(void **state)
{
    (void)state;
    lks_pack_result result;
    mkdir(in_folder("d"), 0777);
    make_class_folders("d/train", 3);
    expect_layout("d", "no folder of test pictures", 9, 0);
    make_class_folders("d/test", 1);
    expect_layout("d", "test pictures in test/", 9, 3);
    make_class_folders("d/val", 2);
    expect_layout("d", "test pictures in val/", 9, 6);
    LKT_FAILS(LKS_E_INVALID, "has test pictures of its own",
              pack(&result, "d", "o", (lks_pack_opts){.split = 0.1}));
    mkdir(in_folder("d/val/bee"), 0777);
    lkt_write_sample(in_folder("d/val/bee/1.png"), 0, 0, 4, 4);
    LKT_FAILS(LKS_E_FORMAT, "is of the class 'bee', of which there is no picture for training",
              pack(&result, "d", "o", (lks_pack_opts){0}));
}

static void tiny_imagenets_layout_is_known(void **state)
{
    (void)state;
    static const char *const folders[] = {
        "t",          "t/train",           "t/train/n1", "t/train/n1/images",
        "t/train/n2", "t/train/n2/images", "t/val",      "t/val/images",
        "t/test",     "t/test/images"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        mkdir(in_folder(folders[i]), 0777);
    lkt_write_sample(in_folder("t/train/n1/images/n1_0.JPEG"), 0, 0, 4, 4);
    lkt_write_sample(in_folder("t/train/n2/images/n2_0.JPEG"), 1, 1, 4, 4);
    write_bytes(in_folder("t/train/n1/n1_boxes.txt"), "x", 1);
    lkt_write_sample(in_folder("t/val/images/val_0.JPEG"), 1, 2, 4, 4);
    lkt_write_sample(in_folder("t/val/images/val_1.JPEG"), 0, 3, 4, 4);
    static const char table[] = "val_0.JPEG\tn2\t0\t32\t44\t62\nval_1.JPEG\tn1\t52\t55\t57\t59\n";
    write_bytes(in_folder("t/val/val_annotations.txt"), table, sizeof table - 1);
    lkt_write_sample(in_folder("t/test/images/test_0.JPEG"), 0, 0, 4, 4);
    lks_pack_result result;
    LKT_OK(pack(&result, "t", "o", (lks_pack_opts){0}));
    assert_int_equal(result.samples[0], 2);
    assert_int_equal(result.samples[1], 2);
    lks_dataset *set;
    uint8_t x[SIZE * SIZE * 3], expected[sizeof x];
    int32_t label;
    LKT_OK(lks_dataset_open_folder(&set, context, in_folder("o"), true, 0));
    LKT_OK(lks_dataset_read(set, 0, x, &label));
    assert_int_equal(label, 0); /* by classes, then by names */
    LKT_OK(decode(expected, in_folder("t/val/images/val_1.JPEG"), SIZE, SIZE));
    assert_memory_equal(x, expected, sizeof x);
    lks_dataset_destroy(set);
}

static void a_table_has_files_and_classes(void **state)
{
    (void)state;
    lks_pack_result result;
    lks_dataset *set;
    make_class_folders("p", 2);
    static const char table[] = "\xef\xbb\xbf"
                                "file,class,more\r\np/2/00.png,cat,1\r\n\"p/ape/01.png\",\"dog, "
                                "\"\"big\"\"\"\r\n\r\np/10/00.png,cat";
    write_bytes(in_folder("l.csv"), table, sizeof table - 1);
    LKT_OK(pack(&result, "l.csv", "o", (lks_pack_opts){0}));
    assert_int_equal(result.samples[0], 3);
    LKT_OK(lks_dataset_open_folder(&set, context, in_folder("o"), false, 0));
    assert_string_equal(lks_dataset_class(set, 0), "cat");
    assert_string_equal(lks_dataset_class(set, 1), "dog, \"big\"");
    for (int i = 0; i < 3; i++) {
        uint8_t x[SIZE * SIZE * 3];
        int32_t label;
        LKT_OK(lks_dataset_read(set, i, x, &label));
        assert_int_equal(label, i % 2); /* in the order of the table */
    }
    lks_dataset_destroy(set);
    static const struct {
        const char *table, *sentence;
    } wrong[] = {{"p/2/00.png,cat\np/10/00.png\n", "line 2: it has one column between commas; e"},
                 {"p/2/00.png;cat\np/10/00.png,a\n", "line 2: it has one column between semicol"},
                 {"p/2/00.png\tcat\np/10/00.png;a\n", "line 2: it has one column between tabs;"},
                 {"p/2/00.png, \t \n", "line 1: a field is empty"},
                 {"p/2/00.png:cat\n", "line 1: it has one column between commas"},
                 {"p/2/00.png,\n", "line 1: a field is empty"},
                 {"p/2/00.png,\"cat\n", "line 1: a quote is not closed"},
                 {"p/2/00.png,\"cat\"s\n", "line 1: a quote is not closed, or something follows"},
                 {"p/2/00.png,cat\np/10/00.png,cat\n", "has one class, 'cat'"},
                 {"file,class\n", "has no pictures for training"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_bytes(in_folder("w.csv"), wrong[i].table, strlen(wrong[i].table));
        LKT_FAILS(LKS_E_FORMAT, wrong[i].sentence, pack(&result, "w.csv", "n", (lks_pack_opts){0}));
    }
    static const char untitled[] = "\xef\xbb\xbf"
                                   "p/2/00.png,cat\np/10/00.png,dog\n";
    write_bytes(in_folder("w.csv"), untitled, sizeof untitled - 1);
    LKT_OK(pack(&result, "w.csv", "untitled", (lks_pack_opts){0}));
    assert_int_equal(result.samples[0], 2);
    /* A title may be the name of the pictures' folder. */
    static const char folders[] = "p,class\np/2/00.png,cat\np/10/00.png,dog\n";
    write_bytes(in_folder("w.csv"), folders, sizeof folders - 1);
    LKT_OK(pack(&result, "w.csv", "folders", (lks_pack_opts){0}));
    assert_int_equal(result.samples[0], 2);
    assert_int_equal(result.classes, 2);
    /* A file that is not there is a bad picture, but in the first row, which may be titles. */
    static const char missing[] = "p/2/00.png,cat\np/10/00.png,dog\nnone.png,dog\n";
    write_bytes(in_folder("w.csv"), missing, sizeof missing - 1);
    LKT_FAILS(LKS_E_FORMAT, "1 of 3 pictures cannot be read",
              pack(&result, "w.csv", "n", (lks_pack_opts){0}));
}

/* As spreadsheets of several languages write it, and people by hand. */
static void columns_may_be_between_others(void **state)
{
    (void)state;
    static const char *const tables[] = {
        "file;class\np/2/00.png;a cat\np/10/00.png; dog \n\"p/ape/00.png\";\"a cat\"\n",
        "file\tclass\tmore\r\np/2/00.png\ta cat\t1\r\np/10/00.png\tdog\t2\r\np/ape/00.png\t"
        "\"a cat\"",
        "file, class\np/2/00.png, a cat\np/10/00.png,dog \np/ape/00.png,a cat\n",
        "p/2/00.png;a cat\np/10/00.png;dog\np/ape/00.png;a cat\n",
        "\"a;title\",\"class\"\np/2/00.png,a cat\np/10/00.png,dog\np/ape/00.png,\" a cat\"\n"};
    lks_pack_result result;
    make_class_folders("p", 1);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char name[16];
        lks_dataset *set;
        snprintf(name, sizeof name, "o%zu", i);
        write_bytes(in_folder("t.csv"), tables[i], strlen(tables[i]));
        LKT_OK(pack(&result, "t.csv", name, (lks_pack_opts){0}));
        assert_int_equal(result.samples[0], CLASSES);
        assert_int_equal(result.classes, 2);
        LKT_OK(lks_dataset_open_folder(&set, context, in_folder(name), false, 0));
        assert_string_equal(lks_dataset_class(set, 0), "a cat");
        assert_string_equal(lks_dataset_class(set, 1), "dog");
        lks_dataset_destroy(set);
    }
}

static void folders_that_are_none_are_refused(void **state)
{
    (void)state;
    lks_pack_result result;
    LKT_FAILS(LKS_E_IO, "no such file or folder", pack(&result, "none", "o", (lks_pack_opts){0}));
    mkdir(in_folder("e"), 0777);
    LKT_FAILS(LKS_E_FORMAT, "has no pictures for training",
              pack(&result, "e", "o", (lks_pack_opts){0}));
    make_class_folders("p", 1);
    lkt_write_sample(in_folder("p/0.png"), 0, 0, 4, 4);
    LKT_FAILS(LKS_E_FORMAT, "lies beside the folders of classes",
              pack(&result, "p", "o", (lks_pack_opts){0}));
    assert_int_equal(unlink(in_folder("p/0.png")), 0);
    assert_int_equal(symlink("..", in_folder("p/ape/up")), 0);
    LKT_FAILS(LKS_E_FORMAT, "folders deep", pack(&result, "p", "o", (lks_pack_opts){0}));
    assert_int_equal(unlink(in_folder("p/ape/up")), 0);
    for (int c = 0; c < CLASSES; c++) {
        char path[100];
        snprintf(path, sizeof path, "p/%s/00.png", class_names[c]);
        write_bytes(in_folder(path), "", 0);
    }
    LKT_FAILS(LKS_E_FORMAT, "no picture for training can be read",
              pack(&result, "p", "o", (lks_pack_opts){.skip_bad = true}));
    assert_int_equal(access(in_folder("o/" LKI_PACKED_FILE ".part"), F_OK), -1);
    LKT_FAILS(LKS_E_INVALID, "expected sides of 1 to 2048",
              pack(&result, "p", "o", (lks_pack_opts){.height = 1, .width = 2049}));
    LKT_FAILS(LKS_E_INVALID, "expected 0 to less than 1",
              pack(&result, "p", "o", (lks_pack_opts){.split = 1}));
}

/* Half a picture is rounded up, and one is left to train on. */
static void a_share_of_nothing_is_refused(void **state)
{
    (void)state;
    lks_pack_result result;
    make_class_folders("p", 4);
    LKT_FAILS(LKS_E_INVALID,
              "--split 0.1 of 4 pictures is none, and no class has more; a class needs at least 5",
              pack(&result, "p", "o", (lks_pack_opts){.split = 0.1}));
    assert_int_equal(access(in_folder("o"), F_OK), -1);
    lkt_write_sample(in_folder("p/ape/04.png"), 2, 4, 9, 9);
    LKT_OK(pack(&result, "p", "o", (lks_pack_opts){.split = 0.1}));
    assert_int_equal(result.samples[1], 1);
    make_class_folders("one", 1);
    LKT_FAILS(LKS_E_INVALID,
              "--split 0.9 of 1 picture is none, and no class has more; a class "
              "needs at least 2 for",
              pack(&result, "one", "n", (lks_pack_opts){.split = 0.9}));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_pictures_have_a_folder),       TEST(tiny_imagenets_layout_is_known),
        TEST(a_table_has_files_and_classes),     TEST(columns_may_be_between_others),
        TEST(folders_that_are_none_are_refused), TEST(a_share_of_nothing_is_refused),
    };
    return cmocka_run_group_tests_name("pictures/layouts", tests, NULL, NULL);
}
