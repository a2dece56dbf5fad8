/* Augmentations with given numbers, beside Pillow (tools/goldens/augment.py, which derives the bounds). */
#include <stdlib.h>
#include <string.h>

#include "augment/augment.h"
#include "support/golden.h"
#include "support/test.h"

enum { ROWS = 11, COLUMNS = 14, IMAGE = ROWS * COLUMNS * 3 };

static void apply(const lki_image *image, const char *what, const json_t *numbers)
{
    double n[4] = {0};
    for (size_t i = 0; i < json_array_size(numbers); i++)
        n[i] = json_number_value(json_array_get(numbers, i));
    lki_colours colours = {.brightness = 1, .contrast = 1, .saturation = 1, .hue = 0};
    if (strcmp(what, "nearest") == 0) {
        lki_augment_rotate(image, n[0], LKS_NEAREST);
        return;
    }
    if (strcmp(what, "bilinear") == 0) {
        lki_augment_rotate(image, n[0], LKS_BILINEAR);
        return;
    }
    if (strcmp(what, "resize") == 0) {
        lki_augment_resize(image,
                           (lki_part){(int64_t)n[0], (int64_t)n[1], (int64_t)n[2], (int64_t)n[3]});
        return;
    }
    double *const member = strcmp(what, "brightness") == 0   ? &colours.brightness
                           : strcmp(what, "contrast") == 0   ? &colours.contrast
                           : strcmp(what, "saturation") == 0 ? &colours.saturation
                                                             : &colours.hue;
    *member = n[0];
    lki_augment_jitter(image, &colours);
}

static int byte_at(const char *hex, int i)
{
    const char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    return (int)strtol(digits, NULL, 16);
}

static void equals_pillow(void **state)
{
    (void)state;
    uint8_t in[IMAGE], out[IMAGE];
    json_t *file = lkt_json_load("tests/augment/golden/pillow.json");
    const json_t *cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) > 30);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            for (int k = 0; k < 3; k++)
                in[(r * COLUMNS + c) * 3 + k] = (uint8_t)(r * 37 + c * 91 + k * 53 + r * c * 7);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *what = json_string_value(json_object_get(one, "what"));
        const char *hex = json_string_value(json_object_get(one, "out"));
        const int64_t most = lkt_json_integer(one, "most");
        const lki_image image = {ROWS, COLUMNS, 3, in, out};
        assert_int_equal(strlen(hex), 2 * IMAGE);
        apply(&image, what, json_object_get(one, "numbers"));
        for (int b = 0; b < IMAGE; b++)
            if (llabs((long long)out[b] - byte_at(hex, b)) > most)
                fail_msg("case %zu, %s: byte %d (row %d, column %d) is %d, Pillow has %d", i, what,
                         b, b / 3 / COLUMNS, b / 3 % COLUMNS, out[b], byte_at(hex, b));
    }
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_pillow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
