/* Pictures as they lie in files, to predict from. */
#include "data/pictures.h"

#include <lockstep/tools.h>

static void make_pictures(void)
{
    static const char *const folders[] = {"p", "p/2", "p/10", "p/ape"};
    char path[100];
    for (int f = 0; f < 4; f++) {
        assert_int_equal(mkdir(in_folder(folders[f]), 0777), 0);
        for (int i = 0; f > 0 && i < 2; i++) {
            snprintf(path, sizeof path, "%s/%02d.png", folders[f], i);
            lkt_write_sample(in_folder(path), f, i, 9 + i, 20 - i);
        }
    }
}

static void loose_pictures_are_samples(void **state)
{
    (void)state;
    lks_dataset *set, *part;
    uint8_t found[5 * 7 * 3], expected[5 * 7 * 3];
    int32_t label = 1;
    make_pictures();
    write_bytes(in_folder("p/notes.txt"), "x", 1);
    LKT_OK(lks_dataset_open_pictures(&set, context, in_folder("p"), &LKS_SHAPE(5, 7, 3), 9));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, 6);
    assert_int_equal(info.classes, 9);
    assert_true(lks_shape_equal(&info.shape, &LKS_SHAPE(5, 7, 3)));
    LKT_OK(lks_dataset_slice(&part, set, 1, 2));
    for (int i = 1; i < 3; i++) { /* of 10, 2, ape: in the order of their paths, not of numbers */
        char path[100];
        snprintf(path, sizeof path, "p/%s/%02d.png", i < 2 ? "10" : "2", i % 2);
        LKT_OK(lks_dataset_read(part, i - 1, found, &label));
        assert_int_equal(label, 0);
        LKT_OK(decode(expected, in_folder(path), 5, 7));
        assert_memory_equal(found, expected, sizeof found);
        assert_string_equal(lks_dataset_sample(part, i - 1), in_folder(path));
    }
    assert_null(lks_dataset_sample(part, 2));
    assert_null(lks_dataset_sample(part, -1));
    lks_dataset_destroy(part);
    lks_dataset_destroy(set);
    write_bytes(in_folder("p/2/bad.png"), "<html>", 6);
    LKT_OK(
        lks_dataset_open_pictures(&set, context, in_folder("p/2/bad.png"), &LKS_SHAPE(5, 7, 3), 0));
    assert_int_equal(lks_dataset_get_info(set).samples, 1);
    LKT_FAILS(LKS_E_FORMAT, "p/2/bad.png: it is no JPEG and no PNG, but HTML",
              lks_dataset_read(set, 0, found, &label));
    lks_dataset_destroy(set);
    LKT_FAILS(
        LKS_E_IO, "there is no such file",
        lks_dataset_open_pictures(&set, context, in_folder("none.jpg"), &LKS_SHAPE(5, 7, 3), 0));
    LKT_FAILS(LKS_E_INVALID, "7 x 0 pixels",
              lks_dataset_open_pictures(&set, context, in_folder("p"), &LKS_SHAPE(0, 7, 3), 0));
    assert_int_equal(mkdir(in_folder("empty"), 0777), 0);
    LKT_FAILS(LKS_E_FORMAT, "has no picture",
              lks_dataset_open_pictures(&set, context, in_folder("empty"), &LKS_SHAPE(5, 7, 3), 0));
}

/* What Pillow 13.0's Image.new("RGB", (1, 1), colour).convert("L") gives; of a grey picture its own bytes. */
static void grey_is_pillows(void **state)
{
    (void)state;
    static const uint8_t colours[] = {255, 0,  0,   0,  255, 0,   0,  0,   255, 255, 255, 255,
                                      10,  20, 30,  1,  2,   250, 77, 200, 13,  128, 127, 129,
                                      254, 1,  128, 90, 90,  90,  0,  0,   4,   3,   0,   0},
                         expected[] = {76, 150, 29, 255, 18, 30, 142, 128, 91, 90, 0, 1};
    enum { PIXELS = sizeof expected };
    uint8_t found[PIXELS];
    int32_t label;
    lks_dataset *set;
    const lks_shape grey = LKS_SHAPE(1, PIXELS, 1);
    lkt_write_png(in_folder("c.png"), 1, PIXELS, PNG_COLOR_TYPE_RGB, 8, false, colours,
                  sizeof colours);
    LKT_OK(lks_dataset_open_pictures(&set, context, in_folder("c.png"), &grey, 0));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_true(lks_shape_equal(&info.shape, &grey));
    LKT_OK(lks_dataset_read(set, 0, found, &label));
    assert_memory_equal(found, expected, PIXELS);
    lks_dataset_destroy(set);
    lkt_write_png(in_folder("g.png"), 1, PIXELS, PNG_COLOR_TYPE_GRAY, 8, false, expected, PIXELS);
    LKT_OK(lks_dataset_open_pictures(&set, context, in_folder("g.png"), &grey, 0));
    LKT_OK(lks_dataset_read(set, 0, found, &label));
    assert_memory_equal(found, expected, PIXELS);
    lks_dataset_destroy(set);
    LKT_FAILS(LKS_E_INVALID, "pictures of 2 channels were asked for, expected 3 or, for grey, 1",
              lks_dataset_open_pictures(&set, context, in_folder("g.png"), &LKS_SHAPE(1, 1, 2), 0));
    LKT_FAILS(LKS_E_INVALID, "pictures of 2 dimensions were asked for, expected height",
              lks_dataset_open_pictures(&set, context, in_folder("g.png"), &LKS_SHAPE(1, 1), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loose_pictures_are_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(grey_is_pillows, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("data/loose", tests, NULL, NULL);
}
